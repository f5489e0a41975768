"""Text-to-speech: complete texts and live sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs
import msgspec

from gw.types.audio import AudioFormat
from gw.types.speech_settings import INSTRUCTIONS, LANGUAGE, NO_STORE, SPEED, WORD_TIMESTAMPS
from gw.types.stt import VendorFrame
from gw.types.usage import Usage, VendorFigure


@attrs.frozen(kw_only=True)
class _Settings:
    """Settings of complete texts and live sessions alike. See `gw.types.speech_settings`."""

    language: str | None = None
    speed: float | None = None
    instructions: str | None = None
    want_timings: bool = False
    """The caller wants word timings with the audio, where the vendor has them."""
    no_store: bool = False
    """The vendor must not keep text or audio."""
    ignorable: tuple[str, ...] = ()
    """Settings of the caller's dialect that another vendor does without; the record names them then."""
    left_out: tuple[str, ...] = ()
    """Settings that were taken out of the request, so that no vendor gets them; the record names them."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the settings that a provider must honour."""
        return (*((NO_STORE,) if self.no_store else ()), *((LANGUAGE,) if self.language else ()))

    @property
    def wishes(self) -> tuple[str, ...]:
        """Names of the settings that the record names if the vendor does without them."""
        settings = (
            (SPEED, self.speed is not None), (INSTRUCTIONS, self.instructions), (WORD_TIMESTAMPS, self.want_timings),
        )  # fmt: skip
        return (*(name for name, value in settings if value), *self.ignorable)


@attrs.frozen(kw_only=True)
class SpeakRequest(_Settings):
    """Request to speak a complete text. `format` is the caller's; `voice` is a vendor's, or an alias of `voices`."""

    model: str
    text: str
    voice: str = ""
    custom_voice: bool = False
    """`voice` is the id of a custom voice of OpenAI's, which its API takes as an object."""
    format: AudioFormat
    in_wav: bool = False
    """The caller gets the header of a WAV before the samples of `format`, which are not 16-bit PCM: that is the encoding `wav`."""
    want_events: bool = False
    """The caller requested events (OpenAI's `stream_format: sse`)."""
    dialect: str = "openai"
    extra: Mapping[str, msgspec.Raw] = attrs.field(factory=dict)
    """Unknown members, JSON each, passed on where the upstream speaks the same dialect."""


@attrs.frozen(kw_only=True)
class SpeakLiveRequest(_Settings):
    """Request for a live session: text arrives in pieces."""

    model: str
    voice: str = ""
    format: AudioFormat
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


class VendorBilled(msgspec.Struct, frozen=True, kw_only=True):
    """The figure that the vendor bills for this speech, and its id of the request. It comes before the first audio."""

    figure: VendorFigure | None
    request_id: str = ""


SpeakEvent: TypeAlias = VendorBilled | AudioChunk | WordTiming | Flushed | VendorFrame | SpeakEnd
"""The first event of an upstream frame carries the frame as `raw`, where caller and upstream speak the same dialect."""
