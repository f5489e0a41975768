"""Speech over HTTP that goes on with the next candidate when its provider fails after the first sound.

The text is known, so the next one is asked for what was not heard: from the first word that was not spoken completely, in
the format that was sent so far. A provider fails here as in a live session (`gw.relay.speaking`): it breaks off, or nothing
more comes when the caller has next to nothing left to play, or it ends without the audio that the text needs.

    part of provider 1   word word word wo│          cut, silent or ended
    part of provider 2                    │word word word
    the caller receives  word word word wo word word word      one stream, one head, one end
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Protocol

import attrs
import msgspec

from gw.errors import GwError, ProviderError, UpstreamProtocolError
from gw.providers.spec import SpeakStream
from gw.registry.catalog import Catalog, Model
from gw.relay.attempt import Attempt
from gw.relay.attempts import OpenAttempt
from gw.relay.audio_supply import PATIENCE_S, SLOWER, Supply, ends_loud
from gw.relay.cached_speech import CachedSpeech
from gw.relay.dial_ahead import dial_after_s
from gw.relay.meter import Meter
from gw.relay.playback import Playback
from gw.relay.prepared_call import PreparedCall
from gw.relay.response import Response
from gw.relay.speech_progress import SpeechProgress, SpokenText
from gw.relay.transcoding import FRAMED
from gw.relay.usage_counters import SpeakCounter
from gw.relay.voice_pace import VoicePace
from gw.relay.waste import played_part, waste_of
from gw.types.audio import AudioFormat
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest, VendorBilled, WordTiming
from gw.types.usage import Cost, Usage, total_usage
from gw.wire import wav
from gw.wire.containers import frames

_RAW: Final = frozenset({"pcm_s16le", "pcm_f32le", "mulaw", "alaw"})
_HEAD_BYTES: Final = 4_096  # kept of a stream: they have the header of a WAV, or the first frame


def format_to_go_on(sent: AudioFormat, head: bytes) -> AudioFormat | None:
    """Return the format in which another provider can continue a stream; None if none can.

    `head`: the beginning of the stream. Samples follow the header of a WAV, unless that has promised their number; frames
    have to be like the first.
    """
    if sent.encoding in _RAW:
        return sent
    if sent.encoding in FRAMED:
        first = frames.format_of(head)
        return None if first is None else msgspec.structs.replace(first, kbit_per_s=sent.kbit_per_s)
    info = wav.parse(head) if sent.encoding == "wav" else None
    if info is None or info.data_bytes is not None or info.format.encoding not in ("wav", "pcm_s16le"):
        return None
    return msgspec.structs.replace(info.format, encoding="pcm_s16le")


class Successors(Protocol):
    """The candidates that may go on with a request."""

    def has_others(self) -> bool:
        """Return whether there is a candidate that was not tried yet."""

    def has_any(self) -> bool:
        """Return whether there is one, or the same may be tried once more."""

    def connect_at(self, time: float | None) -> None:
        """Connect to the next one at this time, unless another call comes first; None: no more."""

    def low_s(self) -> float:
        """Return how much the caller must have left to play when the next one is called."""

    def go_on(
        self, error: ProviderError, text: str, fmt: AudioFormat
    ) -> Awaitable[OpenAttempt[SpeakStream, SpeakEvent]]:
        """Close the attempt that failed with `error`, and open the next for the remaining text. Raises GwError."""

    def pace_of(self, model: Model) -> VoicePace:
        """Return the pace of the voice with which a model speaks this request."""


class _Part:
    """The part that one provider speaks."""

    def __init__(
        self, opened: OpenAttempt[SpeakStream, SpeakEvent], request: SpeakRequest, progress: SpeechProgress,
        starts_s: float, now: float,
    ) -> None:  # fmt: skip
        self.attempt: Attempt = opened.attempt
        self.call: PreparedCall[SpeakStream] = opened.call
        self.format = opened.stream.format
        self.counter = SpeakCounter(request, self.format, opened.call.respelled)
        self.progress = progress
        self.starts_s = starts_s  # in the caller's audio
        self.supply = Supply(now)
        self.tail = b""
        self.bytes = 0
        self.head = b""

    def add(self, events: list[SpeakEvent], now: float) -> float:
        """Note events that are passed on; return by how many seconds of audio."""
        for event in events:
            if isinstance(event, AudioChunk):
                if len(self.head) < _HEAD_BYTES:
                    self.head += event.data[:_HEAD_BYTES]
                self.tail = event.data
                self.bytes += len(event.data)
                self.progress.hear(event.data, self.format)
            elif isinstance(event, WordTiming):
                self.progress.word(event.word, event.end_s)
        before, after = self.progress.audio_s, self.counter.seconds
        self.progress.audio_s = after
        self.progress.measured = bool(after) or not self.bytes
        self.supply.add(after - before, now)
        return after - before

    @property
    def ends_loud(self) -> bool | None:
        return ends_loud(self.tail, self.format, self.bytes - len(self.tail))


class SpeechResponse(Response[SpeakStream, SpeakEvent]):
    reads_in_place = False  # another provider may go on

    def __init__(
        self, meter: Meter, opened: OpenAttempt[SpeakStream, SpeakEvent], request: SpeakRequest, catalog: Catalog,
        successors: Successors, *, idle_s: float,
    ) -> None:  # fmt: skip
        self._request = request
        self._successors = successors
        self._text = SpokenText()
        self._text.add(request.text)
        self._now = meter.accounting.monotonic
        self._part = _Part(opened, request, SpeechProgress(self._text, successors.pace_of(opened.call.model)), 0.0, self._now())
        self._earlier: list[_Part] = []
        self._format_sent = opened.stream.format
        self._playback = Playback()
        super().__init__(meter, opened, self._part.counter, catalog, idle_s=idle_s)
        for event in self._first_events or ():
            if isinstance(event, VendorBilled):
                self.vendor_figure, self.vendor_request_id = event.figure, event.request_id

    async def receive(self) -> list[SpeakEvent]:
        """Return the next events. Raise GwError when a provider has failed and no other can go on."""
        while True:
            part = self._part
            part.progress.listen()
            try:
                events, self._first_events = self._first_events, None
                if events is None:
                    events = await self._next_audio()
                ended = part.counter.add(events, part.call.provider.id)
                now = self._now()
                self._playback.send(part.add(events, now), now)
                if ended and (fault := self._shortness(part)) is not None:
                    if audio := [event for event in events if isinstance(event, AudioChunk)]:
                        self._failing, events = fault, [*audio]
                        return self._adapted(part, events)
                    raise fault
            except ProviderError as error:
                await self._go_on(error)
                continue
            if ended:
                part.progress.learn(len(self._text.text), loud_end=part.ends_loud)
            events = self._adapted(part, events)
            if ended and (commit := self._complete()) is not None:
                await commit
            if events:
                return events

    async def _next_audio(self) -> list[SpeakEvent]:
        if self._failing is not None:
            fault, self._failing = self._failing, None
            raise fault
        if not self._part.progress.audio_s or not self._successors.has_others():
            return await self._next_events()
        now = self._now()
        self._successors.connect_at(now + dial_after_s(self._playback.sent_s - self._playback.played_s(now)))
        try:
            return await self._next_events()
        finally:
            self._successors.connect_at(None)

    cached: CachedSpeech | None = None
    """Speech that the phrase cache has for this request, and gets from it; None where it keeps none."""
    _failing: ProviderError | None = None
    """Failure to be handled when the events before it were passed on."""

    def _allowed_silence_s(self) -> float:
        """Return how long nothing may come: until the caller has next to nothing left to play, if another can go on."""
        part, now = self._part, self._now()
        if not part.progress.audio_s or not self._successors.has_others() or self._format() is None:
            return self._idle_s
        latency_s = (part.attempt.ready_at or now) - part.attempt.started
        patience_s = part.supply.since + max(PATIENCE_S, SLOWER * latency_s) - now
        left_s = self._playback.sent_s - self._playback.played_s(now)
        return min(self._idle_s, max(PATIENCE_S / 2, patience_s, left_s - self._successors.low_s()))

    def _shortness(self, part: _Part) -> ProviderError | None:
        """Return the failure of a provider that ended without the audio that its text needs."""
        shortness = part.progress.shortness(len(self._text.text), loud_end=part.ends_loud)
        if shortness == "certainly" or (shortness == "probably" and self._can_go_on(others=True)):
            detail = "ended without the audio that the text needs"
            return UpstreamProtocolError(provider=part.call.provider.id, detail=detail)
        return None

    # ------------------------------------------------------------------ the next provider

    def _format(self) -> AudioFormat | None:
        first = (self._earlier or [self._part])[0]
        return format_to_go_on(first.format, first.head)

    def _can_go_on(self, *, others: bool = False) -> bool:
        return (self._successors.has_others() if others else self._successors.has_any()) and self._format() is not None

    async def _go_on(self, error: ProviderError) -> None:
        """Have another provider speak what was not heard. Raise `error`, or the next one's, if that is not possible."""
        part = self._part
        self._text.spoken = spoken = part.progress.spoken()
        remaining = self._text.text[spoken:].lstrip()
        fmt = self._format()
        if fmt is None or not self._can_go_on() or not part.progress.measured or not part.progress.has_words_after(spoken):
            raise error
        self._text.spoken = len(self._text.text) - len(remaining)
        if self.cached is not None:
            self.cached.stop()
        opened = await self._successors.go_on(error, remaining, fmt)
        self.meter.answered_by(opened.attempt)
        self._earlier.append(part)
        request = attrs.evolve(self._request, text=remaining, format=fmt)
        progress = SpeechProgress(self._text, self._successors.pace_of(opened.call.model))
        self._part = now_speaking = _Part(opened, request, progress, part.starts_s + part.progress.audio_s, self._now())
        self._counter, self.call = now_speaking.counter, opened.call
        self._first_events, self._scope, self._reads_from = opened.take_events(), opened.scope, opened.stream

    def _adapted(self, part: _Part, events: list[SpeakEvent]) -> list[SpeakEvent]:
        """Return events as part of one stream: their times count from its beginning, and its end has the usage of all."""
        if (capture := self.meter.capture) is not None:
            for event in events:
                if isinstance(event, AudioChunk):
                    capture.sound(event.data, self._format_sent)
        if self.cached is not None:
            self.cached.add(events)
        if not self._earlier:
            return events
        adapted: list[SpeakEvent] = []
        for event in events:
            match event:
                case AudioChunk():
                    adapted.append(AudioChunk(data=event.data))
                case WordTiming():
                    start_s, end_s = event.start_s + part.starts_s, event.end_s + part.starts_s
                    adapted.append(WordTiming(word=event.word, start_s=start_s, end_s=end_s))
                case SpeakEnd():
                    usage, _ = self._all_usage()
                    adapted.append(SpeakEnd(usage=usage if event.usage is not None else None))
                case VendorFrame():  # a frame of the vendor's own, with the times of its part
                    pass
        return adapted

    # ------------------------------------------------------------------ the record

    def close(self, *, error: GwError | None, cancelled: bool) -> None:
        """Make the record, once: usage and cost of every provider, and their sums."""
        if not self._earlier or self.meter.record is not None:
            super().close(error=error, cancelled=cancelled)
            return
        following = [*self._earlier[1:], self._part]
        for part, later in zip(self._earlier, following, strict=True):
            self._bill(part, later.progress.start - part.progress.start)
        usage, cost, measured = self._priced(self._part)
        self.meter.bill(self._part.attempt, usage, cost, self._waste(usage), measured)
        self.meter.bill_unanswered_calls(self._catalog)
        total, measured = self._all_usage()
        self.meter.finish(usage=total, measured=measured, error=error, cancelled=cancelled)

    def _usage(self) -> tuple[Usage, Usage | None]:
        """Return the usage; nothing for speech from the cache, of which what the vendor would have charged is noted."""
        usage, measured = super()._usage()
        if self.call.cache != "hit" or self.cached is None:
            return usage, measured
        attempt, nusd = self._part.attempt, super()._cost(usage).nusd or 0
        attempt.saved_nusd = nusd
        self.cached.saved(attempt.model, nusd)
        return Usage(), None

    def _cost(self, usage: Usage) -> Cost:
        return Cost(nusd=0, source="cache") if self.call.cache == "hit" else super()._cost(usage)

    def _bill(self, part: _Part, heard_characters: int) -> None:
        """Bill a provider that failed, of whose speech so much was heard."""
        usage, cost, measured = self._priced(part)
        respelled = part.call.respelled
        heard = heard_characters if respelled is None else respelled.sent_for(heard_characters)
        reached = played_part(usage, heard, part.progress.audio_s)
        model, provider = part.call.model, part.call.provider
        waste = waste_of("tts", usage, reached, lambda used: self.meter.cost_of(used, model, provider))
        self.meter.bill(part.attempt, usage, cost, waste, measured)

    def _priced(self, part: _Part) -> tuple[Usage, Cost, Usage | None]:
        """Return a part's usage to bill, its cost, and our own measure."""
        usage, measured = part.counter.usage()
        model, provider = part.call.model, part.call.provider
        usage, cost = self.meter.priced(usage, measured, lambda used: self.meter.cost_of(used, model, provider))
        return usage, cost, measured

    def _all_usage(self) -> tuple[Usage, Usage | None]:
        pairs = [part.counter.usage() for part in (*self._earlier, self._part)]
        by_vendor = all(measured is not None for _, measured in pairs)
        total = total_usage([usage for usage, _ in pairs], "vendor" if by_vendor else "measured")
        measured = total_usage([measured or usage for usage, measured in pairs], "measured") if by_vendor else None
        return total, measured
