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
from gw.types.speech_settings import DETECT
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming
from gw.wire import live_messages, redaction
from gw.wire.json_codec import BAD_JSON
from gw.wire.json_frames import Frame, typed_frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, Control, DirectReply, OpenSession, SpeakMessage, Text, TtsCommand
from gw.wire.query import own_settings, sample_rate
from gw.wire.transcripts import timed_word

_UNNAMED = ("auto", "NOT_GIVEN")
"""Models of a client that names none. The second is what its URL has then: livekit-agents 1.8.9, `inference/stt.py`, `_connect_ws`."""


class _Model(msgspec.Struct, gc=False):
    model: str | None = None
    voice: str | None = None


class _Fallback(msgspec.Struct, gc=False):
    models: list[_Model] = []


class _Settings(msgspec.Struct, gc=False):
    sample_rate: str | int | None = None
    encoding: str = "pcm_s16le"
    language: str | None = None
    extra: dict[str, Any] = {}


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
        """Return the model to use; "" for the client's "auto", and for a client without one."""
        model = self.model or default
        return "" if model in _UNNAMED else model

    @property
    def fallback_models(self) -> tuple[str, ...]:
        """Return the models that the client itself names next."""
        return tuple(entry.model or "" for entry in self._fallbacks)

    @property
    def fallback_voices(self) -> tuple[str, ...]:
        """Return the voice of each of these models, "" where the client names none."""
        return tuple(entry.voice or "" for entry in self._fallbacks)

    @property
    def _fallbacks(self) -> list[_Model]:
        return [entry for entry in self.fallback.models if entry.model] if self.fallback is not None else []


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
    extra = settings.extra
    languages = _strings(extra, "languages", "language_codes", "language_hint")
    detect = bool(extra.get("detect_language") or extra.get("language_detection") or len(languages) > 1)
    redact = redaction.from_deepgram(("true",) if extra.get("redact") is True else _strings(extra, "redact"))
    if extra.get("redact_pii"):
        redact += _strings(extra, "redact_pii_policies") or (redaction.ALL,)
    pairs = [(name, msgspec.json.encode(value).decode().strip('"')) for name, value in extra.items()]
    needs_own, ignorable = own_settings(pairs, _SERVED, _MEANINGFUL)
    silence_ms = next((extra[name] for name in _SILENCE if isinstance(extra.get(name), int)), None)
    request = ListenRequest(
        model=message.model_or(model), format=fmt, dialect="livekit",
        language=settings.language or (languages[0] if len(languages) == 1 else DETECT if detect else None),
        keyterms=_strings(extra, "keyterm", "keywords", "keyterms_prompt", "custom_vocabulary"),
        prompt=str(extra.get("prompt") or "") or None,
        diarize=bool(extra.get("diarize") or extra.get("speaker_labels")), redact=redact,
        no_store=bool(extra.get("mip_opt_out")) or extra.get("enable_logging") is False,
        profanity_filter=bool(extra.get("profanity_filter") or extra.get("filter_profanity")),
        interim_results=extra.get("interim_results") is not False, endpointing_ms=silence_ms,
        needs_own=needs_own, ignorable=ignorable,
    )
    return request, message.fallback_models


_SILENCE = ("endpointing", "max_turn_silence")
_SERVED = frozenset({
    *_SILENCE, "languages", "language_codes", "language_hint", "detect_language", "language_detection", "keyterm", "keywords",
    "keyterms_prompt", "custom_vocabulary", "prompt", "diarize", "speaker_labels", "redact", "redact_pii",
    "redact_pii_policies", "mip_opt_out", "enable_logging", "profanity_filter", "filter_profanity", "interim_results",
    "punctuate", "smart_format", "format_turns", "vad_events",
})  # fmt: skip
"""Members of `extra` that a request has in common terms, or that are those of every vendor."""
_MEANINGFUL = frozenset({"search", "replace", "callback", "diarization", "transcript_filtering_config"})
"""Members that ask for something which the events of this protocol have no place for, or which no provider here has."""


def _strings(extra: dict[str, Any], *names: str) -> tuple[str, ...]:
    """Return the texts of members that are a text, a list of texts, or a list of pairs of a text and its weight."""
    texts: list[str] = []
    for name in names:
        value = extra.get(name) or ()
        for item in [value] if isinstance(value, str) else value if isinstance(value, list) else ():
            texts.append(str(item[0]) if isinstance(item, list) and item else str(item))
    return tuple(dict.fromkeys(texts))


class LiveKitListenServer(ListenProtocol):
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
                return (OpenSession(request, message.fallback_models, message.fallback_voices), DirectReply(created_frame(self._id)))
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
