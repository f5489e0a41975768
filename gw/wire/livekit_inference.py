"""LiveKit's inference protocol over WebSockets, the server's side: live transcription and speech.

Source: livekit-agents 1.8.9, `livekit/agents/inference/{stt,tts}.py` (November 2026). A session begins with
`session.create`. Transcription: `session.finalize` asks for what was heard so far, also in mid-session. Speech: sentences
come one by one, `session.flush` ends an utterance and is answered by `done`; the client keeps the socket for the next.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, TypeAlias

import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, Word
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_RATES_HZ = range(4_000, 192_001)
_AUTO = "auto"


class ListenCreated(msgspec.Struct, frozen=True, kw_only=True):
    """`fallback` are the models the client itself names next."""

    request: ListenRequest
    fallback: tuple[str, ...] = ()


class SpeakCreated(msgspec.Struct, frozen=True, kw_only=True):
    request: SpeakLiveRequest
    fallback: tuple[str, ...] = ()


class InputAudio(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """Text to speak."""

    text: str


class Finalize(msgspec.Struct, frozen=True, kw_only=True):
    """Transcribe what was heard so far (or speak what was said: the utterance is complete)."""


class Close(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Other(msgspec.Struct, frozen=True, kw_only=True):
    """Understood, without effect here."""


ListenFrame: TypeAlias = ListenCreated | InputAudio | Finalize | Close | Other
SpeakFrame: TypeAlias = SpeakCreated | Transcript | Finalize | Close | Other


class _Next(msgspec.Struct, gc=False):
    model: str | None = None


class _Fallback(msgspec.Struct, gc=False):
    models: list[_Next] = []


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


_FRAME = msgspec.json.Decoder(_Frame)


def _read(frame: str | bytes) -> _Frame:
    try:
        return _FRAME.decode(frame)
    except _BAD_JSON as error:
        raise ClientProtocolError(what=f"a frame is not the JSON expected: {error}") from None


def parse_listen(frame: str | bytes, model: str) -> ListenFrame:
    """`model` is the query's, for a session that names none. Raises ClientProtocolError."""
    told = _read(frame)
    match told.type:
        case "session.create":
            settings = told.settings or _Settings()
            request = ListenRequest(
                model=_named(told.model or model),
                format=_format(settings.encoding, settings.sample_rate, 16_000),
                language=settings.language,
                dialect="livekit",
            )
            return ListenCreated(request=request, fallback=_models(told.fallback))
        case "input_audio":
            try:
                return InputAudio(data=b64decode(told.audio, validate=True))
            except ValueError:
                raise ClientProtocolError(what="'audio' must be base64", param="audio") from None
        case "session.finalize":
            return Finalize()
        case "session.close":
            return Close()
    return Other()


def parse_speak(frame: str | bytes, model: str) -> SpeakFrame:
    """As `parse_listen`."""
    told = _read(frame)
    match told.type:
        case "session.create":
            request = SpeakLiveRequest(
                model=_named(told.model or model),
                voice=told.voice or "",
                format=_format(told.encoding, told.sample_rate, 24_000),
                language=told.language,
                want_timings=True,
                dialect="livekit",
            )
            return SpeakCreated(request=request, fallback=_models(told.fallback))
        case "input_transcript":
            return Transcript(text=told.transcript)
        case "session.flush":
            return Finalize()
        case "session.close":
            return Close()
    return Other()


def _named(model: str) -> str:
    return "" if model == _AUTO else model


def _models(fallback: _Fallback | None) -> tuple[str, ...]:
    return tuple(one.model for one in fallback.models if one.model) if fallback is not None else ()


def _format(encoding: str, sample_rate: str | int | None, usual_hz: int) -> AudioFormat:
    if encoding != "pcm_s16le":
        raise ClientProtocolError(what=f"encoding must be pcm_s16le, not {encoding!r}", param="encoding")
    text = str(sample_rate if sample_rate is not None else usual_hz)
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text) in _RATES_HZ):
        raise ClientProtocolError(what="sample_rate must be between 4000 and 192000", param="sample_rate")
    return AudioFormat(encoding="pcm_s16le", sample_rate_hz=int(text))


def frame(kind: str, **members: Any) -> str:
    return msgspec.json.encode({"type": kind, **members}).decode()


def error_frame(code: str, message: str) -> str:
    return frame("error", code=code, message=message)


def encode_listen(events: list[ListenEvent], request_id: str) -> list[str]:
    """What was heard, as frames."""
    frames: list[str] = []
    for event in events:
        match event:
            case SpeechStarted():
                frames.append(frame("start_of_speech"))
            case Interim():
                frames.append(_transcript("interim_transcript", event, request_id))
            case Final():
                frames.append(_transcript("final_transcript", event, request_id))
            case ListenEnd():
                frames.append(frame("session.closed"))
    return frames


def _transcript(kind: str, said: Interim | Final, request_id: str) -> str:
    members: dict[str, Any] = {
        "request_id": request_id,
        "transcript": said.text,
        "start": round(said.start_s, 3),
        "duration": round(max(0.0, said.end_s - said.start_s), 3),
        "words": [_word(word) for word in said.words],
    }
    if said.confidence is not None:
        members["confidence"] = said.confidence
    if said.language:
        members["language"] = said.language
    return frame(kind, **members)


def _word(word: Word) -> dict[str, Any]:
    told: dict[str, Any] = {"word": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3)}
    if word.confidence is not None:
        told["confidence"] = word.confidence
    if word.speaker is not None:
        told["speaker_id"] = word.speaker
    return told


def encode_speak(events: list[SpeakEvent], session_id: str) -> list[str]:
    """What is spoken, as frames; `done` at the end of the utterance."""
    frames: list[str] = []
    for event in events:
        match event:
            case AudioChunk(data=data):
                if data:
                    frames.append(frame("output_audio", session_id=session_id, audio=b64encode(data).decode()))
            case WordTiming(word=word, start_s=start_s, end_s=end_s):
                timed = {"word": word, "start": round(start_s, 3), "end": round(end_s, 3)}
                frames.append(frame("output_alignment", session_id=session_id, words=[timed]))
            case SpeakEnd():
                frames.append(frame("done", session_id=session_id))
    return frames
