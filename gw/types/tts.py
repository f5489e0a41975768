"""Text-to-speech: text in, audio out; and live sessions."""

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
    """Speak `text` whole. `format` is what the caller wants back. `voice` is a vendor's voice, or an alias of `voices`."""

    model: str
    text: str
    voice: str = ""
    format: AudioFormat
    speed: float | None = None
    instructions: str | None = None
    language: str | None = None
    want_events: bool = False
    """The caller asked for the event form (OpenAI's stream_format sse)."""
    want_timings: bool = False
    """The caller wants word timings beside the audio, where the vendor gives them."""
    dialect: str = "openai"
    """What the caller speaks."""
    extra: Mapping[str, msgspec.Raw] = attrs.field(factory=dict)
    """Members we do not know, JSON each, passed on where the upstream speaks the same dialect."""


@attrs.frozen(kw_only=True)
class SpeakLiveRequest:
    """A live session: text arrives in pieces."""

    model: str
    voice: str = ""
    format: AudioFormat
    language: str | None = None
    speed: float | None = None
    want_timings: bool = False
    dialect: str = ""
    """What the caller speaks. An upstream of the same dialect is passed `options` as they are, and its frames as `raw`."""
    options: tuple[tuple[str, str], ...] = ()
    """The dialect's own query fields or settings, in order, repeats kept; JSON where a value is not text."""


class AudioChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of audio in the stream's format, any length."""

    data: bytes
    raw: str | None = None


class WordTiming(msgspec.Struct, frozen=True, kw_only=True):
    """When a word is heard, counted from the beginning of the stream's audio."""

    word: str
    start_s: float
    end_s: float
    raw: str | None = None


class Flushed(msgspec.Struct, frozen=True, kw_only=True):
    """All text sent so far has been spoken."""

    raw: str | None = None


class SpeakEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The vendor's end of audio; a stream that stops without one was cut. `usage` where it reports it."""

    usage: Usage | None = None
    raw: str | None = None


SpeakEvent: TypeAlias = AudioChunk | WordTiming | Flushed | VendorFrame | SpeakEnd
"""Of one upstream frame the first event carries it as `raw`, where caller and upstream speak the same dialect."""
