"""Speech-to-text: recordings and live sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeAlias

import attrs
import msgspec

from gw.types.audio import AudioFormat
from gw.types.speech_settings import (
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    NO_STORE,
    PROFANITY_FILTER,
    PROMPT,
    REDACT,
    RESPONSE_FORMAT,
    TEMPERATURE,
    TRANSLATE,
)
from gw.types.usage import Usage


class AudioSource(Protocol):
    """Uploaded audio that can be read more than once (a fallback sends it again). Large audio is not held in memory."""

    size: int
    filename: str
    content_type: str

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes from the beginning, in pieces of at most 64 KiB."""


@attrs.frozen(kw_only=True)
class _Settings:
    """Settings of recordings and live sessions alike. See `gw.types.speech_settings` for those that a provider must honour."""

    model: str
    language: str | None = None
    """`multi`: the vendor detects it."""
    keyterms: tuple[str, ...] = ()
    prompt: str | None = None
    diarize: bool = False
    redact: tuple[str, ...] = ()
    """Entities to remove from the transcript, in the words of `gw.wire.redaction`."""
    no_store: bool = False
    """The vendor must not keep audio or transcript."""
    profanity_filter: bool = False
    needs_own: tuple[str, ...] = ()
    """Settings of the caller's dialect that change what the answer means and that other dialects have no word for."""
    ignorable: tuple[str, ...] = ()
    """Settings of the caller's dialect that another vendor does without; the record names them then."""
    left_out: tuple[str, ...] = ()
    """Settings that no vendor gets; the record names them."""

    @property
    def _common_needs(self) -> list[str]:
        settings = (
            (REDACT, self.redact), (NO_STORE, self.no_store), (PROFANITY_FILTER, self.profanity_filter),
            (DIARIZE, self.diarize), (LANGUAGE, self.language), (KEYTERMS, self.keyterms), (PROMPT, self.prompt),
        )  # fmt: skip
        return [name for name, value in settings if value]


class WhenReceived(Protocol):
    """Called when all of an upload was received."""

    def __call__(self, request: TranscribeRequest, /, *, as_expected: bool) -> None:
        """Take the request in place of the one before. `as_expected`: the settings are the same, and the audio as long as announced."""


@attrs.frozen(kw_only=True)
class TranscribeRequest(_Settings):
    """Request to transcribe a recording. `fields` are the other form or query fields, in the names of `dialect`."""

    audio: AudioSource
    format: AudioFormat | None = None
    """Format according to the file's header, if known."""
    audio_seconds: float = 0.0
    """Our own measure; 0.0 if the container has no duration."""
    response_format: str = "json"
    temperature: float | None = None
    timestamps: frozenset[str] = frozenset()
    """`word`, `segment`: times to ask for where the vendor has them."""
    timestamps_required: frozenset[str] = frozenset()
    """Those of `timestamps` that the caller named; the others are its dialect's default."""
    stream: bool = False
    fields: tuple[tuple[str, str], ...] = ()
    task: str = "transcribe"
    """`transcribe`, or `translate` (into English)."""
    dialect: str = "openai"
    """Dialect of the caller; an upstream of the same dialect gets `fields` unchanged."""
    url: str = ""
    """Address of the recording, if the caller sent that instead of audio. `audio` is empty until it has been fetched."""
    fetch: Callable[[], Awaitable[TranscribeRequest]] | None = None
    """Fetches the recording at `url` and returns the request with its audio, and without `url`."""
    call_when_received: Callable[[WhenReceived], None] | None = None
    """Registers a function that is called when all of a recording was received; None unless the recording still arrives."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the settings without which the answer would mean something else."""
        needs = self._common_needs
        needs += [f"{kind}_timestamps" for kind in sorted(self.timestamps_required)]
        if self.task == "translate":
            needs.append(TRANSLATE)
        if self.response_format not in ("json", "text"):  # those that any transcript has
            needs.append(RESPONSE_FORMAT)
        return (*needs, *self.needs_own)

    @property
    def wishes(self) -> tuple[str, ...]:
        """Names of the settings that the record names if the vendor does without them."""
        wishes = [f"{kind}_timestamps" for kind in sorted(self.timestamps - self.timestamps_required)]
        if self.temperature is not None:
            wishes.append(TEMPERATURE)
        return (*wishes, *self.ignorable)


@attrs.frozen(kw_only=True)
class ListenRequest(_Settings):
    """Request for a live session: audio arrives in pieces of `format`."""

    format: AudioFormat
    interim_results: bool = True
    endpointing_ms: int | None = None
    """Silence that ends an utterance; None = the vendor's own default."""
    dialect: str = ""
    """Dialect of the caller. An upstream of the same dialect gets `options` unchanged; its frames become `raw`."""
    options: tuple[tuple[str, str], ...] = ()
    """The dialect's own query fields, in order and with repeats."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the settings without which the transcript would mean something else."""
        return (*self._common_needs, *self.needs_own)

    @property
    def wishes(self) -> tuple[str, ...]:
        """Names of the settings that the record names if the vendor does without them."""
        return self.ignorable


class ListenPace(msgspec.Struct, frozen=True, kw_only=True):
    """When a recogniser sends events, as far as its documentation and the request's settings say it.

    Times count audio sent, not time passed: a recogniser that gets no more audio waits for it.
    """

    pause_s: float = 0.0
    """Silence after which it has answered all speech before at the latest; 0.0 if it answers while one speaks."""
    endpoint_s: float = 0.5
    """Silence after which a transcript becomes final; infinite if only a command makes it final."""
    running_s: float = 2.5
    """Longest time without an event while somebody speaks, until its own times are known."""
    answer_s: float = 0.0
    """Time it needs for an answer beyond the usual, until its own times are known."""
    has_times: bool = True
    """Whether its final transcripts say which audio they cover; if not, they end with the audio sent before they come."""
    ends_on_flush: bool = False
    """Whether a flush in a pause makes an interim transcript final, and changes nothing else but the end of the utterance."""
    flush_is_seen: bool = False
    """Whether the caller gets the vendor's own frames, and so would see that end too early."""
    utterance_end_s: float = 0.0
    """Silence after which the end of an utterance is passed on that a flush brought about before."""


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
    speaker: str | None = None
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
    confidence: float | None = None
    """Probability that the text is right, where the vendor reports one for the whole text."""
    language_confidence: float | None = None
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
