"""OpenAI's transcription socket: audio that comes before the client has named its model."""

from __future__ import annotations

from base64 import b64encode

import pytest
import trio

from tests.contract.talkers import OPENAI_REALTIME, Received, as_json, read, speech
from tests.fakes.hosting import open_plane

CONFIG = "{providers: {first: {type: sim, latency_ms: 0}}, models: {stt: [first/tone]}}"


@pytest.fixture
async def plane(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as gateway:
        yield gateway


async def test_audio_that_overtakes_the_session_update_is_transcribed(plane):
    received = Received()
    async with OPENAI_REALTIME.open(plane, "first/tone") as ws:
        first, *remaining = OPENAI_REALTIME.frames(speech(["one two", "three"], 24_000))
        for frame in (first, *OPENAI_REALTIME.begin("first/tone"), *remaining):
            await ws.send(frame)
        await read(OPENAI_REALTIME, ws, received, until=2)
    assert received.finals == ["one two", "three"]


async def test_more_than_ten_seconds_of_it_end_the_session(plane):
    received = Received()
    second = as_json(type="input_audio_buffer.append", audio=b64encode(bytes(48_000)).decode())
    async with OPENAI_REALTIME.open(plane, "first/tone") as ws:
        for _ in range(11):
            await ws.send(second)
        with trio.fail_after(5):
            await read(OPENAI_REALTIME, ws, received)
    assert received.code == 1008
    assert "session.update" in received.errors[0]
