"""Clients of the live speech dialects: how each sends text to speak, and reads the audio.

A new dialect is its `Reader` listed in `READERS`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import msgspec
import trio

from gw.net.ws import WebSocket, WsClosed, open_ws
from gw.providers.sim import fsk
from gw.types.audio import PCM_24K, AudioFormat
from tests.contract.talkers import Frame, as_json
from tests.fakes.hosting import GATEWAY, Plane


@attrs.frozen(kw_only=True)
class Reader:
    """`audio` takes the samples out of one frame, `ended` knows the frame after which an utterance is complete."""

    name: str
    dialect: str
    path: Callable[[str], str]
    say: Callable[[str], Sequence[Frame]]
    """Frames for a piece of text."""
    end: Sequence[Frame]
    """The utterance is complete."""
    audio: Callable[[Any], bytes]
    ended: Callable[[Any], bool]
    format: AudioFormat = PCM_24K
    begin: Callable[[str], Sequence[Frame]] = lambda model: ()
    interrupt: Sequence[Frame] = ()
    """Drop what was not spoken; () = closing the socket does."""
    error: Callable[[Any], str | None] = lambda frame: None
    eager: bool = True
    """Speaks a whole sentence before the next one begins."""

    def open(self, plane: Plane, model: str, query: str = "") -> AbstractAsyncContextManager[WebSocket]:
        target = self.path(model)
        target += ("&" if "?" in target else "?") + query if query else ""
        return open_ws("client", GATEWAY, target.encode(), headers=[], connect=plane.client.connect)


@attrs.define
class Spoken:
    pcm: bytes = b""
    at: list[float] = attrs.field(factory=list)
    """When each piece of audio came."""
    sizes: list[int] = attrs.field(factory=list)
    """Bytes of each piece."""
    errors: list[str] = attrs.field(factory=list)
    code: int | None = None
    reason: str = ""

    def text(self, reader: Reader) -> str:
        """Return the spoken text, decoded from the tone engine's audio."""
        return " ".join(done.text for done in fsk.decode(self.pcm, reader.format.sample_rate_hz))


async def receive_speech(reader: Reader, ws: WebSocket, spoken: Spoken) -> None:
    """Until an utterance is complete, or the server closes."""
    try:
        while True:
            received = await ws.receive()
            frame = received if isinstance(received, bytes) else msgspec.json.decode(received)
            if data := reader.audio(frame):
                spoken.pcm += data
                spoken.at.append(trio.current_time())
                spoken.sizes.append(len(data))
            if (message := None if isinstance(frame, bytes) else reader.error(frame)) is not None:
                spoken.errors.append(message)
                return
            if reader.ended(frame):
                return
    except WsClosed as closed:
        spoken.code, spoken.reason = closed.code, closed.reason


async def send(ws: WebSocket, frames: Sequence[Frame], model: str = "first/tone") -> None:
    """`MODEL` stands for the model where a frame names it."""
    for frame in frames:
        frame = frame.replace("MODEL", model) if isinstance(frame, str) else frame
        await ws.send(frame)


async def converse(reader: Reader, plane: Plane, model: str, texts: Sequence[str], query: str = "") -> Spoken:
    """Have `texts` spoken as one utterance."""
    spoken = Spoken()
    async with reader.open(plane, model, query) as ws, trio.open_nursery() as nursery:
        await send(ws, reader.begin(model), model)
        nursery.start_soon(receive_speech, reader, ws, spoken)
        for text in texts:
            await send(ws, reader.say(text), model)
            await trio.sleep(0.01)
        await send(ws, reader.end, model)
    return spoken


LIVEKIT = Reader(
    name="livekit",
    dialect="livekit",
    path=lambda model: f"/livekit/v1/tts?model={model}",
    begin=lambda model: [
        as_json(type="session.create", model=model, voice="alloy", sample_rate="24000", encoding="pcm_s16le", extra={})
    ],
    say=lambda text: [as_json(type="input_transcript", transcript=text, generation_config={}, extra={})],
    end=[as_json(type="session.flush")],
    audio=lambda frame: b64decode(frame["audio"]) if frame["type"] == "output_audio" else b"",
    ended=lambda frame: frame["type"] == "done",
    error=lambda frame: frame["message"] if frame["type"] == "error" else None,
)
DEEPGRAM = Reader(
    name="deepgram",
    dialect="deepgram",
    path=lambda model: f"/v1/speak?model={model}&encoding=linear16&sample_rate=24000",
    say=lambda text: [as_json(type="Speak", text=text)],
    end=[as_json(type="Flush")],
    audio=lambda frame: frame if isinstance(frame, bytes) else b"",
    ended=lambda frame: not isinstance(frame, bytes) and frame["type"] == "Flushed",
    interrupt=[as_json(type="Clear")],
    error=lambda frame: frame["description"] if frame["type"] == "Error" else None,
)
DEEPGRAM_FLUX = attrs.evolve(
    DEEPGRAM,
    name="deepgram flux",
    path=lambda model: f"/v2/speak?model={model}&encoding=linear16&sample_rate=24000",
    interrupt=[as_json(type="Interrupt")],
)


def _generate(model: str, transcript: str, *, more: bool) -> str:
    output = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
    members = {"context_id": "c1", "model_id": model, "voice": {"mode": "id", "id": "alloy"}, "output_format": output}
    return as_json(**members, transcript=transcript, **{"continue": more})


CARTESIA = Reader(
    name="cartesia",
    dialect="cartesia",
    path=lambda model: f"/tts/websocket?cartesia_version=2025-04-16&model={model}",
    say=lambda text: [_generate("MODEL", text, more=True)],
    end=[_generate("MODEL", " ", more=False)],
    audio=lambda frame: b64decode(frame["data"]) if frame["type"] == "chunk" else b"",
    ended=lambda frame: frame["type"] == "done",
    interrupt=[as_json(context_id="c1", cancel=True)],
    error=lambda frame: frame["message"] if frame["type"] == "error" else None,
)
ELEVEN_MANY = Reader(
    name="elevenlabs contexts",
    dialect="elevenlabs",
    path=lambda model: f"/v1/text-to-speech/alloy/multi-stream-input?model_id={model}&output_format=pcm_24000",
    begin=lambda model: [as_json(text=" ", context_id="c1", voice_settings={"speed": 1.0})],
    say=lambda text: [as_json(text=text, context_id="c1")],
    end=[as_json(text="", context_id="c1", flush=True), as_json(context_id="c1", close_context=True)],
    audio=lambda frame: b64decode(frame.get("audio") or ""),
    ended=lambda frame: bool(frame.get("isFinal")) and frame["contextId"] == "c1",
    interrupt=[as_json(context_id="c1", close_context=True)],
    error=lambda frame: frame["message"] if "error" in frame else None,
)
ELEVEN_ONE = attrs.evolve(
    ELEVEN_MANY,
    name="elevenlabs stream",
    path=lambda model: f"/v1/text-to-speech/alloy/stream-input?model_id={model}&output_format=pcm_24000",
    begin=lambda model: [as_json(text=" ", voice_settings={"speed": 1.0})],
    say=lambda text: [as_json(text=text)],
    end=[as_json(text="")],
    ended=lambda frame: bool(frame.get("isFinal")),
    interrupt=(),
)
READERS: tuple[Reader, ...] = (LIVEKIT, DEEPGRAM, DEEPGRAM_FLUX, CARTESIA, ELEVEN_MANY, ELEVEN_ONE)
