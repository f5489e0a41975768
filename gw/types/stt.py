"""Speech-to-text: recordings and live sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypeAlias

import attrs
import msgspec

from gw.types.audio import AudioFormat
from gw.types.usage import Usage


class AudioSource(Protocol):
    """Uploaded audio that can be read more than once (a fallback sends it again). Large audio is not held in memory."""

    size: int
    filename: str
    content_type: str

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes from the beginning, in pieces of at most 64 KiB."""


@attrs.frozen(kw_only=True)
class TranscribeRequest:
    """Request to transcribe a recording. `fields` are the other form or query fields, in the names of `dialect`."""

    model: str
    audio: AudioSource
    format: AudioFormat | None = None
    """Format according to the file's header, if known."""
    audio_seconds: float = 0.0
    """Our own measure; 0.0 if the container has no duration."""
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
    """Dialect of the caller; an upstream of the same dialect gets `fields` unchanged."""
    diarize: bool = False
    keyterms: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ListenRequest:
    """Request for a live session: audio arrives in pieces of `format`."""

    model: str
    format: AudioFormat
    language: str | None = None
    interim_results: bool = True
    endpointing_ms: int | None = None
    """Silence that ends an utterance; None = the vendor's own default."""
    keyterms: tuple[str, ...] = ()
    diarize: bool = False
    dialect: str = ""
    """Dialect of the caller. An upstream of the same dialect gets `options` unchanged; its frames become `raw`."""
    options: tuple[tuple[str, str], ...] = ()
    """The dialect's own query fields, in order and with repeats."""


class Word(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    start_s: float
    end_s: float
    confidence: float | None = None
    speaker: str | None = None


class SpeechStarted(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float
    raw: str | None = None


class _TranscriptPiece(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    start_s: float = 0.0
    end_s: float = 0.0
    words: tuple[Word, ...] = ()
    language: str | None = None
    confidence: float | None = None
    raw: str | None = None


class Interim(_TranscriptPiece, frozen=True, kw_only=True):
    """A guess that a later event replaces."""


class Final(_TranscriptPiece, frozen=True, kw_only=True):
    """A piece of transcript that does not change any more."""


class UtteranceEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an utterance or turn, whose text is in the finals before."""

    at_s: float
    raw: str | None = None


class VendorFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame of a live session without a common equivalent, for a caller of the same dialect only."""

    raw: str | bytes


class TextDelta(msgspec.Struct, frozen=True, kw_only=True):
    """Text to append to the streamed transcript of a recording."""

    text: str
    raw: bytes | None = None


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """Complete transcript of a recording. `raw`: the body in the requested format, if the upstream made it."""

    text: str
    language: str | None = None
    duration_s: float | None = None
    segments: tuple[Final, ...] = ()
    words: tuple[Word, ...] = ()
    usage: Usage | None = None
    raw: bytes | None = None
    content_type: str = "application/json"


class ListenEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a session; `usage` if the upstream reports it."""

    usage: Usage | None = None
    raw: str | None = None


TranscribeEvent: TypeAlias = TextDelta | Transcript
ListenEvent: TypeAlias = SpeechStarted | Interim | Final | UtteranceEnd | VendorFrame | ListenEnd
"""The first event of an upstream frame carries the frame as `raw`, where caller and upstream speak the same dialect."""
