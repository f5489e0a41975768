"""What the events of an answer add up to: is there content yet, is it the end, how much was used.

One tally per modality. `first_content` reads a stream up to its first content and turns what is no answer (refusal,
error in the stream, nothing at all) into a ProviderError, so that the next candidate can be tried.
"""

from __future__ import annotations

from gw.errors import ProviderFailed, ProviderRefused, UpstreamProtocolError
from gw.providers.spec import ChatStream, SpeakStream, TranscribeStream
from gw.types.audio import CONTENT_TYPES, AudioFormat
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Completion, Delta, StreamError, UsageReport
from gw.types.stt import TextDelta, TranscribeEvent, TranscribeRequest, Transcript
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.types.usage import Usage
from gw.wire import wav
from gw.wire.lengths import LengthMeter

_CHARACTERS_PER_TOKEN = 4
_DEFAULT_OUTPUT_TOKENS = 512
"""Assumed output of a chat request that sets no limit, for the budget reservation."""
_MOST_OUTPUT_TOKENS = 4_096
"""Reserved at most: a generous limit is seldom used up, and must not lock out the project's other requests."""


def estimate_chat(request: ChatRequest) -> Usage:
    return Usage(
        input_tokens=request.input_characters // _CHARACTERS_PER_TOKEN,
        output_tokens=min(request.max_output_tokens or _DEFAULT_OUTPUT_TOKENS, _MOST_OUTPUT_TOKENS),
        source="estimated",
    )


def estimate_transcribe(request: TranscribeRequest) -> Usage:
    """Our measure of the file; where its container does not tell, its size at 4 kB a second (32 kbit/s)."""
    return Usage(audio_seconds=request.audio_seconds or request.audio.size / 4_000, source="estimated")


def estimate_speak(request: SpeakRequest) -> Usage:
    return Usage(characters=len(request.text), source="estimated")


async def first_chat(stream: ChatStream, provider: str) -> list[ChatEvent]:
    held: list[ChatEvent] = []
    while True:
        events = await stream.receive()
        held += events
        for at, event in enumerate(events):
            if _is_content(event, provider):
                for later in events[at + 1 :]:
                    if isinstance(later, StreamError):  # nothing has gone out yet: another candidate may still answer
                        raise _failed(provider, later)
                return held


def _is_content(event: ChatEvent, provider: str) -> bool:
    match event:
        case Delta():
            if event.has_content or event.finish_reason == "length":
                return True
            refused = event.refusal or event.finish_reason == "content_filter"
        case Completion():
            refused = (
                (event.refusal or event.finish_reason == "content_filter") and not event.text and not event.tool_calls
            )
            if not refused:
                return True
        case StreamError():
            raise _failed(provider, event)
        case ChatEnd():
            raise UpstreamProtocolError(provider=provider, detail="empty answer")
        case UsageReport():
            return False
    if refused:
        raise ProviderRefused(provider=provider, detail="the model or its content filter refused")
    return False


def _failed(provider: str, event: StreamError) -> ProviderFailed:
    return ProviderFailed(
        provider=provider, upstream_status=200, upstream_code=event.code, detail="error event in the stream"
    )


async def first_transcript(stream: TranscribeStream, provider: str) -> list[TranscribeEvent]:
    return await stream.receive()


async def first_audio(stream: SpeakStream, provider: str) -> list[SpeakEvent]:
    held: list[SpeakEvent] = []
    while True:
        events = await stream.receive()
        held += events
        for event in events:
            if isinstance(event, AudioChunk) and event.data:
                return held
            if isinstance(event, SpeakEnd):
                raise UpstreamProtocolError(provider=provider, detail="empty answer")


class ChatTally:
    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._characters = 0
        self._vendor: Usage | None = None

    def see(self, events: list[ChatEvent], provider: str) -> bool:
        """True when the answer is complete. Raises ProviderFailed for an error event inside the stream."""
        for event in events:
            if isinstance(event, Delta):
                self._characters += (
                    len(event.text) + len(event.reasoning) + sum(len(c.arguments) for c in event.tool_calls)
                )
            elif isinstance(event, UsageReport):
                self._vendor = event.usage
            elif isinstance(event, Completion):
                self._characters = len(event.text)
                self._vendor = event.usage
                return True
            elif isinstance(event, ChatEnd):
                return True
            else:
                raise _failed(provider, event)
        return False

    def usage(self) -> tuple[Usage, Usage | None]:
        estimate = Usage(
            input_tokens=self._request.input_characters // _CHARACTERS_PER_TOKEN,
            output_tokens=-(-self._characters // _CHARACTERS_PER_TOKEN),
            source="estimated",
        )
        return (self._vendor, estimate) if self._vendor is not None else (estimate, None)


class TranscribeTally:
    def __init__(self, request: TranscribeRequest, at_least_s: float) -> None:
        self._seconds = request.audio_seconds
        self._by_size_s = estimate_transcribe(request).audio_seconds
        self._at_least_s = at_least_s
        self._vendor: Usage | None = None
        self._reported_s = 0.0

    def see(self, events: list[TranscribeEvent], provider: str) -> bool:
        last = events[-1]
        if isinstance(last, TextDelta):
            return False
        self._note(last)
        return True

    def _note(self, transcript: Transcript) -> None:
        self._vendor = transcript.usage
        self._reported_s = transcript.duration_s or 0.0

    def usage(self) -> tuple[Usage, Usage | None]:
        """The vendor's usage, else its duration, else ours; tokens are kept with the seconds we measured."""
        measured = Usage(audio_seconds=max(self._seconds, self._at_least_s)) if self._seconds else None
        if self._vendor is not None:
            return self._vendor, measured
        if measured is not None:
            return measured, None
        if self._reported_s:
            return Usage(audio_seconds=max(self._reported_s, self._at_least_s), source="vendor"), None
        return Usage(audio_seconds=max(self._by_size_s, self._at_least_s), source="estimated"), None


class SpeakTally:
    def __init__(self, request: SpeakRequest, delivered: AudioFormat) -> None:
        self._characters = len(request.text)
        self._format = delivered
        self._bytes = 0
        self._header_bytes = 0
        self._vendor: Usage | None = None
        self._meter = None if delivered.bytes_per_second else LengthMeter(CONTENT_TYPES[delivered.encoding])

    def see(self, events: list[SpeakEvent], provider: str) -> bool:
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
        return False

    def usage(self) -> tuple[Usage, Usage | None]:
        measured = Usage(characters=self._characters, audio_seconds=self._audio_seconds())
        return (self._vendor, measured) if self._vendor is not None else (measured, None)

    def _audio_seconds(self) -> float:
        if self._meter is not None:
            return round(self._meter.seconds, 6)
        return round(self._format.seconds(max(0, self._bytes - self._header_bytes)), 6)
