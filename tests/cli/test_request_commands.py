from __future__ import annotations

import json
import urllib.request

import pytest

from tests.fakes.gateway_http import json_reply

ID = "019421bcaa0013e3a3089836da9404b7"
ATTEMPT = {
    "model_id": "openai/x", "provider": "openai", "outcome": "too_slow", "started_ms": 1.0, "duration_ms": 4_000.0, "ttfb_ms": None,
    "error_code": "upstream_slow", "upstream_status": None, "detail": "", "ignored_settings": ["seed"], "lost_s": None,
    "text_characters": None,
    "route": "front-desk", "routing": "weight 5 of 100",
}  # fmt: skip
RECORD = {
    "id": ID, "timestamp": 1_750_000_000.25, "project": "shop", "modality": "llm", "model_id": "groq/y", "status": "fallback",
    "ttfb_ms": 4_120.0, "gateway_ms": 0.4, "total_latency_ms": 4_500.0, "cost_usd": 0.00042, "wasted_usd": 0.0001, "error_code": None,
    "session_id": "call-1", "turn_id": "t1", "input_units": 120, "output_units": 30, "unit": "tokens", "pricing_source": "table:groq",
    "attempts": [
        ATTEMPT,
        ATTEMPT | {"model_id": "groq/y", "outcome": "ok", "started_ms": 4_001.0, "duration_ms": 499.0, "ttfb_ms": 119.0, "route": "",
                   "error_code": None, "ignored_settings": []},
    ],
}  # fmt: skip
DETAIL = RECORD | {"endpoint": "/v1/chat/completions", "requested_model": "openai/x", "usage": {"source": "vendor"}}


SESSION = {
    "session_id": "call-1", "project": "shop", "first_request_id": "0" * 32, "timestamp": 1_749_999_990.0, "length_ms": 14_750.0,
    "turns": 2, "requests": 2, "first_audio_p50_ms": 450.0, "first_audio_p95_ms": 2_150.0, "first_audio_max_ms": 2_150.0,
    "interruptions": 0, "fallbacks": 1, "errors": 0, "silence_ms": None, "cost_usd": 0.00042, "wasted_usd": 0.0001,
    "unpriced_requests": 1, "is_cut": False,
}  # fmt: skip


@pytest.fixture
def gw(gateway, run):
    gateway.replies |= {f"GET /v1/requests/{ID}": json_reply(DETAIL), "GET /v1/logs": json_reply([RECORD])}
    whole = SESSION | {"conversation": [], "others": []}
    gateway.replies |= {"GET /v1/sessions/call-1": json_reply(whole), "GET /v1/sessions": json_reply([SESSION])}
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
        ["openai/x", "too_slow", "1", "", "4000", "upstream_slow; without seed; route front-desk: weight 5 of 100"],
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
        "2 requests, 2 turns, 14.8 s", "first audio p50 450 ms, p95 2.15 s, longest 2.15 s",
        "cost $0.00042, and 1 requests without a known price",
        "of that, $0.0001 was spent on answers that nobody received", "1 fallback",
    ]  # fmt: skip
    assert gateway.requests[0].query == {"session": "call-1", "limit": "1000"}


def test_a_session_that_nobody_had(gw, gateway):
    gateway.replies["GET /v1/logs"] = json_reply([])
    result = gw("session", "call-2")
    assert (result.exit_code, "no request has the session 'call-2'" in result.stderr) == (1, True)


def test_sessions(gw, gateway):
    result = gw("sessions", "--sort", "first-audio", "--project", "shop", "--since", "2026-01-31T09:30", "--trouble", "any")
    [names, row] = [line.split("\t") for line in result.stdout.splitlines()]
    cells = dict(zip(names, row, strict=True))
    assert (cells["session"], cells["turns"], cells["fallbacks"], cells["silence_ms"]) == ("call-1", "2", "1", "")
    assert (cells["length_ms"], cells["audio_p95_ms"], cells["cost_usd"]) == ("14750", "2150", "0.000420000")
    [sent] = gateway.requests
    wanted = {"sort": "-first_audio_p95_ms", "project": "shop", "from": "2026-01-31T09:30", "trouble": "any", "limit": "50"}
    assert (sent.path, sent.query) == ("/v1/sessions", wanted)
    assert json.loads(gw("sessions", "--json").stdout) == [SESSION]


def test_both_say_what_the_gateway_recorded(real_gateway, run):
    """Sent over HTTP, read from the database that the gateway holds."""
    for turn in ("t1", "t1", "t2"):
        headers = {"content-type": "application/json", "x-gw-session": "call 7/a", "x-gw-turn": turn, "x-gw-project": "shop"}
        body = json.dumps({"model": "sim/echo", "messages": [{"role": "user", "content": turn}]}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{real_gateway.url}/v1/chat/completions", body, headers)) as answer:
            assert answer.status == 200
    [row] = json.loads(run("sessions", "--json").stdout)
    assert (row["session_id"], row["project"], row["turns"], row["requests"]) == ("call 7/a", "shop", 2, 3)
    result = run("session", "call 7/a")
    assert [line.split("\t")[1] for line in result.stdout.splitlines()[1:]] == ["t1", "t1", "t2"]
    assert f"3 requests, 2 turns, {row['length_ms'] / 1_000:.1f} s" in result.stderr
