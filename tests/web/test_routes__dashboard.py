"""/api/*."""

from __future__ import annotations

import pytest

from tests.fakes.running import open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.temporary_gateway import ADMIN, SHOP, call, record, store_records
from tests.fakes.vendors.openai import FakeOpenAI


async def test_status(app):
    body = (await call(app, "/api/status")).json
    assert body["providers"]["groq"] == {"configured": True, "type": "cloud"}
    assert body["models"]["sim/echo"] == {"modality": "llm", "provider": "sim"}
    assert body["fallbacks"] == {"stt": [], "llm": ["groq/openai/gpt-oss-20b", "sim/echo"], "tts": []}


async def test_costs_by_project_only_without_a_filter(gateway, app):
    await store_records(gateway, record(1), record(2, project="default"))
    body = (await call(app, "/api/costs")).json
    assert body["by_project"] == {
        "default": {"cost": 0.25, "requests": 1},
        "shop": {"cost": 0.25, "requests": 1},
    }
    body = (await call(app, "/api/costs?project=shop&period=week")).json
    assert "by_project" not in body
    assert (body["total"], body["period"]) == (0.25, "week")


@pytest.mark.parametrize(("period", "status"), [("today", 200), ("week", 200), ("month", 422), ("all", 422)])
async def test_periods_of_latency(app, period, status):
    assert (await call(app, f"/api/latency?period={period}")).status == status


async def test_overview(gateway, app):
    await store_records(gateway, record(1), record(2, status="error", cost_nusd=0), record(3, timestamp=record().timestamp - 9 * 86_400))
    body = (await call(app, "/api/overview")).json
    assert {
        "total_requests": 3,
        "total_cost_today": 0.25,
        "total_cost_all": 0.5,
        "active_models": 4,
        "providers_configured": 2,
    }.items() <= body.items()
    assert (body["requests_today"], body["errors_today"]) == (2, 1)
    body = (await call(app, "/api/overview?project=shop")).json
    assert (body["total_requests"], body["active_models"]) == (3, 2)
    assert (await call(app, "/api/overview?project=default")).json["total_requests"] == 0


async def test_logs_and_projects_are_those_of_the_public_api(gateway, app):
    await store_records(gateway, record(1))
    for name in ("logs", "projects"):
        assert (await call(app, f"/api/{name}")).json == (await call(app, f"/v1/{name}")).json


@pytest.mark.parametrize("name", ["status", "costs", "latency", "logs", "overview", "projects"])
async def test_everything_needs_the_admin_token(guarded, app_of, name):
    app = app_of(guarded)
    assert (await call(app, f"/api/{name}")).status == 401
    assert (await call(app, f"/api/{name}", SHOP)).status == 403
    assert (await call(app, f"/api/{name}", ADMIN)).status == 200


async def test_the_models_that_moved_most_against_the_same_hours_of_yesterday(gateway, app):
    now = record().timestamp
    day, hour = 86_400, 3_600
    await store_records(
        gateway,
        record(1, model_id="sim/echo", cost_nusd=3_000_000_000),
        record(2, model_id="sim/echo", cost_nusd=1_000_000_000, timestamp=now - day),
        record(3, model_id="sim/echo", cost_nusd=9_000_000_000, timestamp=now - day + 2 * hour),  # later than now
        record(4, cost_nusd=500_000_000, timestamp=now - day),
    )
    assert (await call(app, "/api/overview")).json["movers"] == [
        {"model": "sim/echo", "cost": 3.0, "cost_yesterday": 1.0, "requests": 1, "requests_yesterday": 1},
        {"model": record().model_id, "cost": 0.0, "cost_yesterday": 0.5, "requests": 0, "requests_yesterday": 1},
    ]


OWN_KEYS = """
providers:
  sim: {}
  keyless: {type: openai}
models: {llm: [keyless/gpt-x, sim/echo]}
fallbacks: {llm: [keyless/gpt-x, sim/echo]}
rate_limiting: {sim: {requests_per_minute: 1}}
projects: {shop: {providers: {keyless: sk-of-the-shop, sim: key-of-the-shop}}, other: {}}
"""


async def test_the_preview_of_a_route_knows_the_keys_and_limits_of_the_project(tmp_path):
    async with open_running(tmp_path, OWN_KEYS) as running:

        async def preview(project: str) -> tuple[str | None, list[tuple[str, int | None]]]:
            route = (await running.get(f"/api/route?model=keyless/gpt-x&project={project}")).json
            return route["answers"], [(entry["passed_over"], entry["remaining"]) for entry in route["candidates"]]

        assert await preview("shop") == ("keyless/gpt-x", [("", None), ("", 1)])
        assert await preview("other") == ("sim/echo", [("not_configured", None), ("", 1)])
        body = {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}
        assert (await running.ask("POST", "/v1/chat/completions", body, x_gw_project="shop")).status == 200
        assert await preview("shop") == ("keyless/gpt-x", [("", None), ("rate_limited", 0)])
        assert await preview("other") == ("sim/echo", [("not_configured", None), ("", 1)])


TWO_MODELS = """
providers: {{own: {{type: openai, api_key: test-key, base_url: "{url}/v1"}}}}
models: {{llm: [own/m, own/ill]}}
"""


async def test_a_model_that_fails_does_not_stop_the_others_of_its_provider(tmp_path, nursery):
    """Five calls of a model that fails, then a route preview and the reliability report."""
    url = await nursery.start(serve_asgi, FakeOpenAI(api_key="test-key", status=[500] * 5))
    async with open_running(tmp_path, TWO_MODELS.format(url=url)) as running:
        question = {"messages": [{"role": "user", "content": "hi"}]}
        for _ in range(5):
            answer = await running.ask("POST", "/v1/chat/completions", {"model": "own/ill", **question})
            assert answer.status == 502
        assert (await running.ask("POST", "/v1/chat/completions", {"model": "own/m", **question})).status == 200
        ill = (await running.get("/api/route?model=own/ill")).json["candidates"][0]
        assert (ill["breaker"], ill["passed_over"]) == ("open", "breaker_open")
        assert (await running.get("/api/route?model=own/m")).json["candidates"][0]["breaker"] == "closed"
        (provider,) = (await running.get("/api/reliability")).json["providers"]
        assert (provider["breaker"], provider["models"]) == ("closed", {"llm:own/ill": "open"})
