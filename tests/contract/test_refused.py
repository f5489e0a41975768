"""What counts as an error and as a fallback: requests over HTTP, and the figures of the pages against SQL of the test's own."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from gw.wire import multipart
from tests.fakes.running import Running, open_running

CONFIG = """
providers:
  sim: {latency_ms: 0, token_ms: 0}
  down: {type: openai, api_key: sk-0123456789abcdef, base_url: "http://127.0.0.1:9/v1"}
  slow: {type: sim, latency_ms: 20, token_ms: 10000}
  one: {type: sim, latency_ms: 0}
models:
  llm:
    sim/echo: {price: {unit: 1M_tokens, input: 1000, output: 1000}}
    down/gpt:
    slow/echo:
    one/echo:
  tts: [sim/tone]
  stt: [sim/tone]
projects:
  spent: {daily_budget: 0.000001, budget_action: block}
  falls: {fallbacks: {llm: [down/gpt, sim/echo]}}
  leaves: {fallbacks: {llm: [down/gpt, slow/echo]}}
rate_limiting: {one: {requests_per_minute: 1}}
"""
FIGURES = """
select count(*), coalesce(sum(status = 'error' and error_code not in ('budget_exceeded', 'rate_limited')), 0),
       coalesce(sum(status = 'error' and error_code in ('budget_exceeded', 'rate_limited')), 0),
       coalesce(sum(status = 'fallback' or status = 'cancelled' and fallback_from is not null), 0),
       coalesce(sum(status = 'cancelled'), 0), round(coalesce(sum(cost_nusd), 0) / 1e9, 9)
from requests where (:project is null or project = :project) and (:session is null or session_id = :session)"""
NAMES = ("requests", "errors", "refused", "fallbacks", "cancelled", "cost")


async def chat(running: Running, model: str, *, project: str = "default", **ids: str) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    return (await running.ask("POST", "/v1/chat/completions", body, x_gw_project=project, **ids)).status


async def leave(running: Running, project: str, **ids: str) -> None:
    """Ask for a stream, and go after its first bytes."""
    body = b'{"model": "down/gpt", "stream": true, "messages": [{"role": "user", "content": "one two three"}]}'
    fields = {"content_type": "application/json", "x_gw_project": project, **ids}
    async with running.open("POST", "/v1/chat/completions", body, **fields) as response:
        assert response.status == 200
        await response.receive_some()


@pytest.fixture
async def running(tmp_path: Path):
    async with open_running(tmp_path, CONFIG) as running:
        with trio.fail_after(30):
            ids = {"x_gw_session": "call-1", "x_gw_turn": "turn-1"}
            assert await chat(running, "sim/echo") == 200
            assert await chat(running, "sim/echo", project="spent") == 200
            assert await chat(running, "sim/echo", project="spent", **ids) == 402
            assert await chat(running, "one/echo") == 200
            assert await chat(running, "one/echo", **ids) == 429
            assert await chat(running, "down/gpt", **ids) == 502
            assert await chat(running, "down/gpt", project="falls", **ids) == 200
            await leave(running, "leaves", **ids)
            while len((await running.get("/v1/logs?status=cancelled")).json) < 1:
                await trio.testing.wait_all_tasks_blocked()
            yield running


def sql(tmp_path: Path, project: str | None = None, session: str | None = None) -> dict[str, float]:
    db = apsw.Connection(f"file:{tmp_path / 'gw.db'}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    [row] = db.execute(FIGURES, {"project": project, "session": session})
    db.close()
    return dict(zip(NAMES, row, strict=True))


async def test_overview_and_comparison_equal_sql(running: Running, tmp_path: Path):
    expected = sql(tmp_path)
    assert {name: expected[name] for name in NAMES[:5]} == {"requests": 8, "errors": 1, "refused": 2, "fallbacks": 2, "cancelled": 1}
    for project in (None, "spent", "falls", "leaves", "default"):
        page = (await running.get("/api/overview?period=24h" + (f"&project={project}" if project else ""))).json
        expected = sql(tmp_path, project)
        for figures in (page["today"], page["compared"]["current"]):
            assert {name: figures[name] for name in NAMES} == pytest.approx(expected), project
        assert [page[f"{name}_today"] for name in NAMES[:5]] == [expected[name] for name in NAMES[:5]]
        assert sum(page["hours"]["errors"]) == expected["errors"]
        assert sum(page["compared"]["course"]["errors"]) == expected["errors"]
        assert sum(page["compared"]["course"]["requests"]) == expected["requests"]


async def test_sessions_and_turns_equal_sql(running: Running, tmp_path: Path):
    for project in ("spent", "default", "falls", "leaves"):
        expected = sql(tmp_path, project, "call-1")
        [session] = (await running.get(f"/v1/sessions?project={project}")).json
        whole = (await running.get(f"/v1/sessions/call-1?project={project}")).json
        [turn] = (await running.get(f"/api/turns?project={project}")).json
        for figures in (session, whole, turn):
            assert (figures["errors"], figures["fallbacks"]) == (expected["errors"], expected["fallbacks"]), project
            assert figures["cost_usd"] == pytest.approx(expected["cost"])
    for path in ("/v1/sessions", "/api/turns"):
        troubled = {
            trouble: {one["project"] for one in (await running.get(f"{path}?trouble={trouble}")).json}
            for trouble in ("error", "fallback", "any")
        }
        assert troubled == {"error": {"default"}, "fallback": {"falls", "leaves"}, "any": {"default", "falls", "leaves"}}


async def test_the_series_of_errors_has_no_refused_request(running: Running, tmp_path: Path):
    for by in ("none", "project", "model"):
        lines = (await running.get(f"/api/series?metric=errors&period=24h&by={by}")).json["series"]
        assert sum(sum(line["values"]) for line in lines) == sql(tmp_path)["errors"], by


async def test_log_and_metrics_say_which_were_refused(running: Running, tmp_path: Path):
    expected = sql(tmp_path)
    logged = (await running.get("/v1/logs?limit=50")).json
    assert sum(record["refused"] for record in logged) == expected["refused"]
    assert all(record["status"] == "error" for record in logged if record["refused"])
    text = (await running.get("/v1/metrics")).body.decode()
    counted: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "gw_request_outcomes_total":
                counted[sample.labels["status"]] = counted.get(sample.labels["status"], 0) + sample.value
    assert counted == {"success": 3, "error": 1, "refused": 2, "fallback": 1, "cancelled": 1}


async def test_an_own_rate_limit_says_nothing_about_the_provider(running: Running):
    providers = {one["provider"]: one for one in (await running.get("/api/reliability?period=24h")).json["providers"]}
    assert (providers["one"]["availability"], providers["one"]["totals"]["ok"], providers["one"]["totals"]["skipped"]) == (1.0, 1, 1)
    assert providers["down"]["availability"] == 0.0


async def test_modalities_of_one_model_are_apart_on_the_latency_page(running: Running):
    spoken = await running.ask("POST", "/v1/audio/speech", {"model": "sim/tone", "input": "hello there", "response_format": "wav"})
    head, tail = multipart.encode_form([("model", "sim/tone")], file_name="a.wav", file_content_type="audio/wav", boundary=b"x")
    fields = {"content_type": "multipart/form-data; boundary=x"}
    heard = await running.ask("POST", "/v1/audio/transcriptions", head + spoken.body + tail, **fields)
    assert heard.json["text"] == "hello there"
    records = (await running.get("/v1/logs?limit=2")).json
    page = (await running.get("/api/pages/latency?period=24h&model=sim%2Ftone+%28stt%29&other=sim%2Ftone+%28tts%29")).json
    assert "sim/tone" not in page["models"]
    for record, line, spread in zip(records, page["lines"], page["histograms"], strict=True):
        name = f"sim/tone ({record['modality']})"
        assert page["models"][name]["request_count"] == 1
        assert page["models"][name]["avg_ttfb_ms"] == pytest.approx(record["ttfb_ms"], rel=0.01)
        assert (line["model"], sum(line["series"][0]["count"])) == (name, 1)
        assert (spread["model"], spread["ttfb"]["count"]) == (name, 1)
        assert spread["ttfb"]["avg_ms"] == pytest.approx(record["ttfb_ms"], rel=0.01)
    assert page["models"]["sim/echo"]["request_count"] == 4  # one of them refused
    assert (await running.get("/v1/latency")).json["sim/tone"]["request_count"] == 2
