"""The reading half of /v1, as its users see it."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gw.relay.relay import Relay
from gw.types.compiled import edition_of
from gw.web.drain import Drain
from tests.fakes.temporary_gateway import ADMIN, SHOP, call, record, store_records


async def test_health(gateway, app):
    gateway.started -= 12.5
    gateway.clock.at -= 3_600  # somebody sets the clock back
    answer = await call(app, "/health")
    assert answer.status == 200
    uptime_s = pytest.approx(12.5, abs=5)
    assert answer.json == {
        "status": "ok", "problems": [], "uptime_seconds": uptime_s, "version": gateway.version, "edition": edition_of(Relay),
    }  # fmt: skip
    assert len(answer.headers["x-request-id"]) == 32


async def test_ready_until_the_drain_begins(gateway, app_of):
    drain = Drain()
    app = app_of(gateway, drain=drain)
    assert (await call(app, "/ready")).status == 200
    drain.begin()
    answer = await call(app, "/ready")
    assert (answer.status, answer.json["status"]) == (503, "draining")


async def test_status(app):
    assert (await call(app, "/v1/status")).json == {
        "providers": {
            "sim": {"configured": True, "type": "local"},
            "groq": {"configured": True, "type": "cloud"},
            "bare": {"configured": False, "type": "cloud"},
        },
        "model_count": 4,
        "project_count": 2,
        "workers": [],
        "slots": [],
        "journal": {"bytes": 0, "limit_bytes": 256_000_000, "keeps_records": True, "records_waiting": 0},
    }


@pytest.mark.parametrize(
    ("query", "ids", "has_more"),
    [
        ("modality=llm", ["sim/echo", "groq/openai/gpt-oss-20b"], False),
        ("limit=1&after_id=sim/tone", ["groq/whisper-large-v3"], True),
        ("limit=2&before_id=groq/openai/gpt-oss-20b", ["groq/whisper-large-v3", "sim/echo"], True),
    ],
)
async def test_models_have_pages(app, query, ids, has_more):
    body = (await call(app, "/v1/models?" + query)).json
    assert ([entry["id"] for entry in body["data"]], body["has_more"]) == (ids, has_more)
    for wrong in ("limit=0", "limit=many", "modality=video"):
        assert (await call(app, "/v1/models?" + wrong)).status in (400, 422)


async def test_models_is_one_body_for_all_readers(app):
    body = (await call(app, "/v1/models")).json
    ids = ["sim/tone", "groq/whisper-large-v3", "sim/echo", "groq/openai/gpt-oss-20b"]
    assert list(body["models"]) == ids
    assert body["models"]["sim/tone"] == {
        "modality": "stt",
        "provider": "sim",
        "model": "tone",
        "modalities": ["stt", "tts"],
    }
    assert body["models"]["groq/openai/gpt-oss-20b"]["model"] == "openai/gpt-oss-20b"
    assert body["project"] is None
    assert (body["object"], body["has_more"], body["first_id"], body["last_id"]) == ("list", False, ids[0], ids[-1])
    assert [entry["id"] for entry in body["data"]] == ids
    assert body["data"][2] == {
        "id": "sim/echo",
        "object": "model",
        "created": 20_000 * 86_400 + 43_200,
        "owned_by": "sim",
        "type": "model",
        "display_name": "Echo",
        "created_at": "2024-10-04T12:00:00Z",
        "lifecycle": "active",
    }
    assert [entry["name"] for entry in body["stt"]] == ["sim/tone", "groq/whisper-large-v3"]
    assert [entry["name"] for entry in body["tts"]] == ["sim/tone"]


async def test_models_of_a_project_are_those_of_its_default_stack(app):
    body = (await call(app, "/v1/models?project=shop")).json
    assert list(body["models"]) == ["sim/tone", "sim/echo"]
    assert body["project"] == "shop"
    assert len((await call(app, "/v1/models?project=default")).json["models"]) == 4  # it has no default stack


async def test_models_as_a_bare_array_for_elevenlabs(app):
    body = (await call(app, "/v1/models", {"xi-api-key": "k"})).json
    assert [(entry["model_id"], entry["can_do_text_to_speech"]) for entry in body][:2] == [
        ("sim/tone", True),
        ("groq/whisper-large-v3", False),
    ]


@pytest.mark.parametrize("path", ["groq/openai/gpt-oss-20b", "groq%2Fopenai%2Fgpt-oss-20b", "groq/openai%2fgpt-oss-20b"])
@pytest.mark.parametrize("prefix", ["/v1/models/", "/openai/v1/models/"])
async def test_one_model_with_or_without_escaped_slashes(app, prefix, path):
    body = (await call(app, prefix + path)).json
    assert (body["id"], body["object"], body["modality"], body["model"], body["source"]) == (
        "groq/openai/gpt-oss-20b",
        "model",
        "llm",
        "openai/gpt-oss-20b",
        "yaml",
    )


async def test_a_model_by_its_alias_and_an_unknown_one(app):
    assert (await call(app, "/v1/models/parrot")).json["id"] == "sim/echo"
    answer = await call(app, "/v1/models/sim/nope")
    assert (answer.status, answer.error["code"], answer.error["type"]) == (404, "model_not_found", "UnknownModelError")
    assert "sim/echo" in answer.error["available"]


async def test_costs(gateway, app):
    await store_records(gateway, record(1), record(2, project="default", model_id="sim/echo", provider="sim", cost_nusd=0))
    body = (await call(app, "/v1/costs")).json
    assert (body["period"], body["project"], body["total"]) == ("today", None, 0.25)
    assert body["by_provider"] == {"groq": {"cost": 0.25, "requests": 1}, "sim": {"cost": 0.0, "requests": 1}}
    body = (await call(app, "/v1/costs?period=all&project=shop")).json
    assert (body["period"], body["project"], list(body["by_project"])) == ("all", "shop", ["shop"])


@pytest.mark.parametrize(
    ("target", "param"),
    [
        ("/v1/costs?period=year", "period"),
        ("/v1/costs?period=", "period"),
        ("/v1/latency?period=all", "period"),
        ("/v1/logs?limit=0", "limit"),
        ("/v1/logs?limit=1001", "limit"),
        ("/v1/logs?limit=ten", "limit"),
        ("/v1/logs?limit=1.5", "limit"),
        ("/v1/logs?limit=", "limit"),
        ("/v1/logs?modality=video", "modality"),
        ("/v1/logs?status=odd", "status"),
        ("/v1/logs?before=nothing", "before"),
    ],
)
async def test_bad_arguments_are_422_and_named(app, target, param):
    answer = await call(app, target)
    assert answer.status == 422
    assert (answer.error["type"], answer.error["code"]) == ("RequestError", "invalid_request")
    assert answer.error["param"] == param
    assert answer.error["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/v1/costs", "/v1/latency", "/v1/logs", "/v1/models", "/api/overview"])
async def test_an_unknown_project_is_404_everywhere(app, path):
    answer = await call(app, path + "?project=nope")
    assert (answer.status, answer.error["code"]) == (404, "project_not_found")
    assert answer.error["available"] == ["default", "shop"] or answer.error["available"] == ["shop", "default"]


async def test_latency(gateway, app):
    assert (await call(app, "/v1/latency")).json == {}
    await store_records(gateway, record(1))
    body = (await call(app, "/v1/latency?period=month")).json
    assert body["groq/openai/gpt-oss-20b"]["request_count"] == 1


async def test_logs_and_one_request(gateway, app):
    await store_records(gateway, *(record(n) for n in range(1, 6)))
    body = (await call(app, "/v1/logs?limit=2")).json
    assert [entry["id"] for entry in body] == [record(5).id, record(4).id]
    older = (await call(app, f"/v1/logs?limit=2&before={body[-1]['id']}")).json
    assert [entry["id"] for entry in older] == [record(3).id, record(2).id]
    detail = (await call(app, f"/v1/requests/{record(3).id}")).json
    assert (detail["id"], detail["requested_model"]) == (record(3).id, "groq/openai/gpt-oss-20b")
    assert (await call(app, "/v1/requests/unknown")).status == 404


async def test_reports_show_a_request_that_has_just_ended(gateway, app):
    gateway.store.finish(record(1))  # not yet in the database
    assert (await call(app, "/v1/costs")).json["requests"] == 1


async def test_projects(gateway, app):
    await store_records(gateway, *(record(n) for n in range(1, 8)))
    body = (await call(app, "/v1/projects")).json
    shop = next(entry for entry in body["projects"] if entry["id"] == "shop")
    assert {"project_id": "shop", "name": "The shop", "daily_budget": 2.0, "default_stack": "demo"}.items() <= shop.items()
    assert (shop["tags"], shop["accent"], shop["description"]) == (["a"], "#102030", "")
    assert body["stats"] == {
        "shop": {"cost_today": 1.75, "requests_today": 7},
        "default": {"cost_today": 0.0, "requests_today": 0},
    }
    detail = (await call(app, "/v1/projects/shop")).json
    assert (detail["budget_action"], detail["budget_status"], detail["today_spend"]) == ("block", "warning", 1.75)
    assert detail["today"] == {"cost_today": 1.75, "requests_today": 7}
    assert detail["costs_today"]["by_provider"] == {"groq": {"cost": 1.75, "requests": 7}}
    assert set(detail["costs_today"]) == {"total", "by_provider", "by_model"}
    assert (await call(app, "/v1/projects/nope")).error["code"] == "project_not_found"


async def test_providers_never_show_a_key(app):
    answer = await call(app, "/v1/providers")
    assert b"gsk_0123456789abcdef" not in answer.body
    groq = next(entry for entry in answer.json["providers"] if entry["provider_id"] == "groq")
    assert {"source": "yaml", "api_key_masked": "gsk…cdef", "base_url": None}.items() <= groq.items()
    assert (await call(app, "/v1/providers/sim")).json["type"] == "local"
    assert (await call(app, "/v1/providers/nope")).error["code"] == "provider_not_found"


async def test_metrics(gateway, app):
    await store_records(gateway, record(1))
    answer = await call(app, "/v1/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    for line in (
        "gw_reload_failed 0.0",
        "gw_retention_held 0.0",
        "gw_providers_configured 2.0",
        'gw_cost_usd_total{period="today"} 0.25',
        'gw_requests_total{provider="groq"} 1.0',
        'gw_cost_usd_total{provider="groq"} 0.25',
        'gw_provider_up{provider="bare"} 0.0',
    ):
        assert line in lines
    assert len(list(text_string_to_metric_families(answer.body.decode()))) >= 10


@pytest.mark.parametrize("path", ["/v1/status", "/v1/costs", "/v1/logs", "/v1/projects", "/v1/providers", "/v1/requests/x"])
async def test_reads_need_the_admin_token_like_writes(guarded, app_of, path):
    app = app_of(guarded)
    assert (await call(app, path)).status == 401
    assert (await call(app, path, SHOP)).status == 403
    assert (await call(app, path, ADMIN)).status in (200, 404)


async def test_a_project_key_may_list_models(guarded, app_of):
    app = app_of(guarded)
    assert (await call(app, "/v1/models")).status == 401
    assert (await call(app, "/v1/models", SHOP)).status == 200
    assert (await call(app, "/v1/models/sim/echo", SHOP)).status == 200


async def test_metrics_are_open_to_this_machine_only(guarded, app_of):
    app = app_of(guarded)
    assert (await call(app, "/v1/metrics")).status == 200
    assert (await call(app, "/v1/metrics", {"x-forwarded-for": "203.0.113.9"})).status == 401
    assert (await call(app, "/v1/metrics", client="203.0.113.9")).status == 401
    assert (await call(app, "/v1/metrics", ADMIN, client="203.0.113.9")).status == 200
    assert (await call(app, "/v1/metrics", SHOP, client="203.0.113.9")).status == 403


async def test_health_and_ready_are_open(guarded, app_of):
    app = app_of(guarded)
    assert (await call(app, "/health", client="203.0.113.9")).status == 200
    assert (await call(app, "/ready", client="203.0.113.9")).status == 200
