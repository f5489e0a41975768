"""Clients of the live transcription dialects: how each opens a session, sends audio and reads transcripts.

A new dialect is its `Talker` listed in `TALKERS`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import msgspec
import trio

from gw.net.ws import WebSocket, WsClosed, open_ws
from gw.providers.sim import fsk
from gw.types.audio import PCM_16K, PCM_24K, AudioFormat
from tests.fakes.hosting import GATEWAY, Plane

Frame = str | bytes


def speech(texts: Sequence[str], rate: int, pause_s: float = 0.125) -> bytes:
    pause = b"\0\0" * int(rate * pause_s)
    return b"".join(b"".join(fsk.encode(text, rate)) + pause for text in texts)


def as_json(**members: Any) -> str:
    return msgspec.json.encode(members).decode()


@attrs.frozen(kw_only=True)
class Talker:
    """`finals` returns the final transcripts in a frame; `begin` returns the frames before any audio."""

    name: str
    dialect: str
    path: Callable[[str], str]
    """For a model; with its query."""
    audio: Callable[[bytes], Frame]
    finals: Callable[[Any], list[str]]
    format: AudioFormat = PCM_16K
    begin: Callable[[str], Sequence[Frame]] = lambda model: ()
    finish: Sequence[Frame] = ()
    """Frames after the last audio; () = the client closes the socket to end a session."""
    error: Callable[[Any], str | None] = lambda frame: None
    """The message of an error frame."""
    headers: Sequence[tuple[bytes, bytes]] = ()

    def open(self, plane: Plane, model: str, query: str = "") -> AbstractAsyncContextManager[WebSocket]:
        target = self.path(model)
        target += ("&" if "?" in target else "?") + query if query else ""
        return open_ws("client", GATEWAY, target.encode(), headers=list(self.headers), connect=plane.client.connect)

    def frames(self, pcm: bytes) -> list[Frame]:
        """Audio in pieces of 40 ms."""
        size = int(self.format.sample_rate_hz / 25) * 2
        return [self.audio(pcm[at : at + size]) for at in range(0, len(pcm), size)]


@attrs.define
class Received:
    finals: list[str] = attrs.field(factory=list)
    frames: list[Any] = attrs.field(factory=list)
    errors: list[str] = attrs.field(factory=list)
    code: int | None = None
    reason: str = ""

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.finals).split())


async def read(talker: Talker, ws: WebSocket, received: Received, until: int | None = None) -> None:
    """Until the server closes, or `until` finals were heard."""
    try:
        while until is None or len(received.finals) < until:
            frame = msgspec.json.decode(await ws.receive())
            received.frames.append(frame)
            received.finals += [text for text in talker.finals(frame) if text]
            if (message := talker.error(frame)) is not None:
                received.errors.append(message)
    except WsClosed as closed:
        received.code, received.reason = closed.code, closed.reason


async def converse(
    talker: Talker,
    plane: Plane,
    model: str,
    texts: Sequence[str],
    *,
    gap_s: float = 0.04,
    query: str = "",
    pause_s: float = 0.125,
) -> Received:
    """Send `texts` as speech in real time, and read the session to its end."""
    received = Received()
    async with talker.open(plane, model, query) as ws, trio.open_nursery() as nursery:
        for frame in talker.begin(model):
            await _send(ws, frame)
        nursery.start_soon(read, talker, ws, received, None if talker.finish else len(texts))
        try:
            for frame in talker.frames(speech(texts, talker.format.sample_rate_hz, pause_s)):
                await _send(ws, frame)
                await trio.sleep(gap_s)
            for frame in talker.finish:
                await _send(ws, frame)
        except Exception as error:
            if received.code is None:
                raise error
    return received


async def _send(ws: WebSocket, frame: Frame) -> None:
    await ws.send(frame)


_TRANSCRIPTION = "conversation.item.input_audio_transcription."

OPENAI_REALTIME = Talker(
    name="openai realtime",
    dialect="openai",
    path=lambda model: "/v1/realtime?intent=transcription",
    audio=lambda data: as_json(type="input_audio_buffer.append", audio=b64encode(data).decode()),
    finals=lambda frame: [frame["transcript"]] if frame["type"] == _TRANSCRIPTION + "completed" else [],
    format=PCM_24K,
    begin=lambda model: [
        as_json(
            type="session.update",
            session={"type": "transcription", "audio": {"input": {"transcription": {"model": model}}}},
        )
    ],
    error=lambda frame: frame["error"]["message"] if frame["type"] == "error" else None,
)
LIVEKIT = Talker(
    name="livekit",
    dialect="livekit",
    path=lambda model: f"/livekit/v1/stt?model={model}",
    audio=lambda data: as_json(type="input_audio", audio=b64encode(data).decode()),
    finals=lambda frame: [frame["transcript"]] if frame["type"] == "final_transcript" else [],
    begin=lambda model: [
        as_json(type="session.create", model=model, settings={"sample_rate": "16000", "encoding": "pcm_s16le", "extra": {}})
    ],
    finish=[as_json(type="session.finalize"), as_json(type="session.close")],
    error=lambda frame: frame["message"] if frame["type"] == "error" else None,
)
DEEPGRAM = Talker(
    name="deepgram",
    dialect="deepgram",
    path=lambda model: f"/v1/listen?model={model}&encoding=linear16&sample_rate=16000&interim_results=true&vad_events=true",
    audio=lambda data: data,
    finals=lambda frame: [frame["channel"]["alternatives"][0]["transcript"]] if frame.get("is_final") else [],
    finish=[as_json(type="CloseStream")],
    error=lambda frame: frame["description"] if frame["type"] == "Error" else None,
)
CARTESIA = Talker(
    name="cartesia",
    dialect="cartesia",
    path=lambda model: f"/stt/websocket?model={model}&encoding=pcm_s16le&sample_rate=16000&language=en",
    audio=lambda data: data,
    finals=lambda frame: [frame["text"].strip()] if frame["type"] == "transcript" and frame["is_final"] else [],
    finish=["finalize", "close"],
    error=lambda frame: frame["message"] if frame["type"] == "error" else None,
)
CARTESIA_TURNS = attrs.evolve(
    CARTESIA,
    name="cartesia turns",
    path=lambda model: f"/stt/turns/websocket?model={model}&encoding=pcm_s16le&sample_rate=16000",
    finals=lambda frame: [frame["transcript"]] if frame["type"] == "turn.end" else [],
    finish=[as_json(type="close")],
)
ASSEMBLYAI = Talker(
    name="assemblyai",
    dialect="assemblyai",
    path=lambda model: f"/v3/ws?sample_rate=16000&encoding=pcm_s16le&speech_model={model}&format_turns=True",
    audio=lambda data: data,
    finals=lambda frame: [frame["transcript"]] if frame["type"] == "Turn" and frame["end_of_turn"] and frame["turn_is_formatted"] else [],
    finish=[as_json(type="Terminate")],
    error=lambda frame: frame["error"] if frame["type"] == "Error" else None,
)
_ELEVEN = "input_audio_chunk"
ELEVENLABS = Talker(
    name="elevenlabs",
    dialect="elevenlabs",
    path=lambda model: f"/v1/speech-to-text/realtime?model_id={model}&audio_format=pcm_16000&include_timestamps=true",
    audio=lambda data: as_json(message_type=_ELEVEN, audio_base_64=b64encode(data).decode(), commit=False, sample_rate=16_000),
    finals=lambda frame: [frame["text"]] if frame["message_type"] == "committed_transcript_with_timestamps" else [],
    error=lambda frame: frame.get("error"),
)
FLUX = Talker(
    name="deepgram flux",
    dialect="deepgram",
    path=lambda model: f"/v2/listen?model={model}&encoding=linear16&sample_rate=16000",
    audio=lambda data: data,
    finals=lambda frame: [frame["transcript"]] if frame.get("event") == "EndOfTurn" else [],
    finish=[as_json(type="CloseStream")],
    error=lambda frame: frame["description"] if frame["type"] == "Error" else None,
)
TALKERS: tuple[Talker, ...] = (OPENAI_REALTIME, LIVEKIT, DEEPGRAM, CARTESIA, CARTESIA_TURNS, ASSEMBLYAI, ELEVENLABS, FLUX)
