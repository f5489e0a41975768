"""An interruption at `/v2/speak`: the client says how far it has played, and learns which words its user has heard.

Source of the frames: deepgram-sdk 7.17.0, `speak/v2/types/speak_v2interrupt.py` and `speak_v2speech_interrupted.py`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from gw.net.ws import open_ws
from tests.contract.talkers import as_json
from tests.fakes.hosting import GATEWAY, open_plane

CONFIG = "{providers: {first: {type: sim, latency_ms: 0, token_ms: 0}}, models: {tts: [first/tone]}}"
TEXT = "The train to Paris leaves at nine from platform four."


class Client:
    def __init__(self, ws):
        self.ws = ws
        self.audio = b""

    async def send(self, kind, **members):
        await self.ws.send(as_json(type=kind, **members))

    async def until(self, kind):
        with trio.fail_after(60):
            while True:
                frame = await self.ws.receive()
                if isinstance(frame, bytes):
                    self.audio += frame
                elif (event := msgspec.json.decode(frame))["type"] == kind:
                    return event

    async def speak(self, text):
        await self.send("Speak", text=text)
        await self.send("Flush")
        await self.until("Flushed")

    async def interrupt(self, **members):
        await self.send("Interrupt", **members)
        return await self.until("SpeechInterrupted")

    @property
    def received_ms(self):
        return len(self.audio) // 48


@pytest.fixture
def talk(tmp_path, autojump_clock):
    @asynccontextmanager
    async def opened():
        async with open_plane(CONFIG, tmp_path) as plane:
            target = b"/v2/speak?model=first/tone&encoding=linear16&sample_rate=24000"
            async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
                yield Client(ws)

    return opened


def at(ms):
    return {"playback_offset": {"type": "time_ms", "value": ms}}


async def test_the_text_is_split_where_the_client_stopped_to_play(talk):
    async with talk() as client:
        await client.speak(TEXT)
        half_ms = client.received_ms // 2
        interrupted = await client.interrupt(**at(half_ms))
        assert interrupted["audio_played_ms"] == half_ms
        spoken, remaining = interrupted["text_spoken"], interrupted["text_remaining"]
        assert f"{spoken} {remaining}" == TEXT
        assert abs(len(spoken) / len(TEXT) - 0.5) < 0.2


async def test_the_next_speech_begins_where_the_last_was_interrupted(talk):
    async with talk() as client:
        await client.speak(TEXT)
        first_ms = (await client.interrupt(**at(client.received_ms // 2)))["audio_played_ms"]
        before_ms = client.received_ms
        await client.speak("It arrives in the evening.")
        length_ms = client.received_ms - before_ms
        interrupted = await client.interrupt(**at(first_ms + length_ms // 2))
        assert "It arrives in the evening.".startswith(interrupted["text_spoken"])
        assert 0 < len(interrupted["text_spoken"]) < len("It arrives in the evening.")


async def test_of_several_speeches_the_one_that_was_playing_is_split(talk):
    async with talk() as client:
        await client.speak("First of all.")
        first_ms = client.received_ms
        await client.speak(TEXT)
        interrupted = await client.interrupt(**at(first_ms + 500))
        assert TEXT.startswith(interrupted["text_spoken"])
        assert interrupted["text_remaining"].endswith("platform four.")
        assert (await client.interrupt(**at(first_ms + 600)))["text_spoken"] == ""


async def test_without_a_position_the_text_is_left_out(talk):
    async with talk() as client:
        await client.speak(TEXT)
        interrupted = await client.interrupt()
        assert interrupted["audio_played_ms"] == client.received_ms
        assert "text_spoken" not in interrupted
        assert "text_remaining" not in interrupted


async def test_a_position_that_is_not_behind_the_last_one_is_ignored_with_a_warning(talk):
    async with talk() as client:
        await client.speak(TEXT)
        await client.interrupt(**at(500))
        await client.send("Interrupt", **at(500))
        assert (await client.until("Warning"))["code"] == "INVALID_INTERRUPT_OFFSET"
        assert (await client.interrupt(**at(501)))["audio_played_ms"] == 500
