"""LiveKit's inference protocol over WebSockets: server of live transcription and speech.

Source: livekit-agents 1.8.9, `livekit/agents/inference/{stt,tts}.py` (November 2026).

======================  ===========================================================================
Client sends            Server answers
======================  ===========================================================================
`session.create`        `session.created`; it is the first frame
`input_audio`           `start_of_speech`, `interim_transcript`, `final_transcript`
`session.finalize`      the transcripts of the audio so far, and `session.finalized`
`input_transcript`      `output_audio`, `output_alignment`: text to speak, sentence by sentence
`session.flush`         the remaining audio, then `done`: the utterance is complete, the next may follow
`session.close`         the remaining transcripts, then `session.closed`; no more of a speech
======================  ===========================================================================
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming
from gw.wire import live_messages
from gw.wire.json_codec import BAD_JSON
from gw.wire.json_frames import Frame, typed_frame
from gw.wire.live_messages import Audio, Control, DirectReply, OpenSession, SpeakMessage, Text, TtsCommand
from gw.wire.query import sample_rate
from gw.wire.transcripts import timed_word


class _Model(msgspec.Struct, gc=False):
    model: str | None = None


class _Fallback(msgspec.Struct, gc=False):
    models: list[_Model] = []


class _Settings(msgspec.Struct, gc=False):
    sample_rate: str | int | None = None
    encoding: str = "pcm_s16le"
    language: str | None = None


class _Frame(msgspec.Struct, gc=False):
    type: str
    model: str | None = None
    voice: str | None = None
    language: str | None = None
    sample_rate: str | int | None = None
    encoding: str = "pcm_s16le"
    settings: _Settings | None = None
    fallback: _Fallback | None = None
    audio: str = ""
    transcript: str = ""

    def model_or(self, default: str) -> str:
        """Return the model to use; "" for the client's "auto"."""
        model = self.model or default
        return "" if model == "auto" else model

    @property
    def fallback_models(self) -> tuple[str, ...]:
        """The models that the client itself names next."""
        return tuple(entry.model for entry in self.fallback.models if entry.model) if self.fallback is not None else ()


_FRAME = msgspec.json.Decoder(_Frame)


def _decode(frame: Frame) -> _Frame:
    try:
        return _FRAME.decode(frame)
    except BAD_JSON as error:
        raise ClientProtocolError(what=f"a frame is not the JSON expected: {error}") from None


def _format(encoding: str, rate: str | int | None, default_hz: int) -> AudioFormat:
    if encoding != "pcm_s16le":
        raise ClientProtocolError(what=f"encoding must be pcm_s16le, not {encoding!r}", param="encoding")
    return AudioFormat(encoding="pcm_s16le", sample_rate_hz=sample_rate(rate, default_hz))


def created_frame(session_id: str) -> str:
    """Return the answer to `session.create`."""
    return typed_frame("session.created", session_id=session_id)


def error_frame(code: str, message: str) -> str:
    return typed_frame("error", code=code, message=message)


# ---- transcription


def parse_create(frame: Frame, model: str) -> tuple[ListenRequest, tuple[str, ...]]:
    """Decode the first frame of a transcription: the request, and the models that the client itself names next.

    `model` is the query's, for a session that names none. Raises ClientProtocolError.
    """
    message = _decode(frame)
    if message.type != "session.create":
        raise ClientProtocolError(what="a session begins with session.create")
    settings = message.settings or _Settings()
    fmt = _format(settings.encoding, settings.sample_rate, 16_000)
    request = ListenRequest(model=message.model_or(model), format=fmt, language=settings.language, dialect="livekit")
    return request, message.fallback_models


class LiveKitListenServer(live_messages.ListenProtocol):
    """One session of a client, after `session.create`."""

    def __init__(self, request_id: str) -> None:
        self._id = request_id

    def receive(self, frame: Frame) -> Sequence[live_messages.ClientMessage]:
        """Decode a client's frame. Raises ClientProtocolError."""
        message = _decode(frame)
        match message.type:
            case "input_audio":
                try:
                    return (Audio(b64decode(message.audio, validate=True)),)
                except ValueError:
                    raise ClientProtocolError(what="'audio' must be base64", param="audio") from None
            case "session.finalize":
                return (Control.FLUSH, DirectReply(typed_frame("session.finalized")))
            case "session.close":
                return (Control.FINISH,)
        return ()

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames: list[str] = []
        for event in events:
            match event:
                case SpeechStarted():
                    frames.append(typed_frame("start_of_speech"))
                case Interim():
                    frames.append(self._transcript("interim_transcript", event))
                case Final():
                    frames.append(self._transcript("final_transcript", event))
                case ListenEnd():
                    frames.append(typed_frame("session.closed"))
        return frames

    def _transcript(self, kind: str, result: Interim | Final) -> str:
        members: dict[str, Any] = {
            "request_id": self._id,
            "transcript": result.text,
            "start": round(result.start_s, 3),
            "duration": round(max(0.0, result.end_s - result.start_s), 3),
            "words": [
                timed_word(word, **_without_none(confidence=word.confidence, speaker_id=word.speaker)) for word in result.words
            ],
        }
        return typed_frame(kind, **members, **_without_none(confidence=result.confidence, language=result.language or None))


def _without_none(**members: object) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}


# ---- speech


class LiveKitSpeakServer:
    """One session of a client, utterance after utterance. `model` is the query's, for a session that names none."""

    def __init__(self, request_id: str, model: str) -> None:
        self._id = request_id
        self._model = model

    def receive(self, frame: Frame) -> Sequence[SpeakMessage]:
        """Decode a client's frame. Raises ClientProtocolError."""
        message = _decode(frame)
        match message.type:
            case "session.create":
                request = SpeakLiveRequest(
                    model=message.model_or(self._model), voice=message.voice or "",
                    format=_format(message.encoding, message.sample_rate, 24_000), language=message.language,
                    want_timings=True, dialect="livekit"
                )  # fmt: skip
                return (OpenSession(request, message.fallback_models), DirectReply(created_frame(self._id)))
            case "input_transcript":
                return (Text(message.transcript),)
            case "session.flush":
                return (TtsCommand.FINISH,)
            case "session.close":
                return (TtsCommand.CLOSE,)
        return ()


def encode_speech(events: list[SpeakEvent], session_id: str) -> list[str]:
    """Encode the events of one utterance, named by `session_id`."""
    frames: list[str] = []
    for event in events:
        match event:
            case AudioChunk(data=data) if data:
                frames.append(typed_frame("output_audio", session_id=session_id, audio=b64encode(data).decode()))
            case WordTiming(word=word, start_s=start_s, end_s=end_s):
                timing = {"word": word, "start": round(start_s, 3), "end": round(end_s, 3)}
                frames.append(typed_frame("output_alignment", session_id=session_id, words=[timing]))
            case SpeakEnd():
                frames.append(typed_frame("done", session_id=session_id))
    return frames
