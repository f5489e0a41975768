"""Routes of gw.yaml: a client uses the name like a model's, and each session gets one of its models, by the weights."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from itertools import pairwise

import msgspec
import trio

from gw.relay.request_spec import RequestSpec
from gw.types.ids import Caller
from gw.types.usage import Usage
from tests.fakes.complete import open_complete
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers:
  openai: {api_key: k, base_url: "http://openai.test/v1"}
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
  elevenlabs: {api_key: k, base_url: "http://elevenlabs.test"}
models:
  llm: [openai/gpt-4o, openai/gpt-4o-mini]
  tts:
    cartesia/sonic-3: {default_voice: c-house}
    elevenlabs/eleven_flash_v2_5: {default_voice: e-house}
    openai/gpt-4o-mini-tts: {}
routes:
  tts:
    front-desk:
      models:
        - {model: cartesia/sonic-3, weight: 95}
        - {model: cartesia/sonic-3, voice: c-new, weight: 5}
        - {model: elevenlabs/eleven_flash_v2_5, weight: 0}
  llm:
    openai/gpt-4o:
      models: [{model: openai/gpt-4o, weight: 1}, {model: openai/gpt-4o-mini, weight: 1}]
stacks:
  reception: {tts: front-desk, llm: openai/gpt-4o-mini}
projects:
  desk: {default_stack: reception}
fallbacks: {tts: [openai/gpt-4o-mini-tts]}
"""

SPEECH = RequestSpec(modality="tts", requested="front-desk", stream=True, estimate=Usage())


@asynccontextmanager
async def opened(tmp_path, text=CONFIG):
    async with open_plane(text, tmp_path) as plane:
        fakes = {"openai": FakeOpenAI(), "cartesia": FakeCartesia(), "elevenlabs": FakeElevenLabs()}
        fakes["cartesia"].voices = frozenset({"c-house", "c-new"})
        fakes["elevenlabs"].voices = frozenset({"e-house"})
        for name, fake in fakes.items():
            plane.net.hosts[f"{name}.test", 80] = hosted(fake)
        yield plane, fakes


def body(model="front-desk", **members):
    return msgspec.json.encode({"model": model, "input": "one two three", "response_format": "pcm", **members})


async def speak(plane, session, model="front-desk", **headers):
    return await plane.post("/v1/audio/speech", body(model), **{"x-gw-session": session}, **headers)


def voice_of(record):
    return record.attempts[-1].voice


async def test_a_new_voice_gets_its_share_of_10_000_sessions_and_each_keeps_it(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        planner, relay = plane.gateway.relay.planner, plane.gateway.relay
        caller = Caller(dialect="openai", vendor="openai")

        def choice(number):
            return planner.plan(SPEECH, msgspec.structs.replace(caller, session_id=f"call-{number}")).voices.get("cartesia/sonic-3")

        chosen = Counter(choice(number) for number in range(10_000))
        assert 450 <= chosen["c-new"] <= 550
        assert chosen["c-new"] + chosen[None] == 10_000
        assert relay.resolve("front-desk", "tts", caller)[0].id == "cartesia/sonic-3"
        for number in range(60):
            for _ in range(2):
                reply = await speak(plane, f"call-{number}")
                assert (reply.status, reply.headers["x-gw-model"]) == (200, "cartesia/sonic-3")
                assert voice_of(plane.kept.records[-1]) == (choice(number) or "c-house")
        assert {entry.fields["voice"] for entry in fakes["cartesia"].ledger} == {"c-house", "c-new"}


async def test_the_log_the_detail_of_a_request_and_a_metric_say_which_and_why(tmp_path):
    async with open_complete(CONFIG, tmp_path, {"cartesia.test": FakeCartesia()}) as made:
        for number in range(60):
            members = {"model": "front-desk", "input": "one two three", "response_format": "pcm"}
            status, _ = await made.request("POST", "/v1/audio/speech", members, x_gw_session=f"call-{number}")
            assert status == 200
        logged = await made.json("/v1/logs")
        chosen = {(r["attempts"][0]["route"], r["attempts"][0]["routing"], r["attempts"][0]["voice"]) for r in logged}
        assert chosen == {("front-desk", "weight 95 of 100", "c-house"), ("front-desk", "weight 5 of 100", "c-new")}
        detail = await made.json(f"/v1/requests/{logged[0]['id']}")
        assert detail["attempts"][0]["route"] == "front-desk"
        assert (await made.metrics())["gw_routed_total", (("model", "cartesia/sonic-3"), ("route", "front-desk"))] == 60


async def test_the_others_follow_the_chosen_one_and_the_chain_follows_them(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        fakes["cartesia"].status = 500
        reply = await speak(plane, "call-1")
        assert reply.headers["x-gw-model"] == "elevenlabs/eleven_flash_v2_5"
        fakes["elevenlabs"].status = 500
        reply = await speak(plane, "call-1")
        assert reply.headers["x-gw-model"] == "openai/gpt-4o-mini-tts"
        attempts = plane.kept.records[-1].attempts
        assert [a.model_id.split("/")[0] for a in attempts] == ["cartesia", "elevenlabs", "openai"]
        assert [bool(a.route) for a in attempts] == [True, False, False]
        reply = await speak(plane, "call-1", **{"x-gw-fallback": "off"})
        assert (reply.status, len(plane.kept.records[-1].attempts)) == (502, 1)


async def test_a_route_of_a_models_own_name_splits_what_apps_request_already(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        chat = {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
        for number in range(40):
            reply = await plane.post("/v1/chat/completions", msgspec.json.encode(chat), **{"x-gw-session": f"s{number}"})
            assert reply.status == 200
        split = Counter(entry.fields["model"] for entry in fakes["openai"].ledger)
        assert set(split) == {"gpt-4o", "gpt-4o-mini"}
        assert min(split.values()) >= 10


async def test_a_stack_may_name_a_route(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, _):
        named = await speak(plane, "call-1", "reception")
        unnamed = await speak(plane, "call-1", "default", **{"x-gw-project": "desk"})
        assert [r.headers["x-gw-model"] for r in (named, unnamed)] == ["cartesia/sonic-3"] * 2
        assert [record.attempts[0].route for record in plane.kept.records] == ["front-desk"] * 2


async def test_utterances_of_one_socket_keep_their_voice_without_a_session(tmp_path, autojump_clock):
    text = CONFIG.replace("weight: 95}", "weight: 1}").replace("voice: c-new, weight: 5", "voice: c-new, weight: 1")
    async with opened(tmp_path, text) as (plane, _):
        caller = Caller(dialect="cartesia", vendor="cartesia", request_id="first")
        planner = plane.gateway.relay.planner
        voices = {
            planner.plan(SPEECH, msgspec.structs.replace(caller, request_id=f"r{n}", conversation="first")).voices.get("cartesia/sonic-3")
            for n in range(50)
        } | {planner.plan(SPEECH, caller).voices.get("cartesia/sonic-3")}
        assert len(voices) == 1


async def test_a_key_gets_the_members_that_it_may_use(tmp_path, autojump_clock):
    keys = """
auth:
  keys:
    - {key: "gwk-5f1d8c2be97a4406", name: till, models: [elevenlabs/*]}
    - {key: "gwk-77ad03bc119f52e8", name: desk, models: [openai/*]}
"""
    async with opened(tmp_path, CONFIG + keys) as (plane, _):
        one = await speak(plane, "call-1", authorization="Bearer gwk-5f1d8c2be97a4406")
        none = await speak(plane, "call-1", authorization="Bearer gwk-77ad03bc119f52e8")
        assert (one.status, one.headers["x-gw-model"]) == (200, "elevenlabs/eleven_flash_v2_5")
        assert none.status == 403
        assert "may not use the model 'cartesia/sonic-3'" in none.json["error"]["message"]


QUICK = """
providers:
  one: {type: openai, api_key: k, base_url: "http://one.test/v1"}
  two: {type: openai, api_key: k, base_url: "http://two.test/v1"}
models: {llm: [one/gpt-4o-mini, two/gpt-4o-mini]}
routes: {llm: {quick: {prefer: latency, models: [one/gpt-4o-mini, two/gpt-4o-mini]}}}
"""


async def test_a_slow_vendor_loses_the_lead_within_30_s_and_gets_it_back_within_30_s(tmp_path, autojump_clock):
    async with open_plane(QUICK, tmp_path) as plane, trio.open_nursery() as nursery:
        fakes = {"one": FakeOpenAI(), "two": FakeOpenAI()}
        for name, fake in fakes.items():
            plane.net.hosts[f"{name}.test", 80] = hosted(fake)
        began, chosen = trio.current_time(), []
        chat = msgspec.json.encode({"model": "quick", "stream": True, "messages": [{"role": "user", "content": "hi"}]})

        async def ask(number):
            reply = await plane.post("/v1/chat/completions", chat, **{"x-gw-session": f"call-{number}"})
            assert reply.status == 200

        for number in range(1_200):  # ten a second, two minutes long
            second = number / 10
            fakes["one"].first_token_after_s = 1.5 if 30 <= second < 70 else 0.2
            fakes["two"].first_token_after_s = 0.4
            nursery.start_soon(ask, number)
            await trio.sleep(0.1)
        await trio.sleep(5)
        for record in sorted(plane.kept.records, key=lambda record: record.timestamp):
            if record.attempts[0].routing != "probe of its latency":
                chosen.append((record.timestamp - plane.kept.records[0].timestamp, record.attempts[0].model_id.split("/")[0]))
        moves = [(at, name) for (_, before), (at, name) in pairwise(chosen) if name != before]
        assert [name for _, name in moves] == ["two", "one"]
        assert 30 < moves[0][0] <= 60
        assert 70 < moves[1][0] <= 100
        probes = sum(record.attempts[0].routing == "probe of its latency" for record in plane.kept.records)
        assert 0.04 <= probes / 1_200 <= 0.05
        assert trio.current_time() - began < 130


async def test_the_cheapest_by_its_price_answers(tmp_path, autojump_clock):
    text = CONFIG.replace("    openai/gpt-4o:\n", "    openai/gpt-4o:\n      prefer: cost\n")
    async with opened(tmp_path, text) as (plane, _):
        chat = {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
        reply = await plane.post("/v1/chat/completions", msgspec.json.encode(chat))
        assert reply.headers["x-gw-model"] == "openai/gpt-4o-mini"
        assert plane.kept.record.attempts[0].routing.startswith("cost: about $0.0003")


REGIONS = """
providers:
  one: {type: openai, api_key: k, base_url: "http://one.test/v1", region: eu}
  two: {type: openai, api_key: k, base_url: "http://two.test/v1", region: us}
  three: {type: openai, api_key: k, base_url: "http://three.test/v1"}
models: {llm: [one/gpt-4o-mini, two/gpt-4o-mini, three/gpt-4o-mini]}
routes: {llm: {half: {models: [one/gpt-4o-mini, two/gpt-4o-mini]}}}
fallbacks: {llm: [one/gpt-4o-mini, two/gpt-4o-mini, three/gpt-4o-mini]}
projects: {clinic: {regions: [eu]}, desk: {}}
"""


async def test_a_region_is_a_hard_filter_on_every_candidate(tmp_path, autojump_clock):
    async with open_plane(REGIONS, tmp_path) as plane:
        fakes = {name: FakeOpenAI() for name in ("one", "two", "three")}
        for name, fake in fakes.items():
            plane.net.hosts[f"{name}.test", 80] = hosted(fake)

        async def chat(model, **headers):
            body = msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "hi"}]})
            return await plane.post("/v1/chat/completions", body, **{name.replace("_", "-"): text for name, text in headers.items()})

        for number in range(20):
            reply = await chat("half", x_gw_project="clinic", x_gw_session=f"s{number}")
            assert (reply.status, reply.headers["x-gw-model"]) == (200, "one/gpt-4o-mini")
        reply = await chat("three/gpt-4o-mini", x_gw_project="clinic")
        assert reply.headers["x-gw-model"] == "one/gpt-4o-mini"
        fakes["one"].status = 500
        reply = await chat("one/gpt-4o-mini", x_gw_project="clinic")
        assert (reply.status, fakes["two"].ledger, fakes["three"].ledger) == (502, [], [])
        reply = await chat("one/gpt-4o-mini", x_gw_project="desk", x_gw_regions="eu, US")
        assert (reply.headers["x-gw-model"], fakes["three"].ledger) == ("two/gpt-4o-mini", [])
        refused = await chat("one/gpt-4o-mini", x_gw_project="clinic", x_gw_regions="us")
        assert refused.status == 403
        assert refused.json["error"]["gw"]["code"] == "region_not_allowed"
        assert "the project 'clinic' allows eu, and X-GW-Regions allows us" in refused.json["error"]["message"]
        assert (await chat("one/gpt-4o-mini", x_gw_regions=",")).status == 400
