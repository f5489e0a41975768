"""Speech-to-text: recorded audio in, transcript out; and live sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypeAlias

import attrs
import msgspec

from gw.types.audio import AudioFormat
from gw.types.usage import Usage


class AudioSource(Protocol):
    """Uploaded audio that can be read more than once (a fallback sends it again). Never held in memory whole."""

    size: int
    filename: str
    content_type: str

    def chunks(self) -> AsyncIterator[bytes]:
        """The bytes from the beginning, in pieces of at most 64 KiB."""
        ...


@attrs.frozen(kw_only=True)
class TranscribeRequest:
    """`model` as the caller wrote it. `fields` are the other form or query fields in order, in the names of `dialect`."""

    model: str
    audio: AudioSource
    format: AudioFormat | None = None
    """Read from the file's header where it could be told."""
    audio_seconds: float = 0.0
    """Our own measure; 0.0 when the container does not tell."""
    response_format: str = "json"
    language: str | None = None
    prompt: str | None = None
    temperature: float | None = None
    timestamps: frozenset[str] = frozenset()
    """`word`, `segment`."""
    stream: bool = False
    fields: tuple[tuple[str, str], ...] = ()
    task: str = "transcribe"
    """`transcribe`, or `translate` (into English)."""
    dialect: str = "openai"
    """What the caller speaks; an upstream of the same dialect is passed `fields` as they are."""
    diarize: bool = False
    keyterms: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ListenRequest:
    """A live session: audio arrives in pieces of `format`."""

    model: str
    format: AudioFormat
    language: str | None = None
    interim_results: bool = True
    endpointing_ms: int | None = None
    """Silence that ends an utterance; None = the vendor's own default."""
    keyterms: tuple[str, ...] = ()
    diarize: bool = False
    dialect: str = ""
    """What the caller speaks. An upstream of the same dialect is passed `options` as they are, and its frames as `raw`."""
    options: tuple[tuple[str, str], ...] = ()
    """The dialect's own query fields, in order, repeats kept."""


class Word(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    start_s: float
    end_s: float
    confidence: float | None = None
    speaker: str | None = None


class SpeechStarted(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float
    raw: str | None = None


class Interim(msgspec.Struct, frozen=True, kw_only=True):
    """A guess that a later event replaces."""

    text: str
    start_s: float = 0.0
    end_s: float = 0.0
    words: tuple[Word, ...] = ()
    language: str | None = None
    confidence: float | None = None
    raw: str | None = None


class Final(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of transcript that stands."""

    text: str
    start_s: float = 0.0
    end_s: float = 0.0
    words: tuple[Word, ...] = ()
    language: str | None = None
    confidence: float | None = None
    raw: str | None = None


class UtteranceEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The speaker has ended an utterance or turn; what was said stands in the finals before."""

    at_s: float
    raw: str | None = None


class VendorFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame of a live session that says nothing in common terms: for a caller of the same dialect only."""

    raw: str | bytes


class TextDelta(msgspec.Struct, frozen=True, kw_only=True):
    """Streamed transcription of a recording: text to append."""

    text: str
    raw: bytes | None = None


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """The whole transcript of a recording. `raw` with `content_type` is the body in the format asked for, where the upstream made it."""

    text: str
    language: str | None = None
    duration_s: float | None = None
    segments: tuple[Final, ...] = ()
    words: tuple[Word, ...] = ()
    usage: Usage | None = None
    raw: bytes | None = None
    content_type: str = "application/json"


class ListenEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The upstream has finished; `usage` where it reports it."""

    usage: Usage | None = None
    raw: str | None = None


TranscribeEvent: TypeAlias = TextDelta | Transcript
ListenEvent: TypeAlias = SpeechStarted | Interim | Final | UtteranceEnd | VendorFrame | ListenEnd
"""Of one upstream frame the first event carries it as `raw`, where caller and upstream speak the same dialect."""
