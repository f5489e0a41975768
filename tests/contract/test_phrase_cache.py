"""Speech that is asked for again comes from the phrase cache: the same bytes, at once, for nothing, and no vendor is called."""

from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import trio

from gw.types.audio import PCM_16K
from gw.types.ids import Caller
from gw.types.tts import SpeakRequest
from tests.fakes.complete import open_complete
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.elevenlabs import FakeElevenLabs

CONFIG = """
providers:
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
  elevenlabs: {api_key: k, base_url: "http://elevenlabs.test"}
models:
  tts:
    cartesia/sonic-3: {default_voice: c-house}
    elevenlabs/eleven_flash_v2_5: {default_voice: e-house}
fallbacks: {tts: [cartesia/sonic-3, elevenlabs/eleven_flash_v2_5]}
projects:
  default: {phrase_cache: {}}
  other: {phrase_cache: {takes: 2, longest: 20}}
  plain: {}
"""
GREETING = "Welcome to the hotel. How can I help you?"


@asynccontextmanager
async def opened(tmp_path):
    async with open_plane(CONFIG, tmp_path) as plane:
        fakes = {"cartesia": FakeCartesia(), "elevenlabs": FakeElevenLabs()}
        for name, fake in fakes.items():
            plane.net.hosts[f"{name}.test", 80] = hosted(fake)
        yield plane, fakes


async def speak(plane, text=GREETING, *, project="default", **members):
    body = {"model": "cartesia/sonic-3", "input": text, "response_format": "pcm", **members}
    return await plane.post("/v1/audio/speech", msgspec.json.encode(body), **{"x-gw-project": project})


async def test_the_second_time_it_is_the_same_bytes_for_nothing(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        first, second = await speak(plane), await speak(plane)
        assert [first.headers["x-gw-cache"], second.headers["x-gw-cache"]] == ["miss", "hit"]
        assert second.body == first.body != b""
        assert len(fakes["cartesia"].ledger) == 1
        paid, free = plane.kept.records
        assert (paid.cost_nusd > 0, paid.usage.characters) == (True, len(GREETING))
        assert (free.cost_nusd, free.pricing_source, free.usage.characters, free.wasted_nusd) == (0, "cache", 0, 0)
        assert (free.attempts[0].cache, free.attempts[0].saved_nusd) == ("hit", paid.cost_nusd)
        assert len(plane.kept.intents) == 1
        assert plane.gateway.ledger.cost("default") == paid.cost_nusd


async def test_word_times_come_from_the_cache_too(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        body = {
            "model_id": "sonic-3", "transcript": GREETING, "voice": {"mode": "id", "id": "c-house"}, "add_timestamps": True,
            "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000},
        }  # fmt: skip
        first, second = [await plane.post("/tts/sse", msgspec.json.encode(body)) for _ in range(2)]
        assert second.headers["x-gw-cache"] == "hit"
        sent = [[line[6:] for line in reply.body.splitlines() if line.startswith(b"data: ")] for reply in (first, second)]
        words = [[m for m in map(msgspec.json.decode, lines) if m["type"] == "timestamps"] for lines in sent]
        texts = [[word for m in found for word in m["word_timestamps"]["words"]] for found in words]
        assert texts[0] == texts[1] == GREETING.split()
        assert len(fakes["cartesia"].ledger) == 1


async def test_another_text_voice_format_or_project_is_another_phrase(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        await speak(plane)
        for change in ({"text": "Welcome."}, {"voice": "c-brand"}, {"response_format": "wav"}, {"speed": 1.2}, {"project": "plain"}):
            reply = await speak(plane, **change)
            assert reply.headers.get("x-gw-cache") == (None if "project" in change else "miss")
        assert len(fakes["cartesia"].ledger) == 6


async def test_takes_are_made_before_one_is_repeated(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        uses = [(await speak(plane, "One moment.", project="other")).headers["x-gw-cache"] for _ in range(5)]
        assert uses == ["miss", "miss", "hit", "hit", "hit"]
        assert len(fakes["cartesia"].ledger) == 2
        long = await speak(plane, GREETING, project="other")
        assert "x-gw-cache" not in long.headers


async def test_a_phrase_is_there_while_its_vendor_is_not(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        first = await speak(plane)
        fakes["cartesia"].status = 500
        for _ in range(8):  # more than the circuit breaker allows
            await speak(plane, "Something else.")
        again = await speak(plane)
        assert (again.status, again.body, again.headers["x-gw-model"]) == (200, first.body, "cartesia/sonic-3")


async def test_speech_of_a_fallback_is_not_taken_for_that_of_the_first(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        fakes["cartesia"].status = 500
        assert (await speak(plane)).headers["x-gw-model"] == "elevenlabs/eleven_flash_v2_5"
        fakes["cartesia"].status = None
        reply = await speak(plane)
        assert (reply.headers["x-gw-model"], reply.headers["x-gw-cache"]) == ("cartesia/sonic-3", "miss")


async def test_a_caller_who_leaves_a_hit_pays_nothing_and_one_who_leaves_a_miss_keeps_nothing(tmp_path, autojump_clock):
    async with opened(tmp_path) as (plane, fakes):
        request = SpeakRequest(model="cartesia/sonic-3", text=GREETING, format=PCM_16K)
        async with plane.gateway.relay.speak(request, Caller()):
            pass
        assert plane.gateway.relay.phrases.figures.phrases == 0
        async with plane.gateway.relay.speak(request, Caller()) as whole:
            while not whole.done:
                await whole.receive()
        async with plane.gateway.relay.speak(request, Caller()):
            await trio.sleep(0.2)
        left, _, interrupted = plane.kept.records
        assert (left.status, interrupted.status) == ("cancelled", "cancelled")
        assert (interrupted.cost_nusd, interrupted.wasted_nusd, interrupted.usage.characters) == (0, 0, 0)
        assert len(fakes["cartesia"].ledger) == 2


async def test_reports_metrics_and_forgetting(tmp_path):
    async with open_complete(CONFIG, tmp_path, {"cartesia.test": FakeCartesia()}) as made:
        body = {"model": "cartesia/sonic-3", "input": GREETING, "response_format": "pcm"}
        for _ in range(21):
            status, _ = await made.request("POST", "/v1/audio/speech", body)
            assert status == 200
        logged = await made.json("/v1/logs")
        hits = [record for record in logged if record["attempts"][0]["cache"] == "hit"]
        assert len(hits) == 20
        assert min(record["ttfb_ms"] for record in hits) <= 2.0
        saved = sum(record["attempts"][0]["saved_usd"] for record in hits)
        report = await made.json("/v1/cache")
        assert (report["phrases"], report["hits"], report["misses"]) == (1, 20, 1)
        assert abs(report["saved_usd"] - saved) < 1e-9
        (phrase,) = report["latest"]
        assert (phrase["text"], phrase["voice"], phrase["used"], phrase["takes"]) == (GREETING, "c-house", 20, 1)
        metrics = await made.metrics()
        assert metrics["gw_phrase_cache_total", (("result", "hit"),)] == 20
        assert abs(metrics["gw_phrase_cache_saved_usd_total", ()] - saved) < 1e-9
        assert (await made.json("/v1/latency"))["cartesia/sonic-3"]["request_count"] == 21
        costs = await made.json("/v1/costs")
        assert abs(costs["total"] - saved / 20) < 1e-9
        status, answer = await made.request("DELETE", "/v1/cache?voice=c-other")
        assert msgspec.json.decode(answer) == {"phrases": 0}
        status, answer = await made.request("DELETE", "/v1/cache?voice=c-house")
        assert (status, msgspec.json.decode(answer)) == (200, {"phrases": 1})
        assert (await made.json("/v1/cache"))["bytes"] == 0
