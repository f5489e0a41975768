"""Counts the events of an answer: is there content yet, is it the end, how much was used.

One counter per modality. `first_chat` and its like read a stream up to its first content and turn whatever is no answer
(refusal, error in the stream, nothing at all) into a ProviderError, so that the next candidate can be tried.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gw.errors import EmptyAnswer, ProviderFailed, ProviderRefused, UpstreamProtocolError
from gw.policy.respelling import RespelledText
from gw.policy.turn_texts import MAX_TEXT
from gw.providers.spec import ChatStream, SpeakStream
from gw.relay.speech_progress import SpeechProgress, SpokenText
from gw.relay.waste import played_part, sent_part
from gw.types.audio import CONTENT_TYPES, AudioFormat
from gw.types.llm import REFUSED, ChatEnd, ChatEvent, ChatRequest, Completion, Delta, StreamError, UsageReport
from gw.types.stt import TextDelta, TranscribeEvent, TranscribeRequest
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest, VendorBilled, WordTiming
from gw.types.usage import NO_DIMENSIONS, Dimensions, Usage, VendorFigure
from gw.wire import wav
from gw.wire.durations import USUAL_BYTES_PER_S, LengthMeter
from gw.wire.openai_chat import caches_for_long, requested_dimensions

_CHARACTERS_PER_TOKEN = 4
_DEFAULT_OUTPUT_TOKENS = 512  # assumed output of a chat request that sets no limit, for the budget reservation
_MAX_OUTPUT_TOKENS = 4_096
"""Most that is reserved: a generous limit is seldom used up, and must not lock out the project's other requests."""
UNSEEN_RECORDING_S = 300.0
"""Assumed length of a recording that the vendor fetches itself, for the reservation and where no answer shows it."""


def estimate_chat(request: ChatRequest) -> Usage:
    limit = request.max_output_tokens
    return Usage(
        input_tokens=request.input_characters // _CHARACTERS_PER_TOKEN,
        output_tokens=_DEFAULT_OUTPUT_TOKENS if limit is None else min(limit, _MAX_OUTPUT_TOKENS),
        source="estimated",
    )


def estimate_transcribe(request: TranscribeRequest) -> Usage:
    """Estimate by our measure of the file; where its container has no duration, by its size at 4 kB/s (32 kbit/s).

    Of a recording that the vendor fetches nothing is known before its answer.
    """
    if request.url:
        return Usage(audio_seconds=UNSEEN_RECORDING_S, source="estimated")
    return Usage(audio_seconds=request.audio_seconds or request.audio.size / USUAL_BYTES_PER_S, source="estimated")


def estimate_speak(request: SpeakRequest) -> Usage:
    return Usage(characters=len(request.text), source="estimated")


async def first_chat(stream: ChatStream, provider: str) -> list[ChatEvent]:
    seen: list[ChatEvent] = []
    while True:
        events = await stream.receive()
        seen += events
        for at, event in enumerate(events):
            if _is_content(event, provider):
                for later in events[at + 1 :]:
                    if isinstance(later, StreamError):  # nothing has gone out yet: another candidate may still answer
                        raise _failed(provider, later)
                return seen
            if isinstance(event, (Delta, Completion)) and (event.refusal or event.finish_reason == "content_filter"):
                detail = "the model or its content filter refused"
                raise ProviderRefused(provider=provider, detail=detail, events=tuple(seen))


def _is_content(event: ChatEvent, provider: str) -> bool:
    """Return whether the event has content, or is the end of an answer without any that is no refusal."""
    match event:
        case Delta():
            return event.has_content or (event.finish_reason == "length" and not event.refusal)
        case Completion():
            return bool(event.text or event.tool_calls) or not (event.refusal or event.finish_reason == "content_filter")
        case StreamError():
            raise _failed(provider, event)
        case ChatEnd():
            raise EmptyAnswer(provider=provider)
        case UsageReport():
            return False



def refusal_answer(events: list[ChatEvent]) -> list[ChatEvent]:
    """Return a complete answer for a refusal of which `events` were read, so that it can end a request."""
    if isinstance(events[-1], Completion):
        return events
    return [Delta(refusal=REFUSED, finish_reason="content_filter"), ChatEnd()]


def _failed(provider: str, event: StreamError) -> ProviderFailed:
    return ProviderFailed(
        provider=provider, upstream_status=200, upstream_code=event.code, detail="error event in the stream"
    )


async def first_audio(stream: SpeakStream, provider: str, text: str) -> list[SpeakEvent]:
    """Return the events up to the first audio. Raises EmptyAnswer if a `text` without a word has none."""
    seen: list[SpeakEvent] = []
    while True:
        events = await stream.receive()
        seen += events
        for event in events:
            if isinstance(event, AudioChunk) and event.data:
                return seen
            if isinstance(event, SpeakEnd) and any(map(str.isalnum, text)):
                raise UpstreamProtocolError(provider=provider, detail="empty answer")
            if isinstance(event, SpeakEnd):
                raise EmptyAnswer(provider=provider)


class ChatCounter:
    __slots__ = (
        "_caches_for_long", "_characters", "_characters_before", "_input_tokens", "_requested", "_streamed", "_text", "_vendor",
    )  # fmt: skip

    def __init__(self, request: ChatRequest, text: list[str] | None = None) -> None:
        """`text` receives the pieces of the answer's text, up to MAX_TEXT characters. The request itself is not kept."""
        self._input_tokens = request.input_characters // _CHARACTERS_PER_TOKEN
        self._requested = requested_dimensions(request)
        self._caches_for_long = caches_for_long(request)
        self._streamed = request.stream
        self._text = text
        self._characters = 0
        self._characters_before = 0  # those before the events added last
        self._vendor: Usage | None = None

    def add(self, events: list[ChatEvent], provider: str) -> bool:
        """Return whether the answer is complete. Raise ProviderFailed for an error event inside the stream."""
        self._characters_before = self._characters
        for event in events:
            if isinstance(event, Delta):
                if self._text is not None and event.text and self._characters < MAX_TEXT:
                    self._text.append(event.text)
                self._characters += len(event.text) + len(event.reasoning)
                for call in event.tool_calls:
                    self._characters += len(call.arguments)
            elif isinstance(event, UsageReport):
                self._vendor = event.usage
            elif isinstance(event, Completion):
                if self._text is not None:
                    self._text.append(event.text[:MAX_TEXT])
                self._characters = len(event.text)
                self._vendor = event.usage
                return True
            elif isinstance(event, ChatEnd):
                return True
            else:
                raise _failed(provider, event)
        return False

    def usage(self) -> tuple[Usage, Usage | None]:
        vendor = self._vendor
        estimate = Usage(
            input_tokens=self._input_tokens,
            output_tokens=-(-self._characters // _CHARACTERS_PER_TOKEN),
            source="estimated",
            dimensions=NO_DIMENSIONS if vendor is not None else self._requested,
        )
        if vendor is None:
            return estimate, None
        if vendor.cache_write_tokens and vendor.dimensions is NO_DIMENSIONS and self._caches_for_long:
            long = Dimensions(cache_write_long_tokens=vendor.cache_write_tokens)
            vendor = msgspec.structs.replace(vendor, dimensions=long)
        return vendor, estimate

    def reached(self, usage: Usage, *, passed_on: bool, after_s: float) -> Usage:
        """Return the part in proportion to the text sent; nothing of an answer that was to be sent in one piece."""
        sent = self._characters if passed_on else self._characters_before
        return sent_part(usage, sent / self._characters) if sent and self._streamed else Usage()


class TranscribeCounter:
    def __init__(
        self, request: TranscribeRequest, at_least_s: float, on_text: Callable[[str], None] = lambda text: None
    ) -> None:
        """`at_least_s`: shortest audio that the vendor bills; `on_text` is called with the complete transcript."""
        self._on_text = on_text
        self._seconds = request.audio_seconds
        self._by_size_s = estimate_transcribe(request).audio_seconds
        self._at_least_s = at_least_s
        self._deltas = 0
        self._vendor: Usage | None = None
        self._reported_s = 0.0

    def add(self, events: list[TranscribeEvent], provider: str) -> bool:
        last = events[-1]
        if isinstance(last, TextDelta):
            self._deltas += 1
            return False
        self._vendor = last.usage
        self._reported_s = last.duration_s or 0.0
        self._on_text(last.text)
        return True

    def usage(self) -> tuple[Usage, Usage | None]:
        """Return the vendor's usage and our measure, else the latter alone, else the vendor's duration, else an estimate."""
        measured = Usage(audio_seconds=max(self._seconds, self._at_least_s)) if self._seconds else None
        estimated = Usage(audio_seconds=max(self._by_size_s, self._at_least_s), source="estimated")
        if self._vendor is not None:
            return self._vendor, measured or (None if self._vendor.audio_seconds else estimated)
        if measured is not None:
            return measured, None
        if self._reported_s:
            return Usage(audio_seconds=max(self._reported_s, self._at_least_s), source="vendor"), None
        return estimated, None

    def reached(self, usage: Usage, *, passed_on: bool, after_s: float) -> Usage:
        """Return all of it once any text was sent: which part of the recording a text covers is unknown."""
        return usage if self._deltas > (not passed_on) else Usage()


class SpeakCounter:
    def __init__(self, request: SpeakRequest, delivered: AudioFormat, respelled: RespelledText | None = None) -> None:
        self._text = request.text
        self._respelled = respelled
        self._words: list[WordTiming] = []
        self._format = delivered
        self._bytes = 0
        self._bytes_before = 0  # those before the events added last
        self._header_bytes = 0
        self._vendor: Usage | None = None
        self._figure: VendorFigure | None = None
        self._bytes_per_second = delivered.bytes_per_second
        self._meter = None if self._bytes_per_second else LengthMeter(CONTENT_TYPES[delivered.encoding])

    def add(self, events: list[SpeakEvent], provider: str) -> bool:
        self._bytes_before = self._bytes
        for event in events:
            if isinstance(event, AudioChunk):
                if self._meter is not None:
                    self._meter.feed(event.data)
                    continue
                if not self._bytes and self._format.encoding == "wav" and (info := wav.parse(event.data)) is not None:
                    self._header_bytes = info.data_offset
                self._bytes += len(event.data)
            elif isinstance(event, SpeakEnd):
                self._vendor = event.usage
                return True
            elif isinstance(event, WordTiming):
                self._words.append(event)
            elif isinstance(event, VendorBilled):
                self._figure = event.figure
        return False

    @property
    def seconds(self) -> float:
        """Return the seconds of audio so far; 0.0 for a format whose length cannot be read."""
        return self._audio_seconds()

    def reached(self, usage: Usage, *, passed_on: bool, after_s: float) -> Usage:
        sent_s = self._audio_seconds()
        if not passed_on:
            sent_s = max(0.0, sent_s - self._format.seconds(self._bytes - self._bytes_before))
        played_s = min(sent_s, after_s)
        text = SpokenText()
        text.add(self._text)
        progress = SpeechProgress(text)
        for word in self._words:
            progress.word(word.word, word.end_s)
        heard = progress.offset_at(played_s, len(self._text), complete=False)
        return played_part(usage, heard if self._respelled is None else self._respelled.sent_for(heard), played_s)

    def usage(self) -> tuple[Usage, Usage | None]:
        sent = self._text if self._respelled is None else self._respelled.sent
        measured = Usage(
            characters=len(sent), audio_seconds=self._audio_seconds(), vendor_figure=self._figure
        )
        return (self._vendor, measured) if self._vendor is not None else (measured, None)

    def _audio_seconds(self) -> float:
        if self._meter is not None:
            return round(self._meter.seconds, 6)
        samples = self._bytes - self._header_bytes
        return round(samples / self._bytes_per_second, 6) if samples > 0 else 0.0
