"""What an app gets that names no format: MP3 in all three protocols that have it, from a vendor with samples only and from the demo.

Without PyAV, as in a plain installation.
"""

from __future__ import annotations

import sys
from base64 import b64decode
from contextlib import asynccontextmanager
from itertools import pairwise

import msgspec
import pytest
import trio

from gw.net.ws import open_ws
from gw.providers.sim import fsk
from gw.wire.durations import LengthMeter
from tests.contract.talkers import as_json
from tests.fakes.hosting import GATEWAY, hosted, open_plane
from tests.fakes.vendors.openai import FakeOpenAI
from tests.fakes.vendors.piper import FakePiper

TEXT = "one two three four five six"
CONFIG = """
providers:
  sim: {latency_ms: 0}
  piper: {base_url: "http://piper.test"}
  house: {type: openai, base_url: "http://house.test/v1", api_key: k}
models: {tts: [sim/tone, piper/en_US-lessac-medium, house/tts-x]}
"""
MODELS = ["sim/tone", "piper/en_US-lessac-medium"]


@pytest.fixture(autouse=True)
def _without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)


@asynccontextmanager
async def opened(tmp_path, more=""):
    async with open_plane(CONFIG + more, tmp_path) as plane:
        plane.net.hosts["piper.test", 80] = hosted(FakePiper(piece_s=0.1, speech_gap_s=0.05))
        plane.net.hosts["house.test", 80] = hosted(FakeOpenAI())
        yield plane


def json(**members):
    return msgspec.json.encode(members)


def requests(model):
    """Path and body of the request that each vendor's SDK sends for a complete text, without a format."""
    return {
        "openai": ("/v1/audio/speech", json(model=model, input=TEXT, voice="alloy")),
        "elevenlabs": ("/v1/text-to-speech/v/stream", json(model_id=model, text=TEXT)),
        "deepgram": (f"/v1/speak?model={model}", json(text=TEXT)),
    }


def check_is_mp3(data):
    meter = LengthMeter()
    meter.feed(data)
    assert meter.format is not None
    assert meter.format.encoding == "mp3"
    assert meter.seconds == pytest.approx(fsk.duration_s(TEXT), abs=0.06)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dialect", ["openai", "elevenlabs", "deepgram"])
async def test_speech_over_http(dialect, model, tmp_path, autojump_clock):
    path, body = requests(model)[dialect]
    async with opened(tmp_path) as plane:
        reply = await plane.post(path, body)
        assert (reply.status, reply.headers["content-type"]) == (200, "audio/mpeg"), reply.body[:300]
        check_is_mp3(reply.body)
        record = plane.kept.record
        assert (record.status, record.usage.characters) == ("success", len(TEXT))
        assert record.attempts[0].model_id == model


async def test_the_first_of_it_is_sent_while_the_vendor_still_speaks(tmp_path, autojump_clock):
    async with opened(tmp_path) as plane:
        reply = await plane.post(*requests("piper/en_US-lessac-medium")["openai"])
        times = [at for at, _ in reply.pieces]
        assert times[-1] - times[0] > 0.6, "the vendor takes 50 ms for each tenth of 1.4 seconds of speech"
        assert max(b - a for a, b in pairwise(times)) < 0.11, "and the gateway keeps none of it back"


@pytest.mark.parametrize("model", MODELS)
async def test_speech_in_openais_events(model, tmp_path, autojump_clock):
    async with opened(tmp_path) as plane:
        body = json(model=model, input=TEXT, voice="alloy", stream_format="sse")
        reply = await plane.post("/v1/audio/speech", body)
        assert reply.headers["content-type"] .startswith("text/event-stream")
        events = [msgspec.json.decode(event) for event in reply.events]
        audio = [b64decode(event["audio"]) for event in events if event["type"] == "speech.audio.delta"]
        check_is_mp3(b"".join(audio))
        assert events[-1]["type"] == "speech.audio.done"


@pytest.mark.parametrize("model", MODELS)
async def test_live_speech_in_elevenlabs_protocol(model, tmp_path, autojump_clock):
    async with opened(tmp_path) as plane:
        target = f"/v1/text-to-speech/v/stream-input?model_id={model}".encode()
        async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
            for text in (" ", TEXT, ""):
                await ws.send(as_json(text=text))
            audio = b""
            with trio.fail_after(60):
                while not (frame := msgspec.json.decode(await ws.receive())).get("isFinal"):
                    audio += b64decode(frame.get("audio") or "")
        check_is_mp3(audio)


@pytest.mark.parametrize("encoding", ["opus", "flac", "aac"])
@pytest.mark.parametrize("model", MODELS)
async def test_other_compressed_formats_name_the_extra(encoding, model, tmp_path, autojump_clock):
    async with opened(tmp_path) as plane:
        body = json(model=model, input=TEXT, voice="alloy", response_format=encoding)
        reply = await plane.post("/v1/audio/speech", body)
        assert (reply.status, reply.error["code"]) == (400, "unsupported_parameter")
        assert "install gw with its extra 'audio'" in reply.error["message"]
        assert reply.error["param"] == "response_format"


async def test_what_a_vendor_makes_itself_passes_unchanged(tmp_path, autojump_clock):
    async with opened(tmp_path) as plane:
        reply = await plane.post(*requests("house/tts-x")["openai"])
        assert reply.body == bytes(48_000), "the fake vendor's MP3"
        assert reply.headers["content-type"] == "audio/mpeg"


async def test_a_candidate_that_makes_the_format_itself_is_called_instead(tmp_path, autojump_clock):
    async with opened(tmp_path, "fallbacks: {tts: [piper/en_US-lessac-medium, house/tts-x]}\n") as plane:
        body = json(model=MODELS[1], input=TEXT, voice="alloy", response_format="opus")
        reply = await plane.post("/v1/audio/speech", body)
        assert (reply.status, reply.headers["x-gw-model"], reply.headers["content-type"]) == (200, "house/tts-x", "audio/opus")
        skipped, answered = plane.kept.record.attempts
        assert (skipped.outcome, answered.outcome) == ("missing_ability", "ok")
        assert "install gw with its extra 'audio'" in skipped.detail
