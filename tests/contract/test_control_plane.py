"""The control plane, row by row of sections 4.1 and 4.2 of the specification, over a socket."""

from __future__ import annotations

import re
import types
from urllib.parse import quote

import msgspec
import pytest

from gw.relay.relay import Relay
from gw.types.compiled import edition_of
from gw.web.route import Raw
from gw.web.routes import TABLE
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import NOON, YAML, record, store_records

BY_ID = {route.id: route for route in TABLE.routes}
PROJECT = {
    "project_id": "desk",
    "name": "Front desk",
    "description": "Takes calls",
    "daily_budget": 12.5,
    "budget_action": "block",
    "default_stack": "demo",
    "tags": ["a", "b"],
}
PROVIDER = {
    "provider_id": "my-openai",
    "provider_type": "openai",
    "api_key": "sk-canary-0123456789abcdef",
    "base_url": "https://proxy.example/v1",
}
MODEL = {
    "modality": "llm",
    "provider_id": "sim",
    "model_name": "org/echo:2",
    "display_name": "Echo two",
    "default_language": "en",
}


@pytest.fixture
async def running(tmp_path):
    async with open_running(tmp_path) as opened:
        yield opened


def conforms(answer, operation_id: str) -> bool:
    """The answer has exactly the members of one of the shapes that the table declares."""
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].partition(";")[0] == "application/json"
    for shape in BY_ID[operation_id].answers:
        if isinstance(shape, Raw):
            continue
        try:
            if msgspec.to_builtins(msgspec.convert(answer.json, shape)) == answer.json:
                return True
        except msgspec.ValidationError:
            continue
    raise AssertionError(f"not of the shape of {operation_id}: {answer.body!r}")


# ---- reads


READS = {
    "front": "/", "health": "/health", "ready": "/ready", "status": "/v1/status", "list_models": "/v1/models",
    "list_voices": "/v1/tts/voices",
    "get_model": "/v1/models/sim/echo", "costs": "/v1/costs", "latency": "/v1/latency", "logs": "/v1/logs",
    "first_audio": "/v1/first-audio", "compare": "/v1/compare",
    "request": f"/v1/requests/{1:032x}", "audit_log": "/v1/audit-log", "list_projects": "/v1/projects",
    "get_project": "/v1/projects/shop", "list_pronunciations": "/v1/projects/shop/pronunciations",
    "list_providers": "/v1/providers", "get_provider": "/v1/providers/groq",
    "list_keys": "/v1/keys", "list_tokens": "/v1/tokens", "list_people": "/v1/people", "list_logins": "/v1/logins",
    "alerts": "/v1/alerts",
    "capture_stats": "/v1/capture", "phrase_cache": "/v1/cache", "list_fallbacks": "/v1/fallbacks", "dashboard_status": "/api/status",
    "dashboard_costs": "/api/costs", "dashboard_latency": "/api/latency", "dashboard_logs": "/api/logs",
    "overview": "/api/overview", "dashboard_projects": "/api/projects", "session": "/api/session",
    "series": "/api/series", "histogram": "/api/histogram?model=groq/openai/gpt-oss-20b", "forecast": "/api/forecast",
    "reliability": "/api/reliability", "turns": "/api/turns", "turn": "/api/turns/t1",
    "sessions": "/v1/sessions", "conversation": "/v1/sessions/s1", "route": "/api/route?model=sim/echo",
    "page_latency": "/api/pages/latency?model=groq/openai/gpt-oss-20b&other=sim/echo", "page_costs": "/api/pages/costs",
    **{f"page_{name}": f"/api/pages/{name}" for name in ("providers", "models", "projects", "keys", "playground", "people", "settings")},
}  # fmt: skip
CAPTURED = {"read_capture", "capture_audio"}
"""Reads of what was captured; `tests/contract/test_capture.py` tests them."""
NO_JSON = {"metrics", "openapi", "live", "logs_csv", "oidc_start", "oidc_callback"}
SHARED = {"fleet"}
"""Read of a fleet; `tests/clients/test_valkey_fleet.py` tests it."""
STORED = {"response", "response_input"}
"""Reads of the data plane; `tests/dialects/test_openai_responses.py` tests them."""


async def test_every_read_has_its_shape(running):
    failed = record(2, status="error", cost_nusd=None, ttfb_ms=None, attempts=())
    await store_records(running.gateway, record(1, turn_id="t1", session_id="s1"), failed)
    await running.ask("POST", "/v1/projects", PROJECT)
    key_id = (await running.ask("POST", "/v1/keys", {})).json["key_id"]
    token_id = (await running.ask("POST", "/v1/tokens", {"name": "ci", "role": "viewer"})).json["token_id"]
    for operation_id, target in {**READS, "get_key": f"/v1/keys/{key_id}", "get_token": f"/v1/tokens/{token_id}"}.items():
        answer = await running.get(target)
        assert conforms(answer, operation_id)
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
    reads = {route.id for route in TABLE.routes if route.method == "GET"}
    assert reads == set(READS) | {"get_key", "get_token"} | NO_JSON | SHARED | STORED | CAPTURED


async def test_health(running):
    running.gateway.started -= 3.5
    assert (await running.get("/health")).json == {
        "status": "ok",
        "problems": [],
        "uptime_seconds": pytest.approx(3.5, abs=3.4),
        "version": running.gateway.version,
        "edition": edition_of(Relay),
    }


async def test_status(running):
    body = (await running.get("/v1/status")).json
    assert set(body) == {"providers", "model_count", "project_count", "journal", "workers", "slots"}
    assert body["providers"]["sim"] == {"configured": True, "type": "local"}
    assert body["providers"]["bare"] == {"configured": False, "type": "cloud"}
    assert (body["model_count"], body["project_count"]) == (4, 2)


async def test_models(running):
    body = (await running.get("/v1/models")).json
    assert body["project"] is None
    assert {"modality": "llm", "provider": "groq", "model": "openai/gpt-oss-20b"}.items() <= body["models"][
        "groq/openai/gpt-oss-20b"
    ].items()
    body = (await running.get("/v1/models?project=shop")).json
    assert (body["project"], sorted(body["models"])) == ("shop", ["sim/echo", "sim/tone"])


@pytest.mark.parametrize("path", ["/v1/costs", "/api/costs"])
async def test_costs(running, path):
    week = record(3, timestamp=NOON - 3 * 86_400)
    month = record(4, timestamp=NOON - 20 * 86_400)
    old = record(5, timestamp=NOON - 80 * 86_400)
    await store_records(running.gateway, record(1), record(2, project="default"), week, month, old)
    assert (await running.get(path)).body == (await running.get(path + "?period=today")).body
    totals = {p: (await running.get(f"{path}?period={p}")).json["total"] for p in ("today", "week", "month", "all")}
    assert totals == {"today": 0.5, "week": 0.75, "month": 1.0, "all": 1.25}
    body = (await running.get(path)).json
    assert (body["period"], body["project"]) == ("today", None)
    assert body["by_provider"] == {"groq": {"cost": 0.5, "requests": 2}}
    assert body["by_model"] == {"groq/openai/gpt-oss-20b": {"cost": 0.5, "requests": 2}}
    assert body["by_project"] == {"default": {"cost": 0.25, "requests": 1}, "shop": {"cost": 0.25, "requests": 1}}
    body = (await running.get(path + "?project=shop")).json
    assert (body["project"], body["total"]) == ("shop", 0.25)
    assert ("by_project" in body) is path.startswith("/v1")


@pytest.mark.parametrize("path", ["/v1/latency", "/api/latency"])
async def test_latency(running, path):
    assert (await running.get(path)).json == {}
    await store_records(running.gateway, record(1), record(2, timestamp=NOON - 3 * 86_400, total_latency_ms=800.0))
    today = (await running.get(path)).json["groq/openai/gpt-oss-20b"]
    assert (today["avg_ttfb_ms"], today["avg_latency_ms"], today["request_count"]) == (100.0, 400.0, 1)
    assert set(today["ttfb_percentiles"]) == set(today["latency_percentiles"]) == {"p50", "p95", "p99"}
    week = (await running.get(path + "?period=week&project=shop")).json["groq/openai/gpt-oss-20b"]
    assert (week["avg_latency_ms"], week["request_count"]) == (600.0, 2)
    assert (await running.get(path + "?period=month")).status == (200 if path.startswith("/v1") else 422)


@pytest.mark.parametrize("path", ["/v1/logs", "/api/logs"])
async def test_logs(running, path):
    speech = record(3, modality="tts", model_id="sim/tone", provider="sim", project="default")
    await store_records(running.gateway, *(record(10 + n) for n in range(101)), speech)
    rows = (await running.get(path)).json
    assert [len(rows), rows[0]["id"]] == [100, f"{110:032x}"]
    fields = {"timestamp", "project", "modality", "model_id", "cost_usd", "total_latency_ms", "status"}
    assert fields <= set(rows[0])
    assert len((await running.get(path + "?limit=1000")).json) == 102
    assert len((await running.get(path + "?limit=1")).json) == 1
    assert [row["id"] for row in (await running.get(path + "?modality=tts")).json] == [speech.id]
    assert [row["id"] for row in (await running.get(path + "?project=default")).json] == [speech.id]


async def test_overview(running):
    await store_records(running.gateway, record(1), record(2, project="default"), record(3, timestamp=NOON - 9 * 86_400))
    spec = ("total_requests", "total_cost_today", "total_cost_all", "active_models", "providers_configured")
    body = (await running.get("/api/overview")).json
    assert [body[name] for name in spec] == [3, 0.5, 0.75, 4, 2]
    body = (await running.get("/api/overview?project=default")).json
    assert [body[name] for name in spec][:3] == [1, 0.25, 0.25]


async def test_dashboard_status(running):
    body = (await running.get("/api/status")).json
    assert set(body) == {"providers", "models", "fallbacks"}
    assert body["models"]["sim/echo"] == {"modality": "llm", "provider": "sim"}
    assert body["fallbacks"] == {"stt": [], "llm": ["groq/openai/gpt-oss-20b", "sim/echo"], "tts": []}


async def test_projects(running):
    await store_records(running.gateway, record(1))
    body = (await running.get("/v1/projects")).json
    assert body == (await running.get("/api/projects")).json
    shop = next(entry for entry in body["projects"] if entry["id"] == "shop")
    assert {
        "id": "shop", "name": "The shop", "description": "", "daily_budget": 2.0, "default_stack": "demo",
        "tags": ["a"], "accent": "#102030",
    }.items() <= shop.items()  # fmt: skip
    assert body["stats"]["shop"] == {"cost_today": 0.25, "requests_today": 1}


@pytest.mark.parametrize(("nusd", "status"), [(1_590_000_000, "ok"), (1_600_000_000, "warning"), (2_000_000_000, "exceeded")])
async def test_one_project(running, nusd, status):
    await store_records(running.gateway, record(1, cost_nusd=nusd))
    body = (await running.get("/v1/projects/shop")).json
    assert (body["budget_action"], body["today_spend"], body["budget_status"]) == ("block", nusd / 1e9, status)
    assert body["today"] == {"cost_today": nusd / 1e9, "requests_today": 1}
    assert body["costs_today"] == {
        "total": nusd / 1e9,
        "by_provider": {"groq": {"cost": nusd / 1e9, "requests": 1}},
        "by_model": {"groq/openai/gpt-oss-20b": {"cost": nusd / 1e9, "requests": 1}},
    }


async def test_providers(running):
    entries = {entry["provider_id"]: entry for entry in (await running.get("/v1/providers")).json["providers"]}
    assert list(entries) == ["sim", "groq", "bare"]
    assert (entries["groq"]["source"], entries["groq"]["base_url"]) == ("yaml", None)
    masked = entries["groq"]["api_key_masked"]
    assert "…" in masked
    assert "0123456789" not in masked
    assert (await running.get("/v1/providers/groq")).json == entries["groq"]


async def test_metrics(running):
    await store_records(running.gateway, record(1))
    answer = await running.get("/v1/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.body.decode()
    for line in (
        "# TYPE gw_uptime_seconds gauge", "# TYPE gw_providers_configured gauge", "# HELP gw_cost_usd_total ",
        'gw_cost_usd_total{period="today"} 0.25', 'gw_requests_total{provider="groq"} 1.0',
        'gw_cost_usd_total{provider="groq"} 0.25', "gw_providers_configured 2.0",
    ):  # fmt: skip
        assert line in text, line


# ---- bad values of reads

BAD_QUERIES = [
    *((path, "period", value) for path in ("/v1/costs", "/api/costs") for value in ("yesterday", "", "Today", "year")),
    *((path, "period", value) for path in ("/v1/latency", "/api/latency") for value in ("all", "", "x")),
    ("/api/latency", "period", "month"),
    *((path, "limit", value) for path in ("/v1/logs", "/api/logs") for value in ("0", "1001", "-1", "x", "", "1.5", "1e2", "٣")),
    *(("/v1/audit-log", "limit", value) for value in ("0", "501", "x", "")),
    *((path, "modality", value) for path in ("/v1/logs", "/api/logs") for value in ("video", "LLM")),
    ("/v1/audit-log", "entity_type", "thing"),
    ("/v1/audit-log", "action", "look"),
    ("/v1/logs", "status", "good"),
    ("/v1/logs", "before", "no-such-record"),
    *((path, "limt", "5") for path in ("/v1/logs", "/v1/costs", "/v1/status", "/api/overview", "/v1/projects", "/v1/keys")),
]


@pytest.mark.parametrize(("path", "param", "value"), BAD_QUERIES)
async def test_bad_query_values_are_422_and_named(running, path, param, value):
    answer = await running.get(f"{path}?{param}={quote(value)}")
    assert (answer.status, answer.error["code"], answer.error["type"]) == (422, "invalid_request", "RequestError")
    assert answer.error["param"] == param
    assert answer.error["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/v1/models", "/v1/costs", "/v1/latency", "/v1/logs", "/api/costs", "/api/overview"])
async def test_an_unknown_project_is_404(running, path):
    answer = await running.get(path + "?project=nobody")
    assert (answer.status, answer.error["code"], sorted(answer.error["available"])) == (404, "project_not_found", ["default", "shop"])


# ---- writes


async def entries(running, **filters):
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    return (await running.get(f"/v1/audit-log?{query}")).json


async def test_the_life_of_a_project(running):
    answer = await running.ask("POST", "/v1/projects", PROJECT)
    assert answer.json == {"project_id": "desk", "source": "db", "created": True}
    stored = (await running.get("/v1/projects/desk")).json
    assert {k: v for k, v in PROJECT.items() if k != "project_id"}.items() <= stored.items()
    assert stored["source"] == "db"
    assert re.fullmatch("#[0-9a-f]{6}", stored["accent"])
    answer = await running.ask("PATCH", "/v1/projects/desk", {"daily_budget": 0, "tags": []})
    assert answer.json == {"project_id": "desk", "updated": True}
    stored = (await running.get("/v1/projects/desk")).json
    assert (stored["daily_budget"], stored["tags"], stored["name"]) == (0.0, [], "Front desk")
    preview = await running.ask("DELETE", "/v1/projects/desk")
    assert preview.json == {"would_delete": {"project_id": "desk"}}
    assert (await running.get("/v1/projects/desk")).status == 200
    assert (await running.ask("DELETE", "/v1/projects/desk?confirm=true")).json == {"deleted": "desk"}
    assert (await running.get("/v1/projects/desk")).status == 404
    log = await entries(running, entity_type="project")
    assert [(entry["action"], entry["entity_id"], entry["source"]) for entry in log] == [
        ("delete", "desk", "api"),
        ("update", "desk", "api"),
        ("create", "desk", "api"),
    ]
    assert log[1]["changes"]["daily_budget"] == {"from": 12.5, "to": 0.0}


async def test_the_least_of_a_project(running):
    assert (await running.ask("POST", "/v1/projects", {"project_id": "a"})).status == 200
    stored = (await running.get("/v1/projects/a")).json
    assert {
        "name": "a", "description": "", "daily_budget": 0.0, "budget_action": "warn", "default_stack": "", "tags": [],
    }.items() <= stored.items()  # fmt: skip


async def test_the_life_of_a_provider(running):
    answer = await running.ask("POST", "/v1/providers", PROVIDER)
    masked = answer.json["api_key_masked"]
    assert answer.json == {"provider_id": "my-openai", "source": "db", "api_key_masked": masked}
    stored = (await running.get("/v1/providers/my-openai")).json
    assert (stored["source"], stored["base_url"], stored["api_key_masked"]) == ("db", PROVIDER["base_url"], masked)
    assert (await running.get("/v1/status")).json["providers"]["my-openai"] == {"configured": True, "type": "cloud"}
    answer = await running.ask("PATCH", "/v1/providers/my-openai", {"base_url": "https://other.example/v1"})
    assert (answer.status, answer.error["param"]) == (400, "base_url")
    change = {"base_url": "https://other.example/v1", "api_key": "sk-canary-fedcba9876543210"}
    answer = await running.ask("PATCH", "/v1/providers/my-openai", change)
    assert answer.json == {"provider_id": "my-openai", "updated": True}
    await running.ask("POST", "/v1/models", {"modality": "llm", "provider_id": "my-openai", "model_name": "m"})
    preview = await running.ask("DELETE", "/v1/providers/my-openai")
    assert preview.json == {
        "would_delete": {"provider_id": "my-openai", "models": ["my-openai/m"], "projects": []}
    }
    answer = await running.ask("DELETE", "/v1/providers/my-openai?confirm=true")
    assert answer.status == 409
    answer = await running.ask("DELETE", "/v1/providers/my-openai?confirm=true&cascade=true")
    assert answer.json == {"deleted": "my-openai"}
    assert (await running.get("/v1/models/my-openai/m")).status == 404
    assert [e["action"] for e in await entries(running, entity_id="my-openai")] == ["delete", "update", "create"]
    assert b"canary" not in (await running.get("/v1/audit-log")).body


@pytest.mark.parametrize("escaped", [False, True])
async def test_the_life_of_a_model(running, escaped):
    model_id = "sim/org/echo:2"
    path = "/v1/models/" + (quote(model_id, safe="") if escaped else model_id)
    answer = await running.ask("POST", "/v1/models", MODEL)
    assert answer.json == {"model_id": model_id, "source": "db", "created": True}
    stored = await running.get(path)
    assert conforms(stored, "get_model")
    assert (stored.json["id"], stored.json["source"], stored.json["display_name"]) == (model_id, "db", "Echo two")
    assert (await running.get("/v1/models")).json["models"][model_id]["model"] == "org/echo:2"
    answer = await running.ask("PATCH", path, {"display_name": "Another"})
    assert answer.json == {"model_id": model_id, "updated": True}
    assert (await running.get(path)).json["display_name"] == "Another"
    assert (await running.ask("DELETE", path)).json == {"would_delete": {"model_id": model_id}}
    assert (await running.ask("DELETE", path + "?confirm=1")).json == {"deleted": model_id}
    assert (await running.get(path)).status == 404


async def test_a_model_made_through_the_api_answers(running):
    chat = {"model": "sim/scripted", "messages": [{"role": "user", "content": "hi"}]}
    assert (await running.ask("POST", "/v1/chat/completions", chat)).status == 404
    await running.ask("POST", "/v1/models", {"modality": "llm", "provider_id": "sim", "model_name": "scripted"})
    answer = await running.ask("POST", "/v1/chat/completions", chat)
    assert (answer.status, answer.headers["x-gw-model"]) == (200, "sim/scripted")
    await running.ask("DELETE", "/v1/models/sim/scripted?confirm=true")
    assert (await running.ask("POST", "/v1/chat/completions", chat)).status == 404


async def test_the_life_of_a_key(running):
    answer = await running.ask("POST", "/v1/keys", {"name": "till", "project": "shop"})
    assert conforms(answer, "create_key")
    key, key_id = answer.json["key"], answer.json["key_id"]
    assert re.fullmatch(r"gwk_[\w-]{43}", key)
    listed = await running.get("/v1/keys")
    assert key.encode() not in listed.body
    assert [(entry["key_id"], entry["project"]) for entry in listed.json["keys"]] == [(key_id, "shop")]
    preview = await running.ask("DELETE", f"/v1/keys/{key_id}")
    assert preview.json == {"would_delete": {"key_id": key_id, "name": "till", "project": "shop"}}
    assert (await running.ask("DELETE", f"/v1/keys/{key_id}?confirm=TRUE")).json == {"deleted": key_id}
    assert (await running.get("/v1/keys")).json == {"keys": []}
    assert key.encode() not in (await running.get("/v1/audit-log")).body


async def test_fallback_chains(running):
    answer = await running.ask("PUT", "/v1/fallbacks/llm", {"models": ["sim/echo"]})
    assert answer.json == {"modality": "llm", "models": ["sim/echo"], "source": "db"}
    assert (await running.get("/api/status")).json["fallbacks"]["llm"] == ["sim/echo"]
    assert (await running.get("/v1/fallbacks")).json["fallbacks"]["llm"] == {"models": ["sim/echo"], "source": "db"}
    answer = await running.ask("DELETE", "/v1/fallbacks/llm")
    assert answer.json["models"] == ["groq/openai/gpt-oss-20b", "sim/echo"]
    answer = await running.ask("PUT", "/v1/fallbacks/video", {"models": []})
    assert (answer.status, answer.error["param"]) == (422, "modality")
    answer = await running.ask("PUT", "/v1/fallbacks/llm", {"models": ["sim/none"]})
    assert (answer.status, answer.error["param"]) == (422, "models")


@pytest.mark.parametrize("provider", ["sim", "groq", "bare"])
async def test_testing_a_provider_is_never_a_5xx(tmp_path, provider):
    text = YAML.replace("groq: {", 'groq: {base_url: "http://127.0.0.1:9/openai/v1", ')
    async with open_running(tmp_path, text) as running:
        answer = await running.ask("POST", f"/v1/providers/{provider}/test")
        assert conforms(answer, "test_provider")
        assert answer.json["status"] == ("ok" if provider == "sim" else "failed")
        assert (await running.ask("POST", "/v1/providers/none/test")).status == 404
        assert (await running.ask("POST", f"/v1/providers/{provider}/test", {"x": 1})).status == 422


@pytest.mark.parametrize("confirm", ["true", "True", "TRUE", "tRuE", "1"])
async def test_spellings_that_confirm(running, confirm):
    await running.ask("POST", "/v1/projects", {"project_id": "a"})
    assert (await running.ask("DELETE", f"/v1/projects/a?confirm={confirm}")).json == {"deleted": "a"}


@pytest.mark.parametrize("query", ["", "?confirm=false", "?confirm=False", "?confirm=0"])
async def test_spellings_that_do_not(running, query):
    await running.ask("POST", "/v1/projects", {"project_id": "a"})
    assert (await running.ask("DELETE", "/v1/projects/a" + query)).json == {"would_delete": {"project_id": "a"}}


@pytest.mark.parametrize("query", ["confirm=", "confirm=yes", "confirm=2", "confirm=%20true", "confirm=true&confirm=false", "Confirm=true"])
async def test_spellings_that_are_none(running, query):
    await running.ask("POST", "/v1/projects", {"project_id": "a"})
    answer = await running.ask("DELETE", f"/v1/projects/a?{query}")
    assert (answer.status, answer.error["code"]) == (422, "invalid_request")
    assert (await running.get("/v1/projects/a")).status == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/v1/projects/shop", {"name": "x"}),
        ("DELETE", "/v1/projects/shop?confirm=true", None),
        ("DELETE", "/v1/projects/shop", None),
        ("PATCH", "/v1/providers/groq", {"api_key": "x"}),
        ("DELETE", "/v1/providers/groq?confirm=true", None),
        ("PATCH", "/v1/models/sim/echo", {"display_name": "x"}),
        ("DELETE", "/v1/models/sim/echo?confirm=true", None),
    ],
)
async def test_entries_of_the_configuration_are_read_only(running, method, path, body):
    answer = await running.ask(method, path, body)
    assert (answer.status, answer.error["code"], answer.error["type"]) == (403, "read_only", "ReadOnlyError")
    assert answer.error["entity"] in ("project", "provider", "model")
    assert await entries(running) == []


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/projects", {"project_id": "shop"}), ("/v1/providers", {"provider_id": "groq"}),
     ("/v1/models", {"modality": "llm", "provider_id": "sim", "model_name": "echo"})],
)  # fmt: skip
async def test_what_exists_is_not_made_again(running, path, body):
    answer = await running.ask("POST", path, body)
    assert (answer.status, answer.error["code"]) == (409, "already_exists")


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/v1/projects/none", None, "project_not_found"),
        ("PATCH", "/v1/projects/none", {"name": "x"}, "project_not_found"),
        ("DELETE", "/v1/projects/none?confirm=true", None, "project_not_found"),
        ("GET", "/v1/providers/none", None, "provider_not_found"),
        ("PATCH", "/v1/providers/none", {"api_key": "x"}, "provider_not_found"),
        ("DELETE", "/v1/providers/none", None, "provider_not_found"),
        ("GET", "/v1/models/none/none", None, "model_not_found"),
        ("PATCH", "/v1/models/none/none", {}, "model_not_found"),
        ("DELETE", "/v1/models/none/none", None, "model_not_found"),
        ("POST", "/v1/models", {"modality": "llm", "provider_id": "none", "model_name": "x"}, "provider_not_found"),
        ("DELETE", "/v1/keys/none?confirm=true", None, "key_not_found"),
        ("POST", "/v1/keys", {"project": "none"}, "project_not_found"),
        ("GET", "/v1/requests/none", None, "request_not_found"),
    ],
)
async def test_what_does_not_exist_is_404(running, method, path, body, code):
    answer = await running.ask(method, path, body)
    assert (answer.status, answer.error["code"]) == (404, code)
    assert answer.error["param"] is None


BAD_BODIES = [
    ("/v1/projects", {}, "project_id"),
    ("/v1/projects", {"project_id": ""}, "project_id"),
    ("/v1/projects", {"project_id": "a b"}, "project_id"),
    ("/v1/projects", {"project_id": "../etc"}, "project_id"),
    ("/v1/projects", {"project_id": "a" * 65}, "project_id"),
    ("/v1/projects", {"project_id": 7}, "project_id"),
    ("/v1/projects", {"project_id": "a", "daily_budget": -1}, "daily_budget"),
    ("/v1/projects", {"project_id": "a", "daily_budget": "5"}, "daily_budget"),
    ("/v1/projects", {"project_id": "a", "daily_budget": True}, "daily_budget"),
    ("/v1/projects", {"project_id": "a", "budget_action": "stop"}, "budget_action"),
    ("/v1/projects", {"project_id": "a", "default_stack": "none"}, "default_stack"),
    ("/v1/projects", {"project_id": "a", "tags": "x"}, "tags"),
    ("/v1/projects", {"project_id": "a", "tags": [""]}, "tags"),
    ("/v1/projects", {"project_id": "a", "accent": "red"}, "accent"),
    ("/v1/projects", {"project_id": "a", "budget": 1}, "budget"),
    ("/v1/providers", {}, "provider_id"),
    ("/v1/providers", {"provider_id": "unheard-of"}, "provider_type"),
    ("/v1/providers", {"provider_id": "x", "provider_type": "bank"}, "provider_type"),
    ("/v1/providers", {"provider_id": "x", "provider_type": "openai", "base_url": "ftp://x"}, "base_url"),
    ("/v1/providers", {"provider_id": "x", "provider_type": "openai", "base_url": "http://169.254.169.254/"}, "base_url"),
    ("/v1/providers", {"provider_id": "x", "provider_type": "openai", "base_url": "http://127.0.0.1:1/"}, "base_url"),
    ("/v1/providers", {"provider_id": "x", "provider_type": "openai", "base_url": "http://u:p@example.com/"}, "base_url"),
    ("/v1/providers", {"provider_id": "x", "provider_type": "openai", "api_key": "a\r\nb"}, "api_key"),
    ("/v1/providers", {"provider_id": "x", "provider_type": "openai", "key": "a"}, "key"),
    ("/v1/models", {}, "modality"),
    ("/v1/models", {"modality": "video", "provider_id": "sim", "model_name": "x"}, "modality"),
    ("/v1/models", {"modality": "llm", "provider_id": "sim", "model_name": ""}, "model_name"),
    ("/v1/models", {"modality": "llm", "provider_id": "sim", "model_name": "x", "price": 1}, "price"),
    ("/v1/keys", {"expires_at": 1}, "expires_at"),
    ("/v1/keys", {"key": "mine"}, "key"),
]


@pytest.mark.parametrize(("path", "body", "param"), BAD_BODIES)
async def test_bad_bodies_are_422_and_change_nothing(running, path, body, param):
    answer = await running.ask("POST", path, body)
    assert (answer.status, answer.error["code"]) == (422, "invalid_request")
    assert answer.error["param"] == param
    assert await entries(running) == []


DEEP = b'{"project_id": "a", "tags": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
NOT_JSON = [
    b"", b"{", b"nul", b"{'project_id': 'a'}", b'{"project_id": "a"} x', b'{"project_id": "\xff"}', b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}", b'{"project_id": "a", "daily_budget": NaN}', b'{"project_id": "a", "daily_budget": Infinity}',
    b'{"project_id": "a", "daily_budget": 1e999}', b'{"project_id": "a", "project_id": "b"}',
    b'{"project_id": "\\ud800"}', b'{"project_id": "a\\u0000"}', DEEP, b"[]", b"null", b'"a"', b"7",
]  # fmt: skip


@pytest.mark.parametrize("body", NOT_JSON, ids=range(len(NOT_JSON)))
async def test_what_is_no_json_object(running, body):
    answer = await running.ask("POST", "/v1/projects", body)
    assert (answer.status, answer.error["code"]) == (422, "invalid_request")
    assert await entries(running) == []


JSONP = "application/jsonp"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", JSONP, "x"])
async def test_the_content_type_must_be_json(running, content_type):
    answer = await running.ask("POST", "/v1/projects", PROJECT, content_type=content_type)
    assert (answer.status, answer.error["param"]) == (422, "content-type")
    answer = await running.ask("POST", "/v1/projects", PROJECT, content_type="Application/JSON; charset=UTF-8")
    assert answer.status == 200


# ---- methods and paths

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE")
EXAMPLE = {"model_id": "sim/echo", "project_id": "shop", "provider_id": "sim", "modality": "llm"}
PATHS = sorted({path for route in TABLE.routes for path in route.paths})


@pytest.mark.parametrize("path", PATHS)
async def test_other_methods_are_405_and_say_which_are_right(running, path):
    served = {route.method for route in TABLE.routes if path in route.paths}
    target = re.sub(r"{(\w+)}", lambda match: EXAMPLE.get(match[1], "x"), path)
    for method in set(METHODS) - served:
        answer = await running.ask(method, target)
        about = answer.error.get("gw", answer.error)
        assert (answer.status, about["code"]) == (405, "method_not_allowed"), method
        allowed = {name.strip() for name in answer.headers["allow"].split(",")} - {"HEAD"}
        assert allowed == served, method
        assert about["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    "path", ["/v1/", "/v1/nothing", "/v1/costs/x", "/V1/costs", "/api/", "/api/login/x", "/v1//costs", "/v1/x%0Ay", "//v1/x"]
)
async def test_unknown_paths_are_404(running, method, path):
    answer = await running.ask(method, path)
    assert (answer.status, answer.error.get("gw", answer.error)["code"]) == (404, "not_found")


def test_the_shapes_are_structs():
    kinds = {type(shape) for route in TABLE.routes for shape in route.answers}
    assert kinds <= {Raw, type(msgspec.Struct), types.GenericAlias}


async def test_live_over_a_socket(running):
    chat = {"model": "sim/echo", "messages": [{"role": "user", "content": "hello"}]}
    async with running.open("GET", "/api/live") as response:
        text = await response.receive_some()
        assert response.header(b"content-type") == b"text/event-stream"
        assert text.startswith(b"event: running\n")
        answer = await running.ask("POST", "/v1/chat/completions", chat)
        assert answer.status == 200
        while b"event: finished" not in text:
            text += await response.receive_some()
    assert b"event: started" in text
    assert answer.headers["x-request-id"].encode() in text
