"""Speech over a WebSocket that is said again comes from the phrase cache, in every protocol, for nothing, and without its vendor."""

from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from gw.net.ws import open_ws
from tests.contract.readers import (
    CARTESIA,
    DEEPGRAM,
    DEEPGRAM_FLUX,
    ELEVEN_MANY,
    READERS,
    Reader,
    Spoken,
    converse,
    receive_speech,
    send,
)
from tests.contract.talkers import as_json
from tests.fakes.complete import open_complete
from tests.fakes.hosting import GATEWAY, hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs

SIM = """
providers: {first: {type: sim, latency_ms: 0}}
models: {tts: {first/tone: {price: {unit: 1M_characters, usd: 10}}}}
projects: {default: {phrase_cache: {}}}
"""
VENDORS = """
providers:
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
  elevenlabs: {api_key: k, base_url: "http://elevenlabs.test"}
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
models:
  tts:
    cartesia/sonic-3: {default_voice: c, price: {unit: 1M_characters, usd: 10}}
    elevenlabs/eleven_flash_v2_5: {default_voice: e}
    deepgram/aura-2-thalia-en: {}
projects: {default: {phrase_cache: {}}}
"""
FAKES = {"cartesia": FakeCartesia, "elevenlabs": FakeElevenLabs, "deepgram": FakeDeepgram}
GREETING = ["Welcome to the hotel. ", "How can I ", "help you?"]
TEXT = "".join(GREETING)


def uses(record):
    return [attempt.cache for attempt in record.attempts]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
async def test_a_greeting_a_sentence_of_it_and_one_within_longer_speech(reader, tmp_path, autojump_clock):
    async with open_plane(SIM, tmp_path) as plane:
        first, second = [await converse(reader, plane, "first/tone", GREETING) for _ in range(2)]
        assert (second.pcm, second.errors) == (first.pcm, [])
        assert first.text(reader) == TEXT
        longer = await converse(reader, plane, "first/tone", ["Good day. ", *GREETING, " Or ", "do you need a taxi?"])
        assert longer.text(reader) == f"Good day. {TEXT} Or do you need a taxi?"
        await plane.kept.finished.wait()
        paid, free, mixed = plane.kept.records
        assert [uses(record) for record in (paid, free, mixed)] == [["miss"], ["hit"], ["miss", "hit", "miss"]]
        assert paid.cost_nusd == paid.usage.characters * 10_000 > 0
        assert (free.cost_nusd, free.pricing_source, free.usage.characters) == (0, "cache", 0)
        assert mixed.cost_nusd == (mixed.usage.characters) * 10_000
        assert mixed.usage.characters <= len("Good day.  Or do you need a taxi? ")
        assert max(second.sizes) <= 2 * reader.format.bytes_per_second  # frames of a size that clients accept


@asynccontextmanager
async def opened(tmp_path):
    async with open_plane(VENDORS, tmp_path) as plane:
        fakes = {name: make() for name, make in FAKES.items()}
        for name, fake in fakes.items():
            plane.net.hosts[f"{name}.test", 80] = hosted(fake)
        yield plane, fakes


@pytest.mark.parametrize("model", ["cartesia/sonic-3", "elevenlabs/eleven_flash_v2_5", "deepgram/aura-2-thalia-en"])
@pytest.mark.parametrize("reader", [CARTESIA, ELEVEN_MANY, DEEPGRAM], ids=lambda reader: reader.name)
async def test_a_phrase_is_there_while_its_vendor_is_not(reader, model, tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        first = await say(reader, plane, model)
        fake = fakes[model.partition("/")[0]]
        fake.status = 500
        second = await say(reader, plane, model)
        assert (second.errors, second.pcm) == ([], first.pcm)
        assert first.pcm
        paid, free = plane.kept.records
        assert {intent.id for intent in plane.kept.intents} == {paid.id} != {free.id}
        assert [uses(record) for record in plane.kept.records] == [["miss"], ["hit"]]


async def say(reader: Reader, plane, model) -> Spoken:
    spoken = Spoken()
    async with reader.open(plane, model) as ws, trio.open_nursery() as nursery:
        await send(ws, reader.begin(model), model)
        nursery.start_soon(receive_speech, reader, ws, spoken)
        for text in GREETING:
            await send(ws, reader.say(text), model)
        await send(ws, reader.end, model)
    return spoken


def generate(transcript, context, *, more):
    output = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
    return as_json(
        context_id=context, model_id="cartesia/sonic-3", voice={"mode": "id", "id": "v"}, output_format=output, add_timestamps=True,
        transcript=transcript, **{"continue": more},
    )  # fmt: skip


async def timed(ws, context, *texts):
    """Return the words of an utterance with their times, and the length of its audio."""
    for n, text in enumerate(texts):
        await ws.send(generate(text, context, more=n < len(texts) - 1))
    words, starts, size = [], [], 0
    while (frame := msgspec.json.decode(await ws.receive()))["type"] != "done":
        if frame["type"] == "timestamps":
            words += frame["word_timestamps"]["words"]
            starts += frame["word_timestamps"]["start"]
        elif frame["type"] == "chunk":
            size += len(frame["data"])
    return words, starts, size


async def test_word_times_count_through_all_of_an_utterance(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, _), CARTESIA.open(plane, "cartesia/sonic-3") as ws:
        first = await timed(ws, "c1", TEXT)
        second = await timed(ws, "c2", TEXT)
        assert second == first
        assert first[0] == TEXT.split()
        words, starts, size = await timed(ws, "c3", "Good day. ", TEXT, " Or a taxi?")
        assert words == f"Good day. {TEXT} Or a taxi?".split()
        assert starts == sorted(starts)
        alone = await timed(ws, "c4", "Good day.")
        begin = starts[2] - first[1][0]
        assert begin == pytest.approx(starts[words.index("How")] - first[1][4], abs=0.001)
        assert begin > 0
        assert alone[0] == ["Good", "day."]
        assert size > first[2]
        assert [uses(record) for record in plane.kept.records] == [["miss"], ["hit"], ["miss", "hit", "miss"], ["hit"]]


@pytest.mark.parametrize("reader", [CARTESIA, DEEPGRAM, DEEPGRAM_FLUX, ELEVEN_MANY], ids=lambda reader: reader.name)
async def test_an_interruption_within_a_hit_stops_it(reader, tmp_path, autojump_clock):
    """The client reads nothing while it is spoken to, so that the take waits in the gateway when the interruption comes."""
    text = " ".join(["This is a sentence of a long speech that goes on."] * 5)
    async with open_plane(SIM, tmp_path) as plane:
        whole = await converse(reader, plane, "first/tone", [text])
        async with reader.open(plane, "first/tone") as ws:
            await send(ws, reader.begin("first/tone"))
            await send(ws, reader.say(text + " "))
            received = 0
            while not received:
                frame = await ws.receive()
                received += len(reader.audio(frame if isinstance(frame, bytes) else msgspec.json.decode(frame)))
            await send(ws, reader.interrupt)
            await trio.sleep(1)
        assert received < len(whole.pcm)
        record = plane.kept.records[-1]
        assert (record.status, record.cost_nusd, record.wasted_nusd, uses(record)) == ("cancelled", 0, 0, ["hit"])


async def test_reports_and_metrics(tmp_path):
    async with open_complete(VENDORS, tmp_path, {"cartesia.test": FakeCartesia()}) as made:
        path = b"/tts/websocket?cartesia_version=2025-04-16"
        async with open_ws("client", GATEWAY, path, headers=[], connect=made.client.connect) as ws:
            for n in range(3):
                await timed(ws, f"c{n}", TEXT)
            await timed(ws, "longer", "Good day. ", TEXT)
        logged = await made.json("/v1/logs")
        attempts = [[(attempt["cache"], attempt["saved_usd"]) for attempt in record["attempts"]] for record in logged]
        hits = [saved for record in attempts for cache, saved in record if cache == "hit"]
        assert len(hits) == 3
        assert hits == [hits[0]] * 3
        assert hits[0] > 0
        report = await made.json("/v1/cache")
        assert (report["phrases"], report["hits"], report["misses"]) == (2, 3, 2)
        assert abs(report["saved_usd"] - sum(hits)) < 1e-9
        costs = await made.json("/v1/costs")
        assert costs["saved"] == pytest.approx(sum(hits))
        assert costs["total"] == pytest.approx(sum(record["cost_usd"] for record in logged))
        assert costs["saved"] > costs["total"] > 0
        assert (await made.json("/v1/costs?period=all"))["saved"] == pytest.approx(sum(hits))
        today = (await made.json("/api/overview"))["today"]
        assert today["saved"] == pytest.approx(sum(hits))
        compared = (await made.json("/api/overview?period=today"))["compared"]
        assert (compared["current"]["saved"], compared["before"]["saved"]) == (pytest.approx(sum(hits)), 0)
        metrics = await made.metrics()
        assert metrics["gw_phrase_cache_total", (("result", "hit"),)] == 3
        assert metrics["gw_phrase_cache_total", (("result", "miss"),)] == 2
        assert abs(metrics["gw_phrase_cache_saved_usd_total", ()] - sum(hits)) < 1e-9
