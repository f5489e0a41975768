"""Phrases are spoken ahead as apps have had theirs: whatever the protocol and the settings, the app's own request finds them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import pytest

from gw.policy.recent_speech import Warmed
from gw.relay.phrase_warming import warm
from tests.contract.readers import CARTESIA, READERS, converse
from tests.contract.test_phrase_cache__sockets import SIM, TEXT, timed, uses
from tests.fakes.complete import open_complete
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia

APP = "I am here to help. "
CONFIG = """
providers: {cartesia: {api_key: k, base_url: "http://cartesia.test"}}
models: {tts: {cartesia/sonic-3: {default_voice: c-house, price: {unit: 1M_characters, usd: 10}}}}
projects:
  default: {phrase_cache: {}}
  twice: {phrase_cache: {takes: 2, longest: 50}}
  plain: {}
"""


async def warmed(plane, text=TEXT, project="default", **limit):
    relay, rules = plane.gateway.relay, plane.gateway.current.catalog.project(project).phrase_cache
    return await warm(relay, text, relay.phrases.recent.of(project, None, None).values(), rules, **limit)


@asynccontextmanager
async def opened(tmp_path):
    async with open_plane(CONFIG, tmp_path) as plane:
        fake = FakeCartesia()
        plane.net.hosts["cartesia.test", 80] = hosted(fake)
        yield plane, fake


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
async def test_an_app_over_a_websocket_finds_a_phrase_that_it_has_never_said(reader, tmp_path, autojump_clock):
    async with open_plane(SIM, tmp_path) as plane:
        await converse(reader, plane, "first/tone", [APP])
        done = await warmed(plane)
        assert done == Warmed(spoken=1, cost_nusd=10_000 * len(TEXT))
        assert await warmed(plane) == Warmed(kept=1)
        spoken = await converse(reader, plane, "first/tone", [TEXT])
        assert (spoken.text(reader), spoken.errors) == (TEXT, [])
        app, ahead, later = plane.kept.records
        assert [uses(record) for record in (app, ahead, later)] == [["miss"], ["miss"], ["hit"]]
        assert (ahead.endpoint, ahead.cost_nusd, later.cost_nusd) == ("/v1/cache/warm", done.cost_nusd, 0)


async def test_word_times_are_there_for_the_app_that_wants_them(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fake):
        async with CARTESIA.open(plane, "cartesia/sonic-3") as ws:
            await timed(ws, "c1", APP)
            await warmed(plane)
            calls = len(fake.ledger)
            words, starts, _ = await timed(ws, "c2", TEXT)
        assert (words, len(starts), len(fake.ledger)) == (TEXT.split(), len(TEXT.split()), calls)


async def test_over_http_each_way_of_speaking_gets_all_its_takes(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fake):

        async def say(text, **members):
            body = {"model": "cartesia/sonic-3", "input": text, "response_format": "pcm", **members}
            return await plane.post("/v1/audio/speech", msgspec.json.encode(body), **{"x-gw-project": "twice"})

        await say(APP)
        await say(APP, voice="c-other", response_format="wav")
        done = await warmed(plane, project="twice")
        assert (done.spoken, done.kept, done.left, done.unkept) == (4, 0, 0, 0)
        calls = len(fake.ledger)
        for members in ({}, {"voice": "c-other", "response_format": "wav"}):
            assert (await say(TEXT, **members)).headers["x-gw-cache"] == "hit"
        assert len(fake.ledger) == calls
        assert (await warmed(plane, project="twice")).kept == 2


async def test_when_the_time_is_over_the_rest_is_left(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fake):
        body = {"model": "cartesia/sonic-3", "input": APP, "response_format": "pcm"}
        await plane.post("/v1/audio/speech", msgspec.json.encode(body), **{"x-gw-project": "twice"})
        first, second, third = [await warmed(plane, project="twice", within_s=0.0) for _ in range(3)]
        assert (first.spoken, first.left, first.kept) == (1, 1, 0)
        assert (second.spoken, second.left, second.kept) == (1, 0, 0)
        assert (third.spoken, third.left, third.kept) == (0, 0, 1)
        assert len(fake.ledger) == 3


async def test_what_is_spoken_and_not_kept_is_named(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, _):
        body = {"model": "cartesia/sonic-3", "input": APP, "response_format": "pcm"}
        await plane.post("/v1/audio/speech", msgspec.json.encode(body))
        plane.gateway.relay.phrases.limit(1_000)  # too small for any speech
        done = await warmed(plane)
        assert (done.spoken, done.unkept, done.left) == (1, 1, 0)


async def test_the_route(tmp_path):
    async with open_complete(CONFIG, tmp_path, {"cartesia.test": FakeCartesia()}) as made:

        async def ask(**members):
            status, answer = await made.request("POST", "/v1/cache/warm", {"text": TEXT, **members})
            answer = msgspec.json.decode(answer)
            return status, answer["error"]["message"] if "error" in answer else answer

        assert await ask() == (422, "no app of project default has spoken so since the gateway started: let one speak first")
        assert await ask(project="plain") == (422, "project plain keeps no phrases: give it phrase_cache")
        assert await ask(project="twice", text=60 * "x") == (422, "the text has 60 characters; the project keeps 50 at most")
        assert await ask(text=" ") == (422, "the text is empty")
        assert (await ask(project="nobody"))[0] == 404
        await made.request("POST", "/v1/audio/speech", {"model": "cartesia/sonic-3", "input": APP, "response_format": "pcm"})
        assert (await ask(voice="c-other"))[0] == (await ask(model="cartesia/sonic-2"))[0] == 422
        status, answer = await ask(voice="c-house", model="cartesia/sonic-3")
        assert (status, answer) == (200, {"kinds": 1, "kept": 0, "spoken": 1, "left": 0, "unkept": 0, "cost_usd": 0.00041})
        assert (await ask())[1]["kept"] == 1
        costs, logged = await made.json("/v1/costs"), await made.json("/v1/logs")
        assert costs["total"] == pytest.approx(sum(record["cost_usd"] for record in logged))
        assert [record["attempts"][0]["cache"] for record in logged] == ["miss", "miss"]
