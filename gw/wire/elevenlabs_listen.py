"""ElevenLabs' transcription: recordings (`/v1/speech-to-text`), both sides, and live (`/v1/speech-to-text/realtime`), the server's.

Source: elevenlabs 2.78.0 (November 2026). Live: audio in base64, committed by the client (`manual`) or by the server's ear
(`vad`). With timestamps or language detection a committed transcript comes a second time, with words: that one counts then.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.audio import AudioFormat
from gw.types.stt import (
    AudioSource,
    Final,
    Interim,
    ListenEvent,
    ListenRequest,
    TranscribeRequest,
    Transcript,
    Word,
)
from gw.types.usage import Usage
from gw.wire.bounds import seconds

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
TIMED = "committed_transcript_with_timestamps"
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})
_SET = frozenset({"model_id"})
_NOT_SETTINGS = frozenset({"token", "single_use_token"})


class _Word(msgspec.Struct, gc=False):
    text: str = ""
    start: float | None = None
    end: float | None = None
    type: str = "word"
    speaker_id: str | None = None


class _Channel(msgspec.Struct, gc=False):
    text: str = ""
    language_code: str | None = None
    words: list[_Word] | None = None


class _Answer(msgspec.Struct, gc=False):
    """`transcripts`: one per channel, where that was asked for."""

    text: str | None = None
    language_code: str | None = None
    words: list[_Word] | None = None
    audio_duration_secs: float | None = None
    transcripts: list[_Channel] | None = None


def bare(language: str) -> str:
    """Without its region, which the vendor refuses."""
    return language.partition("-")[0].lower()


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
        fields.append(("language_code", bare(request.language)))
    if request.temperature is not None:
        fields.append(("temperature", f"{request.temperature:g}"))
    fields.append(("timestamps_granularity", "word" if request.timestamps else "none"))
    fields.append(("tag_audio_events", "false"))
    if request.diarize:
        fields.append(("diarize", "true"))
    return fields + [("keyterms", term) for term in request.keyterms]


def decode_transcript(body: bytes, provider: str, *, keep_raw: bool) -> Transcript:
    """Raises UpstreamProtocolError. Channels are told one after the other."""
    try:
        told = msgspec.json.decode(body, type=_Answer)
    except _BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None
    channels = told.transcripts
    if channels is None:
        if told.text is None:
            raise UpstreamProtocolError(provider=provider, detail="the answer has no text")
        channels = [_Channel(told.text, told.language_code, told.words)]
    billed = seconds(told.audio_duration_secs)
    return Transcript(
        text="\n".join(channel.text for channel in channels if channel.text),
        language=next((channel.language_code for channel in channels if channel.language_code), None),
        duration_s=billed,
        words=tuple(word for channel in channels for word in _words(channel.words)),
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
            "audio_duration_secs": duration_s or transcript.duration_s or 0.0,
        }
    )


def _told(word: Word) -> dict[str, Any]:
    told = {"text": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3), "type": "word"}
    return {**told, "speaker_id": word.speaker, "logprob": 0.0}


# ---- live, the server's side


class ScribeOptions(msgspec.Struct, frozen=True, kw_only=True):
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


def parse_query(query: bytes) -> ScribeOptions:
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
    return ScribeOptions(request=request, twice=twice)


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

    def __init__(self, asked: ScribeOptions, *, session_id: str) -> None:
        self._asked = asked
        self._id = session_id

    def started(self) -> str:
        config = {"sample_rate": self._asked.request.format.sample_rate_hz, **dict(self._asked.request.options)}
        return _frame("session_started", session_id=self._id, config=config)

    def encode(self, events: list[ListenEvent]) -> list[str]:
        """Where the upstream speaks this dialect, its own frames go out as they came, those that were asked for."""
        if passed := [event.raw for event in events if event.raw is not None]:
            frames = [raw if isinstance(raw, str) else raw.decode("utf-8", "replace") for raw in passed]
            return [frame for frame in frames if self._asked.twice or TIMED not in frame]
        frames = []
        for event in events:
            match event:
                case Interim(text=text) if text:
                    frames.append(_frame("partial_transcript", text=text))
                case Final(text=text) if text:
                    frames.append(_frame("committed_transcript", text=text))
                    if self._asked.twice:
                        frames.append(self._timed(event))
        return frames

    def nothing(self) -> list[str]:
        """The answer to a commit in which nothing was said."""
        plain = _frame("committed_transcript", text="")
        return [plain, self._timed(Final(text=""))] if self._asked.twice else [plain]

    def _timed(self, said: Final) -> str:
        words = said.words or ((Word(text=said.text, start_s=said.start_s, end_s=said.end_s),) if said.text else ())
        return _frame(
            TIMED,
            text=said.text,
            language_code=said.language or self._asked.request.language or "en",
            words=[_told(word) for word in words],
        )


def is_commit(frame: str) -> bool:
    """Whether one of our frames, or an upstream's, tells what was committed."""
    return '"committed_transcript' in frame


def error_frame(kind: str, message: str) -> str:
    return _frame(kind, error=message)


def _frame(kind: str, **members: Any) -> str:
    return msgspec.json.encode({"message_type": kind, **members}).decode()
