"""Limits of keys and the longer budgets of projects: over HTTP, in the answer, and in the reports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
import trio
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.fakes.running import Running, open_running
from tests.fakes.temporary_gateway import DAY_S, SetClock

CONFIG = """
providers: {sim: {}, other: {type: sim}, slow: {type: sim, latency_ms: 60000}}
models:
  llm:
    sim/echo: {price: {unit: 1M_tokens, input: 0, output: 0, per_request: 1}}
    other/echo: {price: {unit: 1M_tokens, input: 0, output: 0, per_request: 1}}
    slow/echo: {price: {unit: 1M_tokens, input: 0, output: 0, per_request: 1}}
  stt: [sim/tone]
  tts: [sim/tone]
projects: {shop: {}}
fallbacks: {llm: [slow/echo, sim/echo]}
auth:
  admin_token: admin-token-8351026789
  keys: [{key: gwk_till_8351026789, project: shop, name: till, total_budget: 2, models: [sim/*]}]
serve: {port: 0}
"""
ADMIN = {"authorization": "Bearer admin-token-8351026789"}
TILL = {"authorization": "Bearer gwk_till_8351026789"}
FRIDAY = datetime(2026, 10, 30, 12, tzinfo=UTC).timestamp()
RESETS = {"day": 1, "week": 3, "month": 2}
"""Period → days from FRIDAY to its reset: Saturday, Monday, Sunday the first of November."""
WORDS = {"day": "daily", "week": "weekly", "month": "monthly", "total": "total"}


def open_at(folder, clock: SetClock | None = None):
    return open_running(folder, CONFIG, clock or SetClock(FRIDAY))


async def make(running: Running, **limits: object) -> tuple[str, dict[str, str]]:
    """Return the id of a new key of the project shop, and the headers that send it."""
    made = await running.ask("POST", "/v1/keys", {"project": "shop", **limits}, **ADMIN)
    assert made.status == 200, made.body
    return made.json["key_id"], {"authorization": f"Bearer {made.json['key']}"}


async def chat(running: Running, headers: Mapping[str, str], model: str = "sim/echo") -> Any:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return await running.ask("POST", "/v1/chat/completions", body, **headers)


async def statuses(running: Running, headers: Mapping[str, str], count: int) -> list[int]:
    return [(await chat(running, headers)).status for _ in range(count)]


async def entry(running: Running, key_id: str) -> Any:
    listed = (await running.get("/v1/keys", **ADMIN)).json["keys"]
    [found] = [key for key in listed if key["key_id"] == key_id]
    page = (await running.get("/api/pages/keys", **ADMIN)).json["keys"]
    assert [{name: row[name] for name in found} for row in page if row["key_id"] == key_id] == [found]
    assert (await running.get(f"/v1/keys/{key_id}", **ADMIN)).json == found
    return found


@pytest.mark.parametrize("period", ["day", "week", "month", "total"])
async def test_a_spent_budget_of_a_key_refuses_until_its_period_ends(period, tmp_path):
    clock = SetClock(FRIDAY)
    async with open_at(tmp_path, clock) as running:
        key_id, headers = await make(running, name="till", **{f"{WORDS[period]}_budget": 2})
        _, unlimited = await make(running)
        assert await statuses(running, headers, 3) == [200, 200, 402]
        refused = (await chat(running, headers)).error
        assert refused["code"] == "insufficient_quota"
        facts = {name: refused["gw"][name] for name in ("code", "period", "budget", "spent", "key_id", "project")}
        assert facts == {"code": "budget_exceeded", "period": period, "budget": 2.0, "spent": 2.0, "key_id": key_id, "project": "shop"}
        assert f"key '{key_id}' of project 'shop' has reached its {WORDS[period]} budget of $2 (spent $2)" in refused["message"]
        assert (await chat(running, unlimited)).status == 200
        shown = await entry(running, key_id)
        assert (shown[f"{WORDS[period]}_budget"], shown["spent_today"], shown["spent_total"]) == (2.0, 2.0, 2.0)
        assert shown["budgets"] == [{"period": period, "budget": 2.0, "spent": 2.0, "budget_status": "exceeded", "share": 1.0}]
        for day in range(1, 40):
            clock.at = FRIDAY + day * DAY_S
            expected = 200 if day >= RESETS.get(period, 99) else 402
            assert (day, (await chat(running, headers)).status) == (day, expected)
            if expected == 200:
                break
        shown = await entry(running, key_id)
        assert shown["spent_total"] == (2.0 if period == "total" else 3.0)
        assert shown["budgets"][0]["spent"] == (2.0 if period == "total" else 1.0)


@pytest.mark.parametrize("action", ["block", "warn"])
@pytest.mark.parametrize("period", ["week", "month", "total"])
async def test_longer_budgets_of_a_project(period, action, tmp_path):
    clock = SetClock(FRIDAY)
    async with open_at(tmp_path, clock) as running:
        budget = {f"{WORDS[period]}_budget": 2, "budget_action": action}
        created = await running.ask("POST", "/v1/projects", {"project_id": "app", **budget}, **ADMIN)
        assert created.status == 200
        headers = {**ADMIN, "x_gw_project": "app"}
        assert await statuses(running, headers, 3) == [200, 200, 402 if action == "block" else 200]
        spent = 2.0 if action == "block" else 3.0
        detail = (await running.get("/v1/projects/app", **ADMIN)).json
        use = {"period": period, "budget": 2.0, "spent": spent, "budget_status": "exceeded", "share": spent / 2}
        assert (detail["budgets"], detail["today_spend"]) == ([use], spent)
        [row] = [row for row in (await running.get("/api/pages/projects", **ADMIN)).json["projects"] if row["id"] == "app"]
        assert (row["budgets"], row[f"{WORDS[period]}_budget"]) == ([use], 2.0)
        if action == "block":
            refused = await chat(running, headers)
            assert f"project 'app' has reached its {WORDS[period]} budget of $2 (spent $2)" in refused.error["message"]
            assert refused.error["gw"]["period"] == period
            clock.at = FRIDAY + DAY_S * RESETS.get(period, 40)
            assert (await chat(running, headers)).status == (402 if period == "total" else 200)


async def test_budgets_hold_after_a_restart(tmp_path):
    clock = SetClock(FRIDAY)
    async with open_at(tmp_path, clock) as running:
        key_id, headers = await make(running, monthly_budget=3, total_budget=9)
        project = {"project_id": "app", "weekly_budget": 2, "budget_action": "block"}
        assert (await running.ask("POST", "/v1/projects", project, **ADMIN)).status == 200
        app = {**ADMIN, "x_gw_project": "app"}
        assert await statuses(running, headers, 2) + await statuses(running, app, 1) == [200] * 3
    clock.at += DAY_S
    async with open_at(tmp_path, clock) as running:
        assert [use["spent"] for use in (await entry(running, key_id))["budgets"]] == [2.0, 2.0]
        assert await statuses(running, headers, 2) == [200, 402]
        assert await statuses(running, app, 2) == [200, 402]
        shown = await entry(running, key_id)
        assert (shown["spent_today"], shown["spent_total"]) == (1.0, 3.0)
    async with open_at(tmp_path, clock) as running:
        assert await statuses(running, headers, 1) + await statuses(running, app, 1) == [402, 402]


async def test_requests_in_flight_reserve_from_a_budget(tmp_path):
    async with open_at(tmp_path) as running:
        _, headers = await make(running, total_budget=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(chat, running, headers, "slow/echo")
            with trio.fail_after(60):
                while not running.gateway.relay.in_flight.requests:
                    await trio.lowlevel.checkpoint()
            reserved = await chat(running, headers)
            assert (reserved.status, reserved.error["gw"]["code"]) == (503, "budget_reserved")
            assert "have reserved what is left of its total budget of $1" in reserved.error["message"]
            nursery.cancel_scope.cancel()


async def test_concurrent_requests_and_sessions_of_a_key(tmp_path):
    async with open_at(tmp_path) as running:
        _, headers = await make(running, max_concurrent=1)

        def listen() -> int:
            url = running.url.replace("http", "ws", 1) + "/v1/listen?model=sim/tone&encoding=linear16&sample_rate=16000"
            try:
                with connect(url, additional_headers={"Authorization": headers["authorization"].replace("Bearer", "Token")}, proxy=None):
                    return 101
            except InvalidStatus as refused:
                return refused.response.status_code

        async with trio.open_nursery() as nursery:
            nursery.start_soon(chat, running, headers, "slow/echo")
            with trio.fail_after(60):
                while not running.gateway.relay.in_flight.requests:
                    await trio.lowlevel.checkpoint()
            refused = await chat(running, headers)
            assert (refused.status, refused.error["gw"]["code"]) == (429, "rate_limited")
            assert "requests and sessions at once, its limit" in refused.error["message"]
            assert await trio.to_thread.run_sync(listen) == 429
            nursery.cancel_scope.cancel()
        with trio.fail_after(60):
            while running.gateway.relay.in_flight.requests:
                await trio.lowlevel.checkpoint()
        assert (await chat(running, headers)).status == 200


async def test_requests_a_minute(tmp_path):
    async with open_at(tmp_path) as running:
        _, headers = await make(running, requests_per_minute=2)
        assert await statuses(running, headers, 2) == [200, 200]
        refused = await chat(running, headers)
        assert (refused.status, refused.error["gw"]["code"]) == (429, "rate_limited")
        assert 1 <= int(refused.headers["retry-after"]) <= 30
        assert "has made 2 requests in a minute, its limit" in refused.error["message"]


async def test_models_and_modalities(tmp_path):
    async with open_at(tmp_path) as running:
        _, some = await make(running, models=["sim/echo"])
        assert [(await chat(running, some, model)).status for model in ("sim/echo", "other/echo")] == [200, 403]
        refused = (await chat(running, some, "other/echo")).error
        assert "this key may not use the model 'other/echo'; it may use sim/echo" in refused["message"]
        _, provider = await make(running, models=["other/*"])
        assert [(await chat(running, provider, model)).status for model in ("sim/echo", "other/echo")] == [403, 200]
        _, speech = await make(running, modalities=["tts"])
        refused = await chat(running, speech)
        assert (refused.status, refused.error["gw"]["code"]) == (403, "forbidden")
        assert "this key may not use language models; it is for tts" in refused.error["message"]
        spoken = await running.ask("POST", "/v1/audio/speech", {"model": "sim/tone", "input": "hi", "voice": "a"}, **speech)
        assert spoken.status == 200


async def test_a_fallback_stays_within_the_models_of_a_key(tmp_path):
    text = CONFIG.replace("slow: {type: sim, latency_ms: 60000}", "slow: {type: sim, fail_rate: 1}")
    async with open_running(tmp_path, text, SetClock(FRIDAY)) as running:
        _, only = await make(running, models=["slow/echo"])
        _, both = await make(running, models=["slow/*", "sim/echo"])
        assert [(await chat(running, headers, "slow/echo")).status for headers in (both, only)] == [200, 503]


REGIONS = CONFIG.replace("{sim: {}, other: {type: sim}", "{sim: {region: EU}, other: {type: sim, region: us}").replace(
    "projects: {shop: {}}", "projects: {shop: {}, clinic: {regions: [eu]}}"
)


async def test_regions(tmp_path):
    async with open_running(tmp_path, REGIONS, SetClock(FRIDAY)) as running:
        key_id, headers = await make(running, regions=["eu", "rack-2"])
        assert (await entry(running, key_id))["regions"] == ["eu", "rack-2"]
        assert (await chat(running, headers)).status == 200
        assert (await chat(running, headers, "other/echo")).headers["x-gw-model"] == "sim/echo"  # the chain's next
        alone = {**headers, "x-gw-fallback": "off"}
        refused = await chat(running, alone, "other/echo")
        assert (refused.status, refused.error["gw"]["code"]) == (403, "region_not_allowed")
        assert f"the key {key_id!r} allows eu, rack-2; there is other/echo (us)" in refused.error["message"]
        assert (await chat(running, {**headers, "x-gw-regions": "us"})).status == 403
        clinic = {"project": "clinic", "regions": ["us"]}
        _, none = await make(running, **clinic)
        message = (await chat(running, none)).error["message"]
        assert "the project 'clinic' allows eu, and the key" in message
        assert (await running.ask("PATCH", f"/v1/keys/{key_id}", {"regions": None}, **ADMIN)).status == 200
        assert (await chat(running, alone, "other/echo")).headers["x-gw-model"] == "other/echo"


async def test_a_fallback_stays_within_the_regions_of_a_key(tmp_path):
    text = REGIONS.replace("slow: {type: sim, latency_ms: 60000}", "slow: {type: sim, fail_rate: 1, region: us}")
    async with open_running(tmp_path, text, SetClock(FRIDAY)) as running:
        _, both = await make(running, regions=["us", "eu"])
        _, only = await make(running, regions=["us"])
        assert [(await chat(running, headers, "slow/echo")).status for headers in (both, only)] == [200, 503]


@pytest.mark.parametrize(
    ("limits", "models"),
    [
        ({}, ["sim/echo", "other/echo", "slow/echo", "sim/tone", "fresh/*"]),
        ({"models": ["other/echo"]}, ["other/echo"]),
        ({"models": ["sim/*"]}, ["sim/echo", "sim/tone"]),
        ({"models": ["fresh/one", "sim/echo"]}, ["sim/echo", "fresh/*"]),
        ({"modalities": ["tts", "stt"]}, ["sim/tone"]),
        ({"regions": ["us"]}, ["other/echo"]),
        ({"regions": ["mars"]}, []),
        ({"project": "clinic"}, ["sim/echo", "sim/tone"]),
        ({"project": "clinic", "modalities": ["tts"]}, ["sim/tone"]),
    ],
)
async def test_the_list_of_models_has_those_that_a_key_may_use(limits, models, tmp_path):
    vendor = 'fresh: {type: openai, api_key: k, base_url: "http://127.0.0.1:9/v1"}, slow: {'
    text = REGIONS.replace("slow: {", vendor).replace("  stt: [sim/tone]", "    fresh/*: {}\n  stt: [sim/tone]")
    async with open_running(tmp_path, text, SetClock(FRIDAY)) as running:
        _, headers = await make(running, **limits)
        listed = (await running.get("/v1/models", **headers)).json
        assert sorted(listed["models"]) == sorted(models)
        named = [model for model in models if not model.endswith("*")]
        assert sorted(entry["id"] for entry in listed["data"]) == sorted(named)
        bare = (await running.get("/v1/models", **{"xi-api-key": headers["authorization"][7:]})).json  # as ElevenLabs' SDK
        assert sorted(entry["model_id"] for entry in bare) == sorted(named)
        key = headers["authorization"][7:]
        mounted = (await running.get("/anthropic/v1/models", **{"x-api-key": key})).json
        assert (mounted["models"], mounted["data"]) == (listed["models"], listed["data"])
        assert (await running.get("/elevenlabs/v1/models", **{"xi-api-key": key})).json == bare
        for model in ("sim/echo", "other/echo", "sim/tone"):
            for mount in ("", "/anthropic"):
                one = await running.get(f"{mount}/v1/models/{model}", **headers)
                assert (one.status == 200) == (model in models), model
        assert len((await running.get("/v1/models", **ADMIN)).json["models"]) == 5


async def test_a_change_holds_from_the_next_request_on_and_is_audited(tmp_path):
    async with open_at(tmp_path) as running:
        key_id, headers = await make(running, total_budget=1)
        assert await statuses(running, headers, 2) == [200, 402]
        changed = await running.ask("PATCH", f"/v1/keys/{key_id}", {"total_budget": 2, "models": ["sim/echo"], "name": "till"}, **ADMIN)
        assert changed.json == {"key_id": key_id, "updated": True}
        assert await statuses(running, headers, 2) == [200, 402]
        assert (await chat(running, headers, "other/echo")).status == 403
        shown = await entry(running, key_id)
        assert (shown["name"], shown["total_budget"], shown["models"], shown["spent_total"]) == ("till", 2.0, ["sim/echo"], 2.0)
        [change, _] = (await running.get(f"/v1/audit-log?entity_id={key_id}", **ADMIN)).json
        assert change["changes"]["total_budget"] == {"from": 1.0, "to": 2.0}
        assert (await running.ask("PATCH", f"/v1/keys/{key_id}", {"total_budget": None, "models": None}, **ADMIN)).status == 200
        assert await statuses(running, headers, 2) == [200, 200]
        assert (await running.ask("PATCH", "/v1/keys/key_nope", {"name": "x"}, **ADMIN)).status == 404
        assert (await running.ask("PATCH", "/v1/keys/till", {"name": "x"}, **ADMIN)).status == 404  # of gw.yaml


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("daily_budget", -1), ("total_budget", 1e12), ("models", ["echo"]), ("models", [" /x"]), ("modalities", ["video"]),
        ("regions", [""]), ("requests_per_minute", 0), ("max_concurrent", 0), ("max_concurrent", 1.5), ("hourly_budget", 1),
    ],
)  # fmt: skip
async def test_a_wrong_limit_is_named(member, value, tmp_path):
    async with open_at(tmp_path) as running:
        refused = await running.ask("POST", "/v1/keys", {member: value}, **ADMIN)
        assert (refused.status, refused.error["param"].partition("[")[0]) == (422, member)


async def test_a_key_of_the_file_has_limits_and_so_have_its_tokens(tmp_path):
    async with open_at(tmp_path) as running:
        token = (await running.ask("POST", "/v1/auth/grant", {}, **TILL)).json["access_token"]
        assert (await chat(running, TILL)).status == 200
        assert await statuses(running, {"authorization": f"Bearer {token}"}, 2) == [200, 402]
        assert (await chat(running, TILL, "other/echo")).status == 403
        shown = await entry(running, "till")
        assert (shown["source"], shown["total_budget"], shown["models"], shown["spent_total"]) == ("yaml", 2.0, ["sim/*"], 2.0)
