"""Text-to-speech: complete texts and live sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs
import msgspec

from gw.types.audio import AudioFormat
from gw.types.stt import VendorFrame
from gw.types.usage import Usage


@attrs.frozen(kw_only=True)
class SpeakRequest:
    """Request to speak a complete text. `format` is the caller's; `voice` is a vendor's, or an alias of `voices`."""

    model: str
    text: str
    voice: str = ""
    format: AudioFormat
    speed: float | None = None
    instructions: str | None = None
    language: str | None = None
    want_events: bool = False
    """The caller requested events (OpenAI's `stream_format: sse`)."""
    want_timings: bool = False
    """The caller wants word timings with the audio, where the vendor has them."""
    dialect: str = "openai"
    extra: Mapping[str, msgspec.Raw] = attrs.field(factory=dict)
    """Unknown members, JSON each, passed on where the upstream speaks the same dialect."""


@attrs.frozen(kw_only=True)
class SpeakLiveRequest:
    """Request for a live session: text arrives in pieces."""

    model: str
    voice: str = ""
    format: AudioFormat
    language: str | None = None
    speed: float | None = None
    want_timings: bool = False
    dialect: str = ""
    """Dialect of the caller. An upstream of the same dialect gets `options` unchanged; its frames become `raw`."""
    options: tuple[tuple[str, str], ...] = ()
    """The dialect's own query fields or settings, in order and with repeats; JSON where a value is not text."""


class AudioChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of audio in the stream's format, any length."""

    data: bytes
    raw: str | None = None


class WordTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a word, counted from the beginning of the stream's audio."""

    word: str
    start_s: float
    end_s: float
    raw: str | None = None


class Flushed(msgspec.Struct, frozen=True, kw_only=True):
    """All text sent so far has been spoken."""

    raw: str | None = None


class SpeakEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The vendor's end of audio; a stream that stops without one was cut. `usage` if the vendor reports it."""

    usage: Usage | None = None
    raw: str | None = None


SpeakEvent: TypeAlias = AudioChunk | WordTiming | Flushed | VendorFrame | SpeakEnd
"""The first event of an upstream frame carries the frame as `raw`, where caller and upstream speak the same dialect."""
