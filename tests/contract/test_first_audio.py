"""A vendor drips; the caller hears its first piece at once, at every endpoint that speaks, whoever stands behind it.

The vendor's second piece waits until the caller has the first one: a gateway that holds anything back waits for ever. No
virtual time may pass in between either.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from gw.net.http1 import Origin
from gw.net.ws import open_ws
from gw.providers.spec import spec_of
from gw.wire import google_cloud_messages
from gw.wire.aws_event_stream import decode_message
from tests.contract.dripping import (
    FORMS,
    LISTENERS,
    SPEAKERS,
    TEXT,
    Behind,
    Dripping,
    Form,
    events,
    is_audio,
    request_of,
)
from tests.contract.endpoints import form_body
from tests.contract.readers import READERS, Reader, send
from tests.contract.talkers import TALKERS, Talker, as_json, speech
from tests.contract.vendors import KEY
from tests.fakes.hosting import GATEWAY, Plane, hosted, open_plane
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers: {house: {type: sim, latency_ms: 0}, behind: {type: TYPE, api_key: "KEY", base_url: "http://vendor.testPATH"MORE}}
models: {tts: {VOICE: {default_voice: alloy}}, stt: [EARS], llm: [house/echo]}
stacks: {trio: {stt: house/tone, llm: house/echo, tts: VOICE}}
routing: {first_event_s: {tts: 60, stt: 60, llm: 60}, idle_s: 60}
"""
VENDOR = Origin.parse("http://vendor.test")


@asynccontextmanager
async def _plane(tmp_path: Path, behind: Behind, dripping: Dripping) -> AsyncIterator[Plane]:
    text = CONFIG.replace("TYPE", behind.type).replace("KEY", KEY)
    text = text.replace("MORE", ", project: acme" if behind.type == "google_cloud" else "")
    text = text.replace("PATH", "/v1" if spec_of(behind.type).base_url.endswith("/v1") else "")
    text = text.replace("VOICE", "house/tone" if behind in LISTENERS else behind.model)
    text = text.replace("EARS", f"house/tone, {behind.model}" if behind in LISTENERS else "house/tone")
    async with open_plane(text, tmp_path) as plane:
        plane.net.hosts[VENDOR.host, VENDOR.port] = hosted(dripping)
        yield plane


# ---------------------------------------------------------------------- speech over HTTP


async def first_of(plane: Plane, form: Form, model: str, dripping: Dripping) -> bytes:
    """All the audio; the first of it as it came."""
    path, body = request_of(form, model)
    received = b""
    async with plane.open(path, body, **form.headers) as response:
        assert response.status == 200
        while data := await response.receive_some():
            received += data
            if not dripping.received.is_set() and len(form.audio(received)) > 44:  # more than the head of a WAV
                dripping.arrived()
    return form.audio(received)


@pytest.mark.parametrize("behind", SPEAKERS, ids=lambda behind: behind.type)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_the_first_audio_over_http(form, behind, tmp_path, autojump_clock):
    dripping = Dripping(behind.fake(), is_audio)
    async with _plane(tmp_path, behind, dripping) as plane:
        with trio.fail_after(30):
            audio = await first_of(plane, form, behind.model, dripping)
        assert dripping.received.is_set()
        assert dripping.overtaken
        assert len(audio) > 16_000


# ---------------------------------------------------------------------- speech over sockets


live = pytest.mark.parametrize(
    "behind", [who for who in SPEAKERS if spec_of(who.type).speak_live is not None], ids=lambda behind: behind.type
)


@live
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
async def test_the_first_audio_over_a_socket(reader: Reader, behind, tmp_path, autojump_clock):
    dripping = Dripping(behind.fake(), is_audio)
    model = behind.model
    async with _plane(tmp_path, behind, dripping) as plane:
        with trio.fail_after(30):
            async with reader.open(plane, model) as ws:
                await send(ws, [*reader.begin(model), *reader.say(TEXT), *reader.end], model)
                frame: Any = {"type": ""}
                while not reader.ended(frame):
                    received = await ws.receive()
                    frame = received if isinstance(received, bytes) else msgspec.json.decode(received)
                    assert isinstance(frame, bytes) or reader.error(frame) is None
                    if reader.audio(frame) and not dripping.received.is_set():
                        dripping.arrived()
        assert dripping.overtaken


@live
async def test_the_first_audio_of_a_conversation(behind, tmp_path, autojump_clock):
    dripping = Dripping(behind.fake(), is_audio)
    async with _plane(tmp_path, behind, dripping) as plane:
        with trio.fail_after(30):
            async with open_ws("client", GATEWAY, b"/v1/realtime?model=trio", headers=[], connect=plane.client.connect) as ws:
                message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": TEXT}]}
                await send(ws, [as_json(type="conversation.item.create", item=message), as_json(type="response.create")])
                event = {"type": ""}
                while event["type"] != "response.done":
                    event = msgspec.json.decode(await ws.receive())
                    assert event["type"] != "error", event
                    if event["type"] == "response.output_audio.delta" and not dripping.received.is_set():
                        dripping.arrived()
        assert dripping.overtaken


# ---------------------------------------------------------------------- transcripts


def _says(frame: Any) -> bool:
    """Whether a decoded frame of any dialect has words in it."""
    if isinstance(frame, list):
        return any(map(_says, frame))
    if not isinstance(frame, dict):
        return False
    words = (frame.get(name) for name in ("transcript", "Transcript", "text", "delta", "Text", "DisplayText"))
    return any(isinstance(word, str) and word.strip() for word in words) or any(map(_says, frame.values()))


def _has_words(data: str | bytes) -> bool:
    if isinstance(data, str) and "\r\n\r\n" in data:  # headers before the JSON, as Azure Speech sends
        data = data.partition("\r\n\r\n")[2]
    if isinstance(data, bytes):
        with suppress(ValueError):  # not an answer of Google's
            if any(result.text for result in google_cloud_messages.decode_answer(data).results):
                return True
        with suppress(ValueError):  # not a message of Amazon's event stream
            data = decode_message(data).payload
    try:
        return _says(msgspec.json.decode(data))
    except msgspec.DecodeError:
        return any(map(_says, events(bytes(data)))) if isinstance(data, bytes) and data[:5] == b"data:" else False


@pytest.mark.parametrize("behind", LISTENERS, ids=lambda behind: behind.type)
@pytest.mark.parametrize("talker", TALKERS, ids=lambda talker: talker.name)
async def test_the_first_words_of_a_live_session(talker: Talker, behind, tmp_path, autojump_clock):
    dripping = Dripping(behind.fake(), _has_words)
    async with _plane(tmp_path, behind, dripping) as plane:
        model = behind.model

        async def talk() -> None:
            for frame in talker.frames(speech(["one two three four"], talker.format.sample_rate_hz)):
                await send(ws, [frame])
                await trio.sleep(0.04)

        with trio.fail_after(30):
            async with talker.open(plane, model) as ws, trio.open_nursery() as nursery:
                await send(ws, talker.begin(model))
                nursery.start_soon(talk)
                while not _has_words(await ws.receive()):
                    pass
                dripping.arrived()
                nursery.cancel_scope.cancel()


async def test_the_first_words_of_a_streamed_transcription(tmp_path, autojump_clock):
    dripping = Dripping(FakeOpenAI(prefix="/v1", transcript="one two three"), _has_words)
    async with _plane(tmp_path, LISTENERS[0], dripping) as plane:
        body, content_type = form_body(LISTENERS[0].model, stream="true")
        received = b""
        with trio.fail_after(30):
            async with plane.open("/v1/audio/transcriptions", body, content_type) as response:
                while data := await response.receive_some():
                    received += data
                    if not dripping.received.is_set() and any(map(_says, events(received))):
                        dripping.arrived()
        assert dripping.overtaken
