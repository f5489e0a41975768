"""Compressed audio made and read with PyAV, which `gw[audio]` installs: mp3, Opus, AAC and FLAC; besides, what `gw.wire` converts.

Nothing is imported before it is needed, so an installation without the extra pays nothing and is told what is missing.
Encoding a second of speech costs about 10 ms, the first import ten times that: whoever must not wait runs `converter` and what
it makes in a thread, when `is_compressed` says so. MP3 and ADTS are decoded as they come; other containers (ogg, webm, mp4,
flac) only once they are whole, since their index may stand at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from gw.types.audio import AudioFormat
from gw.wire import convert
from gw.wire.convert import CannotConvert, Converter

_MADE = {
    "mp3": ("mp3", "libmp3lame", {"write_xing": "0", "id3v2_version": "0"}),
    "opus": ("ogg", "libopus", {"page_duration": "20000"}),
    "ogg": ("ogg", "libopus", {"page_duration": "20000"}),
    "aac": ("adts", "aac", {}),
    "flac": ("flac", "flac", {}),
}
"""Encoding → FFmpeg's container, codec and options, for output that is sent as it is made."""
_READ_AS_IT_COMES = {"mp3": "mp3", "aac": "aac"}
_READ_WHOLE = frozenset({"opus", "ogg", "flac", "webm", "mp4"})
_MOST_HELD = 64 * 1024 * 1024
_DECODED_HZ = 48_000
"""Between two compressed forms."""
EXTRA = "audio"


def is_compressed(*formats: AudioFormat) -> bool:
    """Whether one of them is no bare samples: converting it takes the library."""
    return any(fmt.encoding in _MADE or fmt.encoding in _READ_AS_IT_COMES or fmt.encoding in _READ_WHOLE for fmt in formats)


def require(source: AudioFormat, target: AudioFormat) -> None:
    """Raises CannotConvert where `converter` would for want of the library, without loading it."""
    same = source.encoding == target.encoding and not target.sample_rate_hz
    if not same and is_compressed(source, target) and find_spec("av") is None:
        raise CannotConvert(f"{source.encoding} cannot be made into {target.encoding}", EXTRA)


def converter(source: AudioFormat, target: AudioFormat) -> Converter | None:
    """As `gw.wire.convert.converter`, and for compressed audio as well.

    The rate of a compressed target is that of the source unless it names one. Raises CannotConvert, naming the extra where
    that would help; so does feeding what is no audio of the kind told.
    """
    if source == target or (source.encoding == target.encoding and not target.sample_rate_hz):
        return None
    reads = source.encoding in _READ_AS_IT_COMES or source.encoding in _READ_WHOLE
    makes = target.encoding in _MADE
    if not reads and not makes:
        return convert.converter(source, target)
    av = library(f"{source.encoding} cannot be made into {target.encoding}")
    rate = target.sample_rate_hz or source.sample_rate_hz or _DECODED_HZ
    pcm = AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate, channels=target.channels)
    if reads:
        first: Converter | None = _decoder(av, source, pcm)
    else:
        first = convert.converter(source, pcm)
    if makes:
        return _Chain(first, _Encoder(av, pcm, target))
    return _Chain(first, convert.converter(pcm, target))


def library(what: str) -> Any:
    try:
        return import_module("av")
    except ModuleNotFoundError:
        raise CannotConvert(what, EXTRA) from None


class _Chain:
    """One after the other."""

    def __init__(self, *steps: Converter | None) -> None:
        self._steps = [step for step in steps if step is not None]

    def feed(self, data: bytes) -> bytes:
        for step in self._steps:
            data = step.feed(data)
        return data

    def end(self) -> bytes:
        data = b""
        for step in self._steps:
            data = step.feed(data) + step.end()
        return data


class _Encoder:
    def __init__(self, av: Any, source: AudioFormat, target: AudioFormat) -> None:
        container, codec, options = _MADE[target.encoding]
        self._av = av
        self._layout = "stereo" if source.channels == 2 else "mono"
        self._rate = source.sample_rate_hz
        self._block = 2 * source.channels
        self._rest = b""
        self._made = BytesIO()
        try:
            # A sink that only writes: the container cannot go back to write a length into its head.
            self._container = av.open(_Sink(self._made), "w", format=container, options={"flush_packets": "1", **options})
            self._stream = self._container.add_stream(codec, rate=_taken(codec, self._rate))
            self._stream.layout = self._layout
        except (av.FFmpegError, ValueError) as error:
            raise CannotConvert(f"this PyAV cannot make {target.encoding}") from error

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data
        whole = len(data) - len(data) % self._block
        self._rest = data[whole:]
        if whole:
            frame = self._av.AudioFrame(format="s16", layout=self._layout, samples=whole // self._block)
            plane = frame.planes[0]
            plane.update(data[:whole].ljust(plane.buffer_size, b"\0"))
            frame.sample_rate = self._rate
            self._mux(self._stream.encode(frame))
        return self._taken_out()

    def end(self) -> bytes:
        self._mux(self._stream.encode(None))
        self._container.close()
        return self._taken_out()

    def _mux(self, packets: Iterable[Any]) -> None:
        for packet in packets:
            self._container.mux(packet)

    def _taken_out(self) -> bytes:
        made = self._made.getvalue()
        self._made.seek(0)
        self._made.truncate()
        return made


def _taken(codec: str, rate_hz: int) -> int:
    """A rate the codec takes: the nearest above, else its highest."""
    rates = {
        "libopus": (8_000, 12_000, 16_000, 24_000, 48_000),
        "libmp3lame": (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
    }.get(codec, (rate_hz,))
    return min((rate for rate in rates if rate >= rate_hz), default=max(rates))


class _Sink:
    def __init__(self, made: BytesIO) -> None:
        self._made = made

    def write(self, data: bytes) -> int:
        return self._made.write(data)


def _decoder(av: Any, source: AudioFormat, pcm: AudioFormat) -> Converter:
    name = _READ_AS_IT_COMES.get(source.encoding)
    return _Whole(av, source, pcm) if name is None else _Frames(av, name, pcm)


class _Samples:
    """Decoded frames → 16-bit samples."""

    def __init__(self, av: Any, pcm: AudioFormat) -> None:
        layout = "stereo" if pcm.channels == 2 else "mono"
        self._resampler = av.AudioResampler(format="s16", layout=layout, rate=pcm.sample_rate_hz)
        self._block = 2 * pcm.channels

    def of(self, frames: Iterable[Any]) -> bytes:
        return b"".join(self._bytes(made) for frame in frames for made in self._resampler.resample(frame))

    def end(self) -> bytes:
        return b"".join(map(self._bytes, self._resampler.resample(None)))

    def _bytes(self, frame: Any) -> bytes:
        return bytes(frame.planes[0])[: frame.samples * self._block]


class _Frames:
    """Frames without a container. One that cannot be read is left out; when none can, this is no such audio."""

    def __init__(self, av: Any, name: str, pcm: AudioFormat) -> None:
        self._av = av
        self._name = name
        self._codec = av.CodecContext.create(name, "r")
        self._samples = _Samples(av, pcm)
        self._bad = self._good = 0

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._decoded(packet) for packet in self._codec.parse(data)) if data else b""

    def end(self) -> bytes:
        made = b"".join(self._decoded(packet) for packet in (*self._codec.parse(b""), None))
        if self._bad and not self._good:
            raise CannotConvert(f"this is no {self._name}")
        return made + (self._samples.end() if self._good else b"")

    def _decoded(self, packet: Any) -> bytes:
        try:
            made = self._samples.of(self._codec.decode(packet))
        except self._av.FFmpegError:
            self._bad += 1
            return b""
        self._good += bool(made)
        return made


class _Whole:
    def __init__(self, av: Any, source: AudioFormat, pcm: AudioFormat) -> None:
        self._av = av
        self._name = source.encoding
        self._samples = _Samples(av, pcm)
        self._held = BytesIO()

    def feed(self, data: bytes) -> bytes:
        if self._held.tell() + len(data) > _MOST_HELD:
            raise CannotConvert(f"more than {_MOST_HELD >> 20} MB of {self._name} are not decoded at once")
        self._held.write(data)
        return b""

    def end(self) -> bytes:
        if not self._held.tell():
            return b""
        self._held.seek(0)
        try:
            with self._av.open(self._held) as container:
                return self._samples.of(container.decode(audio=0)) + self._samples.end()
        except (self._av.FFmpegError, IndexError, ValueError) as error:
            raise CannotConvert(f"this is no {self._name} with sound in it") from error
