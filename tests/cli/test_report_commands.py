from __future__ import annotations

import json
import time

import pytest

from tests.fakes.gateway_http import json_reply

COSTS = {
    "period": "today",
    "project": None,
    "total": 0.0015,
    "unpriced_requests": 0,
    "by_provider": {"sim": {"cost": 0.001, "requests": 5}, "groq": {"cost": 0.0005, "requests": 1}},
    "by_model": {"sim/echo": {"cost": 0.001, "requests": 5}, "groq/x": {"cost": 0.0005, "requests": 1}},
    "by_project": {"demo": {"cost": 0.0015, "requests": 6}},
}
LATENCY = {
    "sim/echo": {
        "avg_ttfb_ms": 12.5,
        "avg_latency_ms": 1_250.0,
        "request_count": 3,
        "ttfb_percentiles": {"p50": 12.0, "p95": 20.0, "p99": 20.0},
        "latency_percentiles": {"p50": 1_200.0, "p95": 2_000.0, "p99": 2_000.0},
    },
    "sim/tone": {
        "avg_ttfb_ms": None,
        "avg_latency_ms": 3.0,
        "request_count": 1,
        "ttfb_percentiles": {"p50": None, "p95": None, "p99": None},
        "latency_percentiles": {"p50": 3.0, "p95": 3.0, "p99": 3.0},
    },
}
RECORD = {
    "id": "0123456789abcdef",
    "timestamp": 1_750_000_000.25,
    "project": "demo",
    "modality": "llm",
    "model_id": "sim/echo",
    "status": "fallback",
    "ttfb_ms": 12.5,
    "total_latency_ms": 1_250.0,
    "cost_usd": 0.00001,
}
PROJECTS = {
    "projects": [{"id": "demo", "daily_budget": 0.01}, {"id": "default", "daily_budget": 0}],
    "stats": {"demo": {"cost_today": 0.0015, "requests_today": 6}},
}


@pytest.fixture
def gw(gateway, run):
    gateway.replies |= {
        "GET /v1/costs": json_reply(COSTS),
        "GET /v1/logs": json_reply([RECORD, RECORD | {"ttfb_ms": None, "cost_usd": None, "status": "error"}]),
        "GET /v1/projects": json_reply(PROJECTS),
        "GET /v1/latency": json_reply(LATENCY),
    }
    return lambda *args: run(*args, "--url", gateway.url)


def test_costs_as_tab_separated_values(gw, gateway):
    result = gw("costs")
    assert result.stdout == "provider\trequests\tcost\nsim\t5\t0.001000000\ngroq\t1\t0.000500000\n"
    assert gateway.requests[0].query == {"period": "today"}


def test_costs_by_model_of_a_project_and_period(gw, gateway):
    result = gw("costs", "--by", "model", "--period", "week", "--project", "demo")
    assert result.stdout.splitlines()[1] == "sim/echo\t5\t0.001000000"
    assert gateway.requests[0].query == {"period": "week", "project": "demo"}


def test_costs_as_json(gw):
    assert json.loads(gw("costs", "--json").stdout) == COSTS


def test_costs_for_people_have_a_total_and_budgets(gw, terminal):
    result = gw("costs")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["sim", "5", "$0.001"] in lines
    assert ["total", "6", "$0.0015"] in lines
    assert result.stderr.startswith("budget demo: $0.0015 of $0.01")
    assert "15%" in result.stderr


def test_a_key_that_may_not_see_budgets_still_sees_costs(gw, gateway, terminal):
    gateway.replies["GET /v1/projects"] = json_reply({}, 403)
    result = gw("costs")
    assert (result.exit_code, result.stderr) == (0, "")


def test_costs_that_are_not_whole_say_so(gw, gateway):
    gateway.replies["GET /v1/costs"] = json_reply(COSTS | {"unpriced_requests": 2})
    assert "2 requests to models without a known price are not included in the total\n" in gw("costs").stderr
    gateway.replies["GET /v1/costs"] = json_reply(COSTS | {"unpriced_requests": 2, "unpriced_estimate": 0.25})
    assert "not included in the total; budgets count $0.25 for them" in gw("costs").stderr


def test_what_nobody_heard_is_told_with_the_costs(gw, gateway):
    gateway.replies["GET /v1/costs"] = json_reply(COSTS | {"wasted": 0.25})
    assert "of that, $0.25 was spent on answers that nobody received" in gw("costs").stderr


def test_what_the_phrase_cache_saved_is_told_with_the_costs(gw, gateway):
    gateway.replies["GET /v1/costs"] = json_reply(COSTS | {"saved": 0.25})
    assert "$0.25 more was saved by the phrase cache" in gw("costs").stderr


@pytest.mark.parametrize("args", [("--period", "yesterday"), ("--by", "colour")])
def test_costs_with_a_word_it_does_not_know_is_usage(gw, args):
    assert gw("costs", *args).exit_code == 2


def test_logs_as_tab_separated_values(gw, gateway):
    result = gw("logs", "--limit", "2", "--status", "error", "--modality", "llm")
    head, first, second = (line.split("\t") for line in result.stdout.splitlines())
    assert head == ["time", "project", "modality", "model", "status", "ttfb_ms", "total_ms", "cost_usd", "id"]
    when = "2025-06-15T15:06:40.250+00:00"
    assert first == [when, "demo", "llm", "sim/echo", "fallback", "12.5", "1250", "0.000010000", "0123456789abcdef"]
    assert (second[5], second[7]) == ("", "")
    assert gateway.requests[0].query == {"limit": "2", "status": "error", "modality": "llm"}


def test_logs_as_json(gw):
    assert json.loads(gw("logs", "--json").stdout)[0] == RECORD


def test_logs_for_people(gw, terminal):
    result = gw("logs")
    assert "06-15 15:06:40" in result.stdout
    assert "1.25 s" in result.stdout
    assert "unpriced" in result.stdout


@pytest.mark.parametrize("limit", ["0", "1001", "x"])
def test_logs_limit(gw, limit):
    assert gw("logs", "--limit", limit).exit_code == 2


def test_latency_as_tab_separated_values(gw, gateway):
    head, echo, tone = (line.split("\t") for line in gw("latency", "--period", "week").stdout.splitlines())
    assert head[:4] == ["model", "requests", "ttfb_mean_ms", "ttfb_p50_ms"]
    assert head[6:] == ["total_mean_ms", "total_p50_ms", "total_p95_ms", "total_p99_ms"]
    assert echo == ["sim/echo", "3", "12.5", "12", "20", "20", "1250", "1200", "2000", "2000"]
    assert tone[2:6] == ["", "", "", ""]
    assert gateway.requests[0].query == {"period": "week"}


def test_latency_for_people(gw, terminal):
    assert "1.20 s" in gw("latency").stdout


def test_latency_as_json(gw):
    assert json.loads(gw("latency", "--json").stdout) == LATENCY


def test_latency_without_a_gateway(run, real_gateway, tmp_path):
    real_gateway.chat()
    assert run("latency").stdout.splitlines()[1].startswith("sim/echo\t1\t")


def test_logs_of_one_model(gw, gateway):
    gw("logs", "--model", "sim/echo")
    assert gateway.requests[0].query == {"limit": "100", "model": "sim/echo"}


def test_logs_of_a_time_a_session_and_an_id(gw, gateway):
    gw("logs", "--since", "2026-01-31T09:30", "--until", "2026-02-01", "--session", "s1", "--turn", "t1", "--search", "9404b7")
    assert gateway.requests[0].query == {
        "limit": "100", "from": "2026-01-31T09:30", "to": "2026-02-01", "session": "s1", "turn": "t1", "q": "9404b7",
    }  # fmt: skip


def test_logs_since_some_time_ago(gw, gateway):
    gw("logs", "--since", "2h")
    assert float(gateway.requests[0].query["from"]) == pytest.approx(time.time() - 7_200, abs=60)


def test_following_takes_no_times(gw):
    assert gw("logs", "--follow", "--since", "2h").exit_code == 2


@pytest.mark.parametrize("command", ["logs", "latency"])
def test_a_narrow_terminal_gets_fewer_columns(gw, gateway, terminal, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    gateway.replies["GET /v1/latency"] = json_reply({"elevenlabs/eleven_flash_v2_5": LATENCY["sim/echo"]})
    gateway.replies["GET /v1/logs"] = json_reply([RECORD | {"model_id": "elevenlabs/eleven_flash_v2_5"}])
    narrow = gw(command).stdout.splitlines()
    assert max(map(len, narrow)) <= 80
    monkeypatch.setenv("COLUMNS", "160")
    assert len(gw(command).stdout.splitlines()[0].split()) > len(narrow[0].split())


def test_ids_are_told_apart_by_their_ends(gw, terminal):
    assert " abcdef" in gw("logs").stdout
