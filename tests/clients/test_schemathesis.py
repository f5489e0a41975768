"""Requests generated from the gateway's own OpenAPI document: no 5xx, no undescribed answer, no crash in the log.

The gateway asks for credentials and gets the admin token, so that writes go through.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gw.web.openapi import document
from tests.e2e.conftest import starter

pytestmark = pytest.mark.clients

CASES = 2_000
TOKEN = "admin-token-0123456789"
TEXT = f"""
providers: {{sim: {{}}, groq: {{api_key: gsk_0123456789abcdef, base_url: "http://127.0.0.1:9/openai/v1"}}}}
models: {{stt: [sim/tone], llm: [sim/echo, groq/m], tts: [sim/tone]}}
stacks: {{demo: {{stt: sim/tone, llm: sim/echo, tts: sim/tone}}}}
projects: {{shop: {{daily_budget: 2, budget_action: block, default_stack: demo}}}}
fallbacks: {{llm: [groq/m, sim/echo]}}
auth: {{admin_token: {TOKEN}}}
"""
CONFIG = """
[checks]
positive_data_acceptance.enabled = false
object_level_authorization.enabled = false

[[operations]]
include-tag = "Voice"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 502, 503]
checks.negative_data_rejection.enabled = false
"""
"""The data plane passes on what it does not know, and an answer with nothing in it is 502 or, when that has opened the
breaker, 503: the demo's echo says nothing when nothing was said. A good value by its shape may still name what is not there.
"""
GENERATED = re.compile(r"(\d+) generated")


def test_generated_requests_meet_no_5xx_and_no_crash(tmp_path, package):
    package("schemathesis")
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    per_operation = CASES // sum(len(methods) for methods in document()["paths"].values())
    with starter(tmp_path) as start:
        daemon = start(TEXT, GW_SECRET="a secret of this test")
        done = subprocess.run(
            [
                sys.executable, "-m", "schemathesis.cli", "--config-file", str(tmp_path / "schemathesis.toml"),
                "run", f"{daemon.url}/v1/openapi.json", "--header", f"Authorization: Bearer {TOKEN}",
                "--phases", "examples,coverage,fuzzing", "--max-examples", str(per_operation),
                "--exclude-path", "/api/live", "--suppress-health-check", "filter_too_much", "--warnings", "off",
                "--generation-database", "none", "--seed", "1", "--no-color", "--continue-on-failure",
            ],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        log = daemon.text()
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert "Traceback" not in log
    assert "request_failed" not in log
    cases = GENERATED.search(done.stdout)
    assert cases is not None
    assert int(cases[1]) >= CASES
