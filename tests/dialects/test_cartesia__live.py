"""Cartesia's sockets: when `finalize` is answered, and what becomes of a context that failed."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
import trio

from gw.dialects.live_transcription import ANSWER_S
from gw.net.ws import WsClosed
from tests.contract.readers import CARTESIA as CARTESIA_SPEECH
from tests.contract.readers import send
from tests.contract.talkers import CARTESIA, CARTESIA_TURNS, Received, as_json, read, speech
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram

CONFIG = """
providers:
  own: {type: cartesia, api_key: k, base_url: "http://own.test"}
  other: {type: deepgram, api_key: k, base_url: "http://other.test"}
models: {stt: [own/ink-2, own/ink-whisper, other/nova-3]}
"""
SPEECH_CONFIG = """
providers: {own: {type: cartesia, api_key: k, base_url: "http://own.test"}}
models: {tts: {own/sonic-3: {default_voice: v}}}
"""
GENERATE = as_json(
    context_id="c1", model_id="own/sonic-3", transcript="Hello.", voice="v",
    output_format={"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000},
)  # fmt: skip
MODELS = pytest.mark.parametrize("model", ["own/ink-2", "own/ink-whisper", "other/nova-3"])


@pytest.fixture
async def plane(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as gateway:
        gateway.net.hosts["own.test", 80] = hosted(FakeCartesia(api_key="k"))
        gateway.net.hosts["other.test", 80] = hosted(FakeDeepgram(api_key="k"))
        yield gateway


async def receive_until(ws, kind):
    events = []
    with trio.fail_after(60):
        while not events or events[-1]["type"] != kind:
            events.append(msgspec.json.decode(await ws.receive()))
    return events


def outline(frames):
    return [frame["text"].strip() if frame["type"] == "transcript" else frame["type"] for frame in frames if frame.get("is_final", True)]


@MODELS
@pytest.mark.parametrize("times", [1, 2])
async def test_finalize_is_answered_after_the_transcripts_before_it(model, times, plane):
    async with CARTESIA.open(plane, model) as ws:
        for frame in CARTESIA.frames(speech(["one two three"], 16_000, pause_s=0)):
            await ws.send(frame)
        for _ in range(times):
            await ws.send("finalize")
        first = await receive_until(ws, "flush_done")
        await ws.send("close")
        remaining = await receive_until(ws, "done")
    assert outline(first) == ["one two three", "flush_done"]
    assert outline(remaining) == ["flush_done"] * (times - 1) + ["done"]


@MODELS
async def test_a_session_by_turns_has_succeeded_when_it_ends(model, plane):
    async with CARTESIA_TURNS.open(plane, model) as ws:
        for frame in (*CARTESIA_TURNS.frames(speech(["one two three"], 16_000)), *CARTESIA_TURNS.finish):
            await ws.send(frame)
        received = Received()
        with trio.fail_after(60):
            await read(CARTESIA_TURNS, ws, received)
    assert received.finals == ["one two three"]
    (record,) = plane.kept.records
    assert (record.status, record.model_id, len(record.attempts)) == ("success", model, 1)


@MODELS
async def test_finalize_is_answered_after_silence(model, plane):
    async with CARTESIA.open(plane, model) as ws:
        await ws.send(bytes(6_400))
        began = trio.current_time()
        await ws.send("finalize")
        assert outline(await receive_until(ws, "flush_done")) == ["flush_done"]
        assert trio.current_time() - began <= ANSWER_S + 0.1
        await ws.send("close")
        assert outline(await receive_until(ws, "done")) == ["done"]


async def test_a_finalize_has_its_own_time_although_the_one_before_was_answered_sooner(plane):
    async with CARTESIA.open(plane, "other/nova-3") as ws:
        for frame in CARTESIA.frames(speech(["one two three"], 16_000, pause_s=0)):
            await ws.send(frame)
        began = trio.current_time()
        await ws.send("finalize")
        assert outline(await receive_until(ws, "flush_done")) == ["one two three", "flush_done"]
        await trio.sleep_until(began + 0.9 * ANSWER_S)
        began = trio.current_time()
        await ws.send(bytes(6_400))
        await ws.send("finalize")
        assert outline(await receive_until(ws, "flush_done")) == ["flush_done"]
        assert trio.current_time() - began == pytest.approx(ANSWER_S)


async def test_a_finalize_is_answered_after_a_late_transcript(tmp_path, autojump_clock):
    late_s = 1.5 * ANSWER_S
    async with open_plane(CONFIG + "routing: {silence_ms: 10000}\n", tmp_path) as gateway:
        gateway.net.hosts["other.test", 80] = hosted(FakeDeepgram(api_key="k", latency_s=(late_s, late_s)))
        async with CARTESIA.open(gateway, "other/nova-3") as ws:
            for frame in CARTESIA.frames(speech(["one two three"], 16_000, pause_s=0)):
                await ws.send(frame)
            await ws.send("finalize")
            assert outline(await receive_until(ws, "flush_done")) == ["one two three", "flush_done"]
            await ws.send("close")
            await receive_until(ws, "done")


async def test_a_context_that_failed_complete_can_be_used_again(tmp_path, autojump_clock):
    async with open_plane(SPEECH_CONFIG, tmp_path) as gateway:
        gateway.net.hosts["own.test", 80] = hosted(FakeCartesia(api_key="k", status=[500]))
        async with CARTESIA_SPEECH.open(gateway, "own/sonic-3") as ws:
            for kind in ("error", "done"):
                await send(ws, [GENERATE])
                assert (await receive_until(ws, kind))[-1]["context_id"] == "c1"


async def test_text_after_a_failure_is_dropped_until_the_context_is_complete(tmp_path, autojump_clock):
    async with open_plane(SPEECH_CONFIG, tmp_path) as gateway:
        gateway.net.hosts["own.test", 80] = hosted(FakeCartesia(api_key="k", status=[500]))
        async with CARTESIA_SPEECH.open(gateway, "own/sonic-3") as ws:
            await send(ws, CARTESIA_SPEECH.say("Hello there. "), "own/sonic-3")
            await receive_until(ws, "error")
            await send(ws, [*CARTESIA_SPEECH.say("dropped "), *CARTESIA_SPEECH.end, GENERATE], "own/sonic-3")
            frames = await receive_until(ws, "done")
        assert {frame["context_id"] for frame in frames} == {"c1"}
        assert [record.status for record in gateway.kept.records] == ["error", "success"]


@pytest.mark.parametrize("model", ["own/ink-2", "own/ink-whisper"])
async def test_silence_that_is_sent_beside_the_callers_audio_is_billed(model, tmp_path, autojump_clock):
    """In a turn that gets no more audio, and every minute of an idle session."""
    vendor, caller = FakeCartesia(api_key="k"), speech(["one two three"], 16_000, pause_s=0)
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["own.test", 80] = hosted(vendor)
        async with CARTESIA_TURNS.open(plane, model) as ws:
            for frame in CARTESIA_TURNS.frames(caller):
                await ws.send(frame)
            await trio.sleep(130)
            for frame in CARTESIA_TURNS.finish:
                await ws.send(frame)
            with trio.fail_after(60), suppress(WsClosed):
                while True:
                    await ws.receive()
        sent_s = len(vendor.ledger[0].audio) / 32_000
        assert sent_s > len(caller) / 32_000
        assert plane.kept.record.usage.audio_seconds == pytest.approx(sent_s, abs=0.01)
