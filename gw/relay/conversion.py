"""Speech in the form the caller asked for, where the provider cannot make it: converted piece by piece as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from gw.providers.spec import ProviderSpec, SpeakStream
from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent
from gw.wire.convert import CannotConvert, Converter, converter

FROM_SAMPLES = frozenset({"pcm_s16le", "wav", "mulaw", "alaw", "pcm_f32le"})
"""Forms that can be made from samples without a library."""


def asked_of(fmt: AudioFormat, spec: ProviderSpec) -> AudioFormat:
    """The format a provider is asked for: the caller's where it can make that, else samples to convert.

    What cannot be made from samples is asked for as it is: the answer then tells what it is.
    """
    rates = spec.speak_rates_hz
    fits = not rates or not fmt.sample_rate_hz or fmt.sample_rate_hz in rates
    known = not spec.speak_formats or fmt.encoding in spec.speak_formats
    if (known and fits) or fmt.encoding not in FROM_SAMPLES:
        return fmt
    above = [rate for rate in rates if rate >= fmt.sample_rate_hz]
    rate = fmt.sample_rate_hz if fits else min(above) if above else max(rates)
    return AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate or 24_000)


@asynccontextmanager
async def as_asked(
    opening: AbstractAsyncContextManager[SpeakStream], fmt: AudioFormat
) -> AsyncIterator[SpeakStream]:
    """The stream in `fmt`, whatever the provider turns out to send, where that can be converted."""
    async with opening as stream:
        yield _Converted(stream, fmt)


class _Converted:
    """Decides at the first piece: only then is the rate of a WAV known."""

    def __init__(self, stream: SpeakStream, asked: AudioFormat) -> None:
        self.format = stream.format
        self._stream = stream
        self._asked = asked
        self._decided = False
        self._converter: Converter | None = None

    async def receive(self) -> list[SpeakEvent]:
        while True:
            events = await self._stream.receive()
            if not self._decided and any(isinstance(event, AudioChunk) for event in events):
                self._decide()
            if self._converter is None:
                return events
            if made := self._converted(events, self._converter):
                return made

    def _decide(self) -> None:
        self._decided = True
        try:
            self._converter = converter(self._stream.format, self._asked)
        except CannotConvert:
            self._converter = None
        self.format = self._stream.format if self._converter is None else self._asked

    @staticmethod
    def _converted(events: list[SpeakEvent], made_by: Converter) -> list[SpeakEvent]:
        out: list[SpeakEvent] = []
        for event in events:
            if isinstance(event, AudioChunk):
                if data := made_by.feed(event.data):
                    out.append(AudioChunk(data=data))
                continue
            if isinstance(event, SpeakEnd) and (rest := made_by.end()):
                out.append(AudioChunk(data=rest))
            out.append(event)
        return out
