from __future__ import annotations

import json

import pytest

from tests.fakes.gateway_http import json_reply

ID = "019421bcaa0013e3a3089836da9404b7"
ATTEMPT = {
    "model_id": "openai/x", "provider": "openai", "outcome": "too_slow", "started_ms": 1.0, "duration_ms": 4_000.0, "ttfb_ms": None,
    "error_code": "upstream_slow", "upstream_status": None, "detail": "", "ignored_settings": ["seed"], "lost_s": None,
}  # fmt: skip
RECORD = {
    "id": ID, "timestamp": 1_750_000_000.25, "project": "shop", "modality": "llm", "model_id": "groq/y", "status": "fallback",
    "ttfb_ms": 4_120.0, "gateway_ms": 0.4, "total_latency_ms": 4_500.0, "cost_usd": 0.00042, "wasted_usd": 0.0001, "error_code": None,
    "session_id": "call-1", "turn_id": "t1", "input_units": 120, "output_units": 30, "unit": "tokens", "pricing_source": "table:groq",
    "attempts": [
        ATTEMPT,
        ATTEMPT | {"model_id": "groq/y", "outcome": "ok", "started_ms": 4_001.0, "duration_ms": 499.0, "ttfb_ms": 119.0,
                   "error_code": None, "ignored_settings": []},
    ],
}  # fmt: skip
DETAIL = RECORD | {"endpoint": "/v1/chat/completions", "requested_model": "openai/x", "usage": {"source": "vendor"}}


@pytest.fixture
def gw(gateway, run):
    gateway.replies |= {f"GET /v1/requests/{ID}": json_reply(DETAIL), "GET /v1/logs": json_reply([RECORD])}
    return lambda *args: run(*args, "--url", gateway.url)


def test_a_request_with_its_attempts(gw):
    lines = gw("request", ID).stdout.splitlines()
    facts = dict(line.split("\t") for line in lines[1 : lines.index("")])
    assert facts["requested"] == "openai/x"
    assert (facts["answered by"], facts["status"], facts["first content"]) == ("groq/y", "fallback", "4.12 s")
    assert facts["cost"] == "$0.00042 (table:groq)"
    assert facts["wasted"].startswith("$0.0001 ")
    assert "error" not in facts
    assert [line.split("\t") for line in lines[lines.index("") + 1 :]] == [
        ["attempt", "outcome", "start_ms", "ttfb_ms", "total_ms", "detail"],
        ["openai/x", "too_slow", "1", "", "4000", "upstream_slow; without seed"],
        ["groq/y", "ok", "4001", "119", "499", ""],
    ]


def test_a_part_of_an_id_is_enough_where_no_other_has_it(gw, gateway):
    assert json.loads(gw("request", "da9404b7", "--json").stdout) == DETAIL
    assert gateway.requests[0].query == {"q": "da9404b7", "limit": "3"}
    gateway.replies["GET /v1/logs"] = json_reply([RECORD, RECORD | {"id": "0" * 32}])
    several = gw("request", "da9404b7")
    assert (several.exit_code, ID in several.stderr, "give more" in several.stderr) == (1, True, True)
    gateway.replies["GET /v1/logs"] = json_reply([])
    assert "no request has an id" in gw("request", "da9404b7").stderr


def test_a_session_in_order_with_its_cost(gw, gateway):
    plain = {"status": "success", "cost_usd": None, "wasted_usd": 0, "turn_id": "t0"}
    earlier = RECORD | plain | {"id": "0" * 32, "timestamp": 1_749_999_990.0}
    gateway.replies["GET /v1/logs"] = json_reply([RECORD, earlier])
    result = gw("session", "call-1")
    rows = [line.split("\t") for line in result.stdout.splitlines()[1:]]
    assert [(row[1], row[2], row[3]) for row in rows] == [("t0", "groq/y", "success"), ("t1", "groq/y", "fallback")]
    assert result.stderr.splitlines() == [
        "2 requests, 2 turns, 14.8 s", "cost $0.00042, and 1 requests without a known price",
        "of that, $0.0001 was spent on answers that nobody received", "1 fallback",
    ]  # fmt: skip
    assert gateway.requests[0].query == {"session": "call-1", "limit": "1000"}


def test_a_session_that_nobody_had(gw, gateway):
    gateway.replies["GET /v1/logs"] = json_reply([])
    result = gw("session", "call-2")
    assert (result.exit_code, "no request has the session 'call-2'" in result.stderr) == (1, True)
