"""What Prometheus' own checker says of the metrics of a gateway that has seen traffic."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import urllib.request

import openai
import pytest

pytestmark = pytest.mark.clients


def test_promtool_has_nothing_to_say(demo):
    promtool = shutil.which("promtool")
    assert promtool, "promtool is not installed: apt-get install prometheus"
    hostile = 'm"} 1\\n# TYPE gw_evil x'
    made = {"modality": "llm", "provider_id": "sim", "model_name": hostile}
    body = json.dumps(made).encode()
    request = urllib.request.Request(demo.base + "/models", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as response:
        assert json.load(response)["created"] is True
    messages = [{"role": "user", "content": "hi"}]
    with openai.OpenAI(base_url=demo.base, api_key="any", max_retries=0) as sdk:
        for _ in range(3):
            sdk.chat.completions.create(model="sim/flaky", messages=messages)
        with contextlib.suppress(openai.APIError):
            sdk.chat.completions.create(model=f"sim/{hostile}", messages=messages)
    with urllib.request.urlopen(demo.base + "/metrics") as response:
        text = response.read()
    assert b"gw_fallbacks_total{" in text
    assert b'from="sim/m\\"} 1' in text  # the demo's engine has no such model, so the chain went on
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
