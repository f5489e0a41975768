"""Speech in the form the caller asked for, where the provider cannot make it: converted piece by piece as it comes.

Samples are converted where they pass. Compressed audio takes a library and milliseconds (`gw.codecs`): that runs in a
thread, and a candidate whose speech could not be converted without the library is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import trio

from gw.codecs.compressed import converter, is_compressed, require
from gw.errors import CandidateSkipped, UpstreamProtocolError, UpstreamSlow
from gw.providers.spec import ProviderSpec, SpeakStream
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent
from gw.wire.convert import CannotConvert, Converter

_SOURCES: tuple[Encoding, ...] = (
    "pcm_s16le", "wav", "pcm_f32le", "mp3", "aac", "flac", "opus", "ogg", "mulaw", "alaw",
)  # fmt: skip
"""What speech is best made from: whole samples, what is decoded as it comes, what only when it is whole, telephone."""
_USUAL_HZ = 24_000
_RAW = frozenset({"pcm_s16le", "wav", "mulaw", "alaw", "pcm_f32le"})
FIRST_S = 0.02
"""A second of speech takes some 50 ms to convert: of the first piece so much is made alone, and goes out before the rest."""
LEAST_S = 0.25
"""Once it speaks, a provider that gives less sound than this in the longest silence it is allowed has failed."""
_FEWEST_BYTES_PER_S = 750
"""Of compressed speech."""
AT_ONCE_S = 0.1
"""Made without a look at other requests."""


def asked_of(fmt: AudioFormat, spec: ProviderSpec, provider: str) -> AudioFormat:
    """The format a provider is asked for: the caller's where it can make that, else what can be converted to it.

    A type that claims no formats is asked for the caller's: its answer tells what it is. Raises CandidateSkipped where
    the conversion takes what is not installed.
    """
    formats, rates = spec.speak_formats, spec.speak_rates_hz
    known = not formats or fmt.encoding in formats
    fits = not rates or not fmt.sample_rate_hz or fmt.sample_rate_hz in rates or fmt.encoding not in _RAW
    if known and fits:
        return fmt
    from_ = next((encoding for encoding in _SOURCES if not formats or encoding in formats), None)
    if from_ is None:
        return fmt
    source = AudioFormat(encoding=from_, sample_rate_hz=_rate(fmt.sample_rate_hz, rates) if from_ in _RAW else 0)
    try:
        require(source, fmt)
    except CannotConvert as error:
        raise CandidateSkipped(provider=provider, reason="missing_ability", detail=str(error)) from None
    return source


def _rate(wanted_hz: int, rates: frozenset[int]) -> int:
    """The lowest that loses nothing, else the highest there is."""
    wanted_hz = wanted_hz or _USUAL_HZ
    above = [rate for rate in rates if rate >= wanted_hz]
    return min(above) if above else max(rates, default=wanted_hz)


class AsAsked(AbstractAsyncContextManager[SpeakStream]):
    """The stream in `fmt`, whatever the provider turns out to send, where that can be converted.

    `idle_s`: the longest silence once it speaks; sound that only drips is no better.
    """

    __slots__ = ("_fmt", "_idle_s", "_opening", "_provider", "abort")

    def __init__(
        self, opening: AbstractAsyncContextManager[SpeakStream], fmt: AudioFormat, provider: str, *, idle_s: float
    ) -> None:
        self.abort: Callable[[], None] | None = getattr(opening, "abort", None)
        self._opening = opening
        self._fmt = fmt
        self._provider = provider
        self._idle_s = idle_s

    async def __aenter__(self) -> SpeakStream:
        stream = await self._opening.__aenter__()
        steady = _Steady(stream, self._provider, self._idle_s)
        return steady if _is_settled(stream.format, self._fmt) else _Converted(steady, self._fmt, self._provider)

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[None, None, bool | None]:
        return self._opening.__aexit__(kind, error, trace)


def _is_settled(sent: AudioFormat, fmt: AudioFormat) -> bool:
    """Compressed as asked for, at a rate of its own: nothing that comes later can change that."""
    return sent.encoding == fmt.encoding and fmt.encoding not in _RAW and not fmt.sample_rate_hz


class _Steady:
    """Speech that goes on: sound that only drips is as good as none, though no gap in it is long."""

    def __init__(self, stream: SpeakStream, provider: str, drips_s: float) -> None:
        self.format = stream.format
        self._stream = stream
        self._provider = provider
        self._drips_s = drips_s
        self._waited_s = 0.0
        """For the provider, since it last gave `LEAST_S` of sound; what the caller's side takes does not count."""
        self._came = 0
        self._sounded = False

    async def receive(self) -> list[SpeakEvent]:
        """Raises, beside what the provider raises, UpstreamSlow."""
        asked_at = trio.current_time()
        events = await self._stream.receive()
        self._waited_s += trio.current_time() - asked_at
        self.format = self._stream.format
        came, over = 0, False
        for event in events:
            if isinstance(event, AudioChunk):
                came += len(event.data)
            elif isinstance(event, SpeakEnd):
                over = True
        if came and not self._sounded:
            self._sounded, self._waited_s = True, 0.0   # until the first sound it has another bound
        self._came += came
        if self._came >= LEAST_S * (self.format.bytes_per_second or _FEWEST_BYTES_PER_S):
            self._waited_s, self._came = 0.0, 0
        elif self._sounded and self._waited_s >= self._drips_s and not over:
            detail = f"less than {LEAST_S:g} s of sound in {self._waited_s:.1f} s"
            raise UpstreamSlow(provider=self._provider, after_s=self._waited_s, detail=detail)
        return events


def slices(data: bytes, fmt: AudioFormat, *, first: bool) -> Iterator[bytes]:
    """A piece of audio cut to what is converted at once; `first`: nothing was converted before it."""
    second = fmt.bytes_per_second or len(data)
    at = 0
    while at < len(data):
        end = at + max(2, int(second * (FIRST_S if first else AT_ONCE_S)))
        yield data[at:end]
        at, first = end, False


class _Converted:
    """Decides at the first piece: only then is the rate of a WAV known."""

    def __init__(self, stream: SpeakStream, asked: AudioFormat, provider: str) -> None:
        self.format = stream.format
        self._stream = stream
        self._asked = asked
        self._provider = provider
        self._decided = False
        self._in_thread = False
        self._converter: Converter | None = None
        self._waiting: list[SpeakEvent] = []
        """Received and not yet converted, the last first."""
        self._begun = False

    async def receive(self) -> list[SpeakEvent]:
        """Raises, beside what the provider raises, UpstreamProtocolError for audio that is not what it was said to be."""
        while True:
            if self._waiting:
                await trio.lowlevel.checkpoint()
            else:
                events = await self._stream.receive()
                if not self._decided and any(isinstance(event, AudioChunk) for event in events):
                    await self._decide()
                if self._converter is None:
                    return events
                self._waiting = self._cut(events)[::-1]
            assert self._converter is not None
            if made := await self._converted(self._waiting.pop(), self._converter):
                return made

    def _cut(self, events: list[SpeakEvent]) -> list[SpeakEvent]:
        cut: list[SpeakEvent] = []
        for event in events:
            if isinstance(event, AudioChunk) and not self._in_thread:
                cut += [AudioChunk(data=d) for d in slices(event.data, self._stream.format, first=not self._begun)]
                self._begun = True
            else:
                cut.append(event)
        return cut

    async def _decide(self) -> None:
        self._decided = True
        sent = self._stream.format
        self._in_thread = is_compressed(sent, self._asked)
        try:
            if self._in_thread:
                require(sent, self._asked)
                self._converter = await trio.to_thread.run_sync(converter, sent, self._asked)
            else:
                self._converter = converter(sent, self._asked)
        except CannotConvert:
            self._converter = None
        self.format = sent if self._converter is None else self._asked

    async def _converted(self, event: SpeakEvent, made_by: Converter) -> list[SpeakEvent]:
        if isinstance(event, AudioChunk):
            data = await self._run(made_by, event.data)
            return [AudioChunk(data=data)] if data else []
        if isinstance(event, SpeakEnd) and (rest := await self._run(made_by, None)):
            return [AudioChunk(data=rest), event]
        return [event]

    async def _run(self, made_by: Converter, data: bytes | None) -> bytes:
        """What `data` makes; of None, what is left."""
        try:
            if self._in_thread:
                return await trio.to_thread.run_sync(made_by.end if data is None else lambda: made_by.feed(data))
            return made_by.end() if data is None else made_by.feed(data)
        except CannotConvert as error:
            raise UpstreamProtocolError(provider=self._provider, detail=str(error)) from None
