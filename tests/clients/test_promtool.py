"""What Prometheus' own checker says of the metrics of a gateway that has seen traffic."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request

import openai
import pytest

pytestmark = pytest.mark.clients


def test_promtool_has_nothing_to_say(demo):
    promtool = shutil.which("promtool")
    assert promtool, "promtool is not installed: apt-get install prometheus"
    with openai.OpenAI(base_url=demo.base, api_key="any", max_retries=0) as sdk:
        for _ in range(3):
            sdk.chat.completions.create(model="sim/flaky", messages=[{"role": "user", "content": "hi"}])
    with urllib.request.urlopen(demo.base + "/metrics") as response:
        text = response.read()
    assert b"gw_fallbacks_total{" in text
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
