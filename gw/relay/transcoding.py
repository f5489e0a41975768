"""Speech in the caller's format, where the provider cannot make it: converted piece by piece as it comes.

Samples are converted where they pass, and encoded to MP3. Other compressed audio takes a library and milliseconds
(`gw.codecs`): that runs in a thread, and a candidate whose speech could not be converted without the library is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import msgspec
import trio

from gw.codecs.compressed import converter, needs_library, require
from gw.errors import CandidateSkipped, UpstreamProtocolError, UpstreamSlow
from gw.providers.spec import ProviderSpec, SpeakStream
from gw.types.audio import AudioFormat, Encoding
from gw.types.speech_settings import AUDIO_FORMAT, word_of
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent
from gw.wire.containers import frames
from gw.wire.convert import CannotConvert, Converter

_SOURCES: tuple[Encoding, ...] = (
    "pcm_s16le", "wav", "pcm_f32le", "mp3", "aac", "flac", "opus", "ogg", "mulaw", "alaw",
)  # fmt: skip
"""Best source first: lossless samples, formats decoded as they come, formats decoded only when complete, telephone."""
SPEAK_HZ = 24_000
LISTEN_HZ = 16_000
_RAW = frozenset({"pcm_s16le", "wav", "mulaw", "alaw", "pcm_f32le"})
_G711 = frozenset({"mulaw", "alaw"})
FIRST_S = 0.02
"""A second of speech takes some 50 ms to convert: so much of the first piece is converted alone, and goes out first."""
LEAST_S = 0.25
"""Once it speaks, a provider that sends less sound than this in the longest silence it is allowed has failed."""
FRAMED = frozenset({"mp3", "aac"})
"""Compressed formats that are a row of frames, so that two streams can be joined."""
_MAX_HEAD_BYTES = 64 * 1024  # of a tag before the first frame, such as one with a picture
_FEWEST_BYTES_PER_S = 750  # lowest rate of compressed speech
AT_ONCE_S = 0.1  # speech converted in one go, before other requests get a turn


def provider_format(fmt: AudioFormat, spec: ProviderSpec, provider: str, dialect: str = "openai") -> AudioFormat:
    """Return the format to request: the caller's where the provider can make it, else one that can be converted to it.

    A type that claims no formats is asked for the caller's: its answer says which format it is. Raise CandidateSkipped
    where the conversion takes a library that is not installed.
    """
    formats, rates = spec.speak_formats, spec.speak_rates_hz
    known = not formats or (fmt.encoding in formats and (not fmt.is_named_mp3 or spec.makes_mp3(fmt)))
    known_rates = spec.speak_g711_rates_hz if fmt.encoding in _G711 else rates
    fits = not known_rates or not fmt.sample_rate_hz or fmt.sample_rate_hz in known_rates or fmt.encoding not in _RAW
    if known and fits:
        return fmt
    encoding = next((encoding for encoding in _SOURCES if not formats or encoding in formats), None)
    if encoding is None:
        return fmt
    wanted_hz = fmt.sample_rate_hz if fmt.encoding in _RAW else 0  # the encoder converts the rate itself
    rate = _nearest_rate(rates, wanted_hz or SPEAK_HZ) if encoding in _RAW else 0
    source = AudioFormat(encoding=encoding, sample_rate_hz=rate)
    try:
        require(source, fmt)
    except CannotConvert as error:
        raise skipped(error, provider, dialect) from None
    return source


def skipped(error: CannotConvert, provider: str, dialect: str) -> CandidateSkipped:
    """Return the error for a candidate whose speech cannot be converted to the format that a caller requested."""
    settings = (word_of(AUDIO_FORMAT, dialect),)
    return CandidateSkipped(provider=provider, reason="missing_ability", detail=str(error), settings=settings)


def live_format(
    fmt: AudioFormat, formats: frozenset[str], rates_hz: frozenset[int], usual_hz: int = LISTEN_HZ
) -> AudioFormat:
    """Return the format for a live session: the caller's where the provider has it, else samples at a rate it has.

    `usual_hz`: the rate for a caller whose format names none.
    """
    fits = not rates_hz or fmt.sample_rate_hz in rates_hz
    if fmt.encoding in formats and (fits or not fmt.bytes_per_second):
        return fmt
    wanted_hz = fmt.sample_rate_hz if fmt.bytes_per_second else 0
    return AudioFormat(encoding="pcm_s16le", sample_rate_hz=_nearest_rate(rates_hz, wanted_hz or usual_hz))


def live_formats(fmt: AudioFormat, spec: ProviderSpec) -> frozenset[str]:
    """Return the encodings of a type's live speech, without MP3, µ-law and A-law where it does not have them at the rates of `fmt`."""
    if fmt.is_named_mp3 and not spec.makes_mp3(fmt):
        return spec.speak_live_formats - {"mp3"}
    rates = spec.speak_g711_rates_hz
    return spec.speak_live_formats - _G711 if rates and fmt.sample_rate_hz not in rates else spec.speak_live_formats


def continues(fmt: AudioFormat, sent: AudioFormat) -> bool:
    """Return whether audio in `fmt` can follow audio in the format `sent`.

    A player goes by the first frame, so sample rate and channels have to stay. The bit rate of frames may change.
    """
    if sent.encoding in _RAW:
        return fmt == sent
    return (fmt.encoding, fmt.sample_rate_hz, fmt.channels) == (sent.encoding, sent.sample_rate_hz, sent.channels)


def _nearest_rate(rates_hz: frozenset[int], wanted_hz: int) -> int:
    """Return the lowest rate that loses nothing, else the highest there is."""
    return min([rate for rate in rates_hz if rate >= wanted_hz], default=max(rates_hz, default=wanted_hz))


class TranscodedCall(AbstractAsyncContextManager[SpeakStream]):
    """A call whose stream is in `fmt` where that can be converted. `idle_s`: the longest silence once it speaks.

    `goes_on`: it continues a stream of `fmt`, so the frames that come are read to see if they are of the same kind.
    """

    __slots__ = ("_call", "_fmt", "_goes_on", "_idle_s", "_provider", "abort")

    def __init__(
        self, call: AbstractAsyncContextManager[SpeakStream], fmt: AudioFormat, provider: str, *, idle_s: float,
        goes_on: bool = False,
    ) -> None:  # fmt: skip
        self.abort: Callable[[], None] | None = getattr(call, "abort", None)
        self._call = call
        self._fmt = fmt
        self._provider = provider
        self._idle_s = idle_s
        self._goes_on = goes_on

    @property
    def began(self) -> bool:
        return getattr(self._call, "began", True)

    async def __aenter__(self) -> SpeakStream:
        stream = await self._call.__aenter__()
        steady = _SteadyStream(stream, self._provider, self._idle_s)
        sent, fmt = stream.format, self._fmt
        as_requested = sent == fmt or not (fmt.sample_rate_hz or fmt.kbit_per_s)
        if sent.encoding == fmt.encoding and fmt.encoding not in _RAW and as_requested and not self._goes_on:
            return steady  # compressed, perhaps at the rate it carries itself: no piece can change that
        return _TranscodedStream(steady, self._fmt, self._provider, goes_on=self._goes_on)

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[None, None, bool | None]:
        return self._call.__aexit__(kind, error, trace)


class _SteadyStream:
    """Speech that must go on: sound that only drips is as good as none, though no gap in it is long."""

    def __init__(self, stream: SpeakStream, provider: str, idle_s: float) -> None:
        self.format = stream.format
        self._stream = stream
        self._provider = provider
        self._idle_s = idle_s
        self._waited_s = 0.0  # time spent waiting for the provider since it last sent `LEAST_S` of sound
        self._bytes = 0
        self._least_bytes = LEAST_S * (self.format.bytes_per_second or _FEWEST_BYTES_PER_S)
        self._speaks = False
        self._now = trio.lowlevel.current_clock().current_time  # each piece reads it twice: this saves the look-up

    async def receive(self) -> list[SpeakEvent]:
        """Return the next events. Raise UpstreamSlow, and what the provider raises."""
        began = self._now()
        events = await self._stream.receive()
        self._waited_s += self._now() - began
        if self.format is not self._stream.format:
            self.format = self._stream.format
            self._least_bytes = LEAST_S * (self.format.bytes_per_second or _FEWEST_BYTES_PER_S)
        size, ended = 0, False
        for event in events:
            if isinstance(event, AudioChunk):
                size += len(event.data)
            elif isinstance(event, SpeakEnd):
                ended = True
        if size and not self._speaks:
            self._speaks, self._waited_s = True, 0.0  # until the first sound it has another bound
        self._bytes += size
        if self._bytes >= self._least_bytes:
            self._waited_s, self._bytes = 0.0, 0
        elif self._speaks and self._waited_s >= self._idle_s and not ended:
            detail = f"less than {LEAST_S:g} s of sound in {self._waited_s:.1f} s"
            raise UpstreamSlow(provider=self._provider, after_s=self._waited_s, detail=detail)
        return events


def slices(data: bytes, fmt: AudioFormat, *, first: bool) -> Iterator[bytes]:
    """Cut a piece of audio to sizes that are converted in one go; `first`: nothing was converted before it."""
    second = fmt.bytes_per_second or len(data)
    at = 0
    while at < len(data):
        end = at + max(2, int(second * (FIRST_S if first else AT_ONCE_S)))
        yield data[at:end]
        at, first = end, False


class _TranscodedStream:
    """Chooses the conversion at the first piece, or at the first frame: only then is the rate of a WAV or an MP3 known."""

    def __init__(self, stream: SpeakStream, fmt: AudioFormat, provider: str, *, goes_on: bool) -> None:
        self.format = stream.format
        self._stream = stream
        self._fmt = fmt
        self._provider = provider
        self._goes_on = goes_on
        self._chosen = False
        self._held: list[SpeakEvent] = []  # events before there is enough to choose by
        self._in_thread = False
        self._converter: Converter | None = None
        self._pending: list[SpeakEvent] = []  # events to be converted, the last first
        self._sliced = False

    async def receive(self) -> list[SpeakEvent]:
        """Return the next events. Raise UpstreamProtocolError for audio in another format than announced."""
        while True:
            if self._pending:
                await trio.lowlevel.checkpoint()
            else:
                events = await self._stream.receive()
                if not self._chosen:
                    events = self._held + events
                    head = b"".join(event.data for event in events if isinstance(event, AudioChunk))
                    if head and self._needs_more(head) and not isinstance(events[-1], SpeakEnd):
                        self._held = events
                        continue
                    if head:
                        await self._choose_converter(head)
                    self._held = []
                if self._converter is None:
                    return events
                self._pending = self._slice(events)[::-1]
            assert self._converter is not None
            if converted := await self._convert(self._pending.pop(), self._converter):
                return converted

    def _slice(self, events: list[SpeakEvent]) -> list[SpeakEvent]:
        out: list[SpeakEvent] = []
        for event in events:
            if isinstance(event, AudioChunk) and not self._in_thread:
                out += [AudioChunk(data=d) for d in slices(event.data, self._stream.format, first=not self._sliced)]
                self._sliced = True
            else:
                out.append(event)
        return out

    def _needs_more(self, head: bytes) -> bool:
        return self._is_framed() and len(head) < _MAX_HEAD_BYTES and frames.format_of(head) is None

    def _is_framed(self) -> bool:
        """Return whether the audio comes as frames of the encoding that is wanted, which show their own rate."""
        return self._stream.format.encoding == self._fmt.encoding and self._fmt.encoding in FRAMED

    async def _choose_converter(self, head: bytes) -> None:
        self._chosen = True
        sent = self._stream.format
        if self._is_framed():
            sent = frames.format_of(head) or sent
            same_rate = sent.sample_rate_hz == (self._fmt.sample_rate_hz or sent.sample_rate_hz)
            if same_rate and (sent.channels == self._fmt.channels or not self._goes_on):
                self.format = msgspec.structs.replace(
                    self._fmt, sample_rate_hz=sent.sample_rate_hz, channels=sent.channels
                )
                return
        self._in_thread = needs_library(sent, self._fmt)
        try:
            if self._in_thread:
                require(sent, self._fmt)
                self._converter = await trio.to_thread.run_sync(converter, sent, self._fmt)
            else:
                self._converter = converter(sent, self._fmt)
        except CannotConvert:
            self._converter = None
        self.format = sent if self._converter is None else self._fmt

    async def _convert(self, event: SpeakEvent, converter: Converter) -> list[SpeakEvent]:
        if isinstance(event, AudioChunk):
            data = await self._run(lambda: converter.feed(event.data))
            return [AudioChunk(data=data)] if data else []
        if isinstance(event, SpeakEnd) and (data := await self._run(converter.end)):
            return [AudioChunk(data=data), event]
        return [event]

    async def _run(self, convert: Callable[[], bytes]) -> bytes:
        try:
            return await trio.to_thread.run_sync(convert) if self._in_thread else convert()
        except CannotConvert as error:
            raise UpstreamProtocolError(provider=self._provider, detail=str(error)) from None
