"""ElevenLabs' transcription: recordings (`/v1/speech-to-text`) and live (`/v1/speech-to-text/realtime`); both sides.

Source: elevenlabs 2.78.0 (November 2026). Live: audio in base64, committed by the client (`manual`) or by the server's ear
(`vad`). With timestamps or language detection a committed transcript comes a second time, with words: that one counts then.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

import msgspec

from gw.errors import (
    ClientProtocolError,
    ProviderError,
    ProviderFailed,
    ProviderRejected,
    RateLimitError,
    UpstreamProtocolError,
)
from gw.types.audio import AudioFormat
from gw.types.stt import (
    AudioSource,
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenRequest,
    TranscribeRequest,
    Transcript,
    UtteranceEnd,
    VendorFrame,
    Word,
)
from gw.types.usage import Usage
from gw.wire.counts import seconds
from gw.wire.openai_errors import filtered

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})
_SET = frozenset({"model_id", "audio_format"})
_NOT_SETTINGS = frozenset({"token", "single_use_token"})
_LEAST_S = 0.3
"""Of audio in a commit."""


class _Word(msgspec.Struct, gc=False):
    text: str = ""
    start: float | None = None
    end: float | None = None
    type: str = "word"
    speaker_id: str | None = None


class _Answer(msgspec.Struct, gc=False):
    text: str
    language_code: str | None = None
    words: list[_Word] | None = None
    audio_duration_secs: float | None = None


def _words(words: list[_Word] | None) -> tuple[Word, ...]:
    return tuple(
        Word(text=w.text, start_s=w.start or 0.0, end_s=w.end or 0.0, speaker=w.speaker_id)
        for w in words or ()
        if w.type == "word"
    )


# ---- recordings


def form_fields(request: TranscribeRequest, model: str) -> list[tuple[str, str]]:
    """Fields of the form beside the file. A caller who speaks this dialect has its own passed on."""
    fields = [("model_id", model)]
    if request.dialect == "elevenlabs":
        return fields + [(name, value) for name, value in request.fields if name not in _SET]
    if request.language:
        fields.append(("language_code", request.language))
    fields.append(("timestamps_granularity", "word" if request.timestamps else "none"))
    fields.append(("tag_audio_events", "false"))
    if request.diarize:
        fields.append(("diarize", "true"))
    return fields + [("keyterms", term) for term in request.keyterms]


def decode_transcript(body: bytes, provider: str, *, keep_raw: bool) -> Transcript:
    """Raises UpstreamProtocolError."""
    try:
        told = msgspec.json.decode(body, type=_Answer)
    except _BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None
    billed = seconds(told.audio_duration_secs)
    return Transcript(
        text=told.text,
        language=told.language_code,
        duration_s=billed,
        words=_words(told.words),
        usage=None if billed is None else Usage(audio_seconds=billed, source="vendor"),
        raw=body if keep_raw else None,
    )


def parse_form(fields: list[tuple[str, str]], audio: AudioSource, fmt: AudioFormat | None, length_s: float) -> TranscribeRequest:
    """A text "null" is no value: the vendor's SDK writes it for what is not set."""
    told = [(name, value) for name, value in fields if value != "null"]
    named = dict(told)
    raw = named.get("file_format") == "pcm_s16le_16"
    fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000) if raw and fmt is None else fmt
    return TranscribeRequest(
        model=named.get("model_id", ""),
        audio=audio,
        format=fmt,
        audio_seconds=fmt.seconds(audio.size) if raw and fmt is not None and not length_s else length_s,
        language=named.get("language_code") or None,
        timestamps=frozenset({"word"} if named.get("timestamps_granularity") != "none" else ()),
        fields=tuple(told),
        dialect="elevenlabs",
        diarize=named.get("diarize", "").lower() == "true",
        keyterms=tuple(value for name, value in told if name == "keyterms"),
    )


def encode_transcript(transcript: Transcript, *, request_id: str, duration_s: float) -> bytes:
    return msgspec.json.encode(
        {
            "language_code": transcript.language or "en",
            "language_probability": 1.0,
            "text": transcript.text,
            "words": [_told(word) for word in transcript.words],
            "transcription_id": request_id,
            "audio_duration_secs": transcript.duration_s or duration_s,
        }
    )


def _told(word: Word) -> dict[str, Any]:
    told = {"text": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3), "type": "word"}
    return {**told, "speaker_id": word.speaker, "logprob": 0.0}


# ---- live, the client's side


def live_path(request: ListenRequest, model: str) -> str:
    """Path and query of a session. Where the caller does not say, the server's ear finds where utterances end."""
    fmt = request.format
    name = "ulaw_8000" if fmt.encoding == "mulaw" else f"pcm_{fmt.sample_rate_hz}"
    pairs = [("model_id", model), ("audio_format", name)]
    if request.dialect == "elevenlabs":
        pairs += [(name, value) for name, value in request.options if name not in _SET]
        return "/v1/speech-to-text/realtime?" + urlencode(pairs)
    pairs += [("commit_strategy", "vad"), ("include_timestamps", "true")]
    if request.language:
        pairs.append(("language_code", request.language))
    if request.endpointing_ms is not None:
        silence_s = min(3.0, max(0.3, request.endpointing_ms / 1000))
        pairs.append(("vad_silence_threshold_secs", f"{silence_s:g}"))
    pairs += [("keyterms", term) for term in request.keyterms]
    return "/v1/speech-to-text/realtime?" + urlencode(pairs)


class _Told(msgspec.Struct, gc=False):
    message_type: str = ""
    text: str = ""
    language_code: str | None = None
    words: list[_Word] | None = None
    error: str = ""


_TOLD = msgspec.json.Decoder(_Told)
_CALLER = frozenset({"input_error", "invalid_request", "chunk_size_exceeded", "unaccepted_terms"})
_LIMITED = frozenset({"rate_limited", "resource_exhausted", "queue_overflow"})
_FAULTS = frozenset(
    {
        "error", "auth_error", "quota_exceeded", "transcriber_error", "session_time_limit_exceeded", *_CALLER, *_LIMITED,
    }
)  # fmt: skip
"""Messages that end a session; `commit_throttled` and `insufficient_audio_activity` do not."""


class ElevenListener:
    """One session: frames in, events out."""

    def __init__(
        self, provider: str, request: ListenRequest, *, keep_raw: bool = False, secrets: Iterable[str] = ()
    ) -> None:
        self.ended = False
        self._provider = provider
        self._format = request.format
        self._keep_raw = keep_raw
        self._secrets = tuple(secrets)
        options = dict(request.options)
        own = request.dialect == "elevenlabs"
        twice = options.get("include_timestamps") == "true" or options.get("include_language_detection") == "true"
        self._twice = twice if own else True
        self._sent_s = self._committed_s = 0.0
        self._since_s = 0.0
        """Audio since the last commit of ours."""
        self._finishing = False

    def _chunk(self, data: bytes, *, commit: bool) -> str:
        told = {
            "message_type": "input_audio_chunk", "audio_base_64": b64encode(data).decode(), "commit": commit,
            "sample_rate": self._format.sample_rate_hz,
        }  # fmt: skip
        return msgspec.json.encode(told).decode()

    def audio(self, data: bytes) -> str:
        length_s = self._format.seconds(len(data))
        self._sent_s += length_s
        self._since_s += length_s
        return self._chunk(data, commit=False)

    def flush(self) -> str | None:
        """Too little audio is filled up with silence."""
        if not self._since_s:
            return None
        missing_s = max(0.0, _LEAST_S - self._since_s)
        self._since_s = 0.0
        quiet = b"\xff" if self._format.encoding == "mulaw" else b"\0\0"
        samples = int(missing_s * self._format.sample_rate_hz)
        return self._chunk(quiet * samples, commit=True)

    def passed(self, frame: str) -> str:
        return frame

    def finish(self) -> str | None:
        """A last commit, of silence where nothing came since the one before: its answer ends the session."""
        self._finishing = True
        self._since_s = self._since_s or 1e-9
        return self.flush()

    def receive(self, frame: str | bytes) -> list[ListenEvent]:
        """Raises ProviderError for an error message, UpstreamProtocolError for what is no frame of this dialect."""
        try:
            told = _TOLD.decode(frame)
        except _BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        raw = (frame if isinstance(frame, str) else frame.decode()) if self._keep_raw else None
        if told.message_type in _FAULTS:
            raise self._fault(told)
        if self._finishing and self._is_last(told):
            self.ended = True
            return [ListenEnd(raw=raw)]
        match told.message_type:
            case "partial_transcript" if told.text:
                return [Interim(text=told.text, start_s=self._committed_s, end_s=self._sent_s, raw=raw)]
            case "committed_transcript" if not self._twice:
                return self._final(told, raw)
            case "committed_transcript_with_timestamps":
                return self._final(told, raw)
            case "session_started":
                return []  # a caller of this dialect has been greeted before
        return [VendorFrame(raw=raw)] if raw is not None else []

    @staticmethod
    def _is_last(told: _Told) -> bool:
        """The answer to a last commit in which nothing was said."""
        if told.message_type in ("commit_throttled", "insufficient_audio_activity"):
            return True
        return told.message_type == "committed_transcript" and not told.text

    def _final(self, told: _Told, raw: str | None) -> list[ListenEvent]:
        events: list[ListenEvent] = []
        if told.text:
            words = _words(told.words)
            start_s = words[0].start_s if words else self._committed_s
            end_s = words[-1].end_s if words else self._sent_s
            self._committed_s = max(self._committed_s, end_s)
            final = Final(
                text=told.text, start_s=start_s, end_s=end_s, words=words, language=told.language_code, raw=raw
            )
            events += [final, UtteranceEnd(at_s=end_s)]
        elif raw is not None:
            events.append(VendorFrame(raw=raw))
        if self._finishing:
            self.ended = True
            events.append(ListenEnd())
        return events

    def _fault(self, told: _Told) -> ProviderError:
        kind = told.message_type
        words = filtered(told.error, self._secrets)
        detail = f"an error inside the session: {kind}" + (f": {words}" if words else "")
        if kind in _LIMITED:
            return RateLimitError(provider=self._provider, detail=detail, limit_source="upstream", retry_after_s=None)
        if kind in _CALLER:
            return ProviderRejected(
                provider=self._provider, detail=detail, upstream_status=101, upstream_code=kind, fault="candidate"
            )
        return ProviderFailed(provider=self._provider, detail=detail, upstream_status=101, upstream_code=kind)


# ---- live, the server's side


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """`twice`: a committed transcript is told with its words as well."""

    request: ListenRequest
    twice: bool


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes
    commit: bool


class Other(msgspec.Struct, frozen=True, kw_only=True):
    raw: str


ClientFrame: TypeAlias = Chunk | Other


class _Input(msgspec.Struct, gc=False):
    message_type: str = ""
    audio_base_64: str = ""
    commit: bool = False


_INPUT = msgspec.json.Decoder(_Input)


def parse_query(query: bytes) -> Asked:
    """Raises ClientProtocolError, with `param`."""
    found = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    pairs = [(name, value) for name, value in found if name not in _NOT_SETTINGS and not name.startswith("gw_")]
    fields = dict(pairs)
    kind, _, rate = fields.get("audio_format", "pcm_16000").partition("_")
    if kind not in ("pcm", "ulaw") or not (rate.isascii() and rate.isdigit() and 4 <= len(rate) < 7):
        raise ClientProtocolError(what="audio_format must be one such as pcm_16000 or ulaw_8000", param="audio_format")
    request = ListenRequest(
        model=fields.get("model_id", ""),
        format=AudioFormat(encoding="mulaw" if kind == "ulaw" else "pcm_s16le", sample_rate_hz=int(rate)),
        language=fields.get("language_code") or None,
        keyterms=tuple(value for name, value in pairs if name == "keyterms"),
        dialect="elevenlabs",
        options=tuple(pairs),
    )
    twice = "true" in (fields.get("include_timestamps"), fields.get("include_language_detection"))
    return Asked(request=request, twice=twice)


def parse_frame(frame: str | bytes) -> ClientFrame:
    """Raises ClientProtocolError."""
    try:
        told = _INPUT.decode(frame)
        if told.message_type == "input_audio_chunk":
            return Chunk(data=b64decode(told.audio_base_64, validate=True), commit=told.commit)
    except (*_BAD_JSON, ValueError):
        raise ClientProtocolError(what="a frame is not the JSON expected, or its audio not base64") from None
    return Other(raw=frame if isinstance(frame, str) else frame.decode("utf-8", "replace"))


class ElevenServer:
    """One session: events in, frames out."""

    def __init__(self, asked: Asked, *, session_id: str) -> None:
        self._asked = asked
        self._id = session_id

    def started(self) -> str:
        config = {"sample_rate": self._asked.request.format.sample_rate_hz, **dict(self._asked.request.options)}
        return _frame("session_started", session_id=self._id, config=config)

    def encode(self, events: list[ListenEvent]) -> list[str]:
        """Where the upstream speaks this dialect, its own frames go out as they came."""
        if passed := [event.raw for event in events if event.raw is not None]:
            return [raw if isinstance(raw, str) else raw.decode("utf-8", "replace") for raw in passed]
        frames: list[str] = []
        for event in events:
            match event:
                case Interim(text=text) if text:
                    frames.append(_frame("partial_transcript", text=text))
                case Final(text=text) if text:
                    frames.append(_frame("committed_transcript", text=text))
                    if self._asked.twice:
                        frames.append(self._timed(event))
        return frames

    def _timed(self, said: Final) -> str:
        words = said.words or (Word(text=said.text, start_s=said.start_s, end_s=said.end_s),)
        return _frame(
            "committed_transcript_with_timestamps",
            text=said.text,
            language_code=said.language or self._asked.request.language or "en",
            words=[_told(word) for word in words],
        )


def error_frame(kind: str, message: str) -> str:
    return _frame(kind, error=message)


def _frame(kind: str, **members: Any) -> str:
    return msgspec.json.encode({"message_type": kind, **members}).decode()
