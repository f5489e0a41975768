"""Requests generated from the gateway's own OpenAPI document: no 5xx, no undescribed answer, no crash in the log.

The gateway asks for credentials and gets the admin token, so that writes go through. `GW_NIGHTLY=1` makes it 100,000 requests, in rounds
with a seed each: an operation that takes few parameters has no more different ones.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gw.web.openapi import document
from tests.e2e.conftest import Daemon, starter
from tests.fakes.nightly import times

pytestmark = pytest.mark.clients

CASES = times(2_000, 100_000)
IN_A_ROUND = times(2_000, 10_000)
TOKEN = "admin-token-8351026789"
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

[[operations]]
include-path-regex = "^/api/oidc/(start|callback)$"
checks.content_type_conformance.enabled = false
"""
"""The data plane passes on what it does not know, and an answer with nothing in it is 502 or, when that has opened the
breaker, 503: the demo's echo says nothing when nothing was said. A good value by its shape may still name what is not there.
The redirects of a sign-in are followed, so that what is checked is the dashboard's answer.
"""
GENERATED = re.compile(r"(\d+) generated")


def generate(daemon: Daemon, folder: Path, seed: int) -> int:
    """Send one round of requests; return how many. Examples and every kind of wrong value are the same in each: the first has them."""
    phases = "examples,coverage,fuzzing" if seed == 1 else "fuzzing"
    per_operation = IN_A_ROUND // sum(len(methods) for methods in document()["paths"].values())
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "--config-file", str(folder / "schemathesis.toml"),
            "run", f"{daemon.url}/v1/openapi.json", "--header", f"Authorization: Bearer {TOKEN}",
            "--phases", phases, "--max-examples", str(per_operation),
            "--exclude-path", "/api/live", "--suppress-health-check", "filter_too_much", "--warnings", "off",
            "--generation-database", "none", "--seed", str(seed), "--no-color", "--continue-on-failure",
        ],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"seed {seed}: {done.stdout[-20_000:]}{done.stderr[-2_000:]}"
    cases = GENERATED.search(done.stdout)
    assert cases is not None
    return int(cases[1])


def test_generated_requests_meet_no_5xx_and_no_crash(tmp_path, package):
    package("schemathesis")
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    sent = rounds = 0
    with starter(tmp_path) as start:
        daemon = start(TEXT, GW_SECRET="a secret of this test")
        while sent < CASES:
            rounds += 1
            cases = generate(daemon, tmp_path, rounds)
            print(f"round {rounds}: {cases} requests", flush=True)
            assert cases >= IN_A_ROUND // 10
            sent += cases
        log = daemon.text()
    assert "Traceback" not in log
    assert "request_failed" not in log
