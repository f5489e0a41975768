"""Conversion between samples and compressed audio: MP3 is encoded by `gw.codecs.mp3`, all else takes PyAV (extra `audio`).

PyAV is imported when needed, so an installation without the extra pays nothing, and errors name the extra. Encoding a second of
speech with it takes 10 to 25 ms, the first import half a second: callers that must not block run `converter` and its result in a
thread if `needs_library`. MP3 and ADTS are decoded as they come; other containers (ogg, webm, mp4, flac) only once complete,
since their index may be at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import msgspec

from gw.codecs.mp3 import Mp3Encoder
from gw.types.audio import AudioFormat
from gw.wire import convert
from gw.wire.convert import CannotConvert, Converter

_ENCODERS = {
    "opus": ("ogg", "libopus", {"page_duration": "20000"}),
    "ogg": ("ogg", "libopus", {"page_duration": "20000"}),
    "aac": ("adts", "aac", {}),
    "flac": ("flac", "flac", {}),
}
"""Encoding → FFmpeg's container, codec and options, for output that is sent as it is encoded; MP3 needs none of it."""
_STREAMED_CODECS = {"mp3": "mp3", "aac": "aac"}
_FILE_ENCODINGS = frozenset({"opus", "ogg", "flac", "webm", "mp4"})
_MAX_FILE_BYTES = 64 * 1024 * 1024
_INTERMEDIATE_HZ = 48_000  # sample rate between two compressed formats
EXTRA = "audio"


def needs_library(source: AudioFormat, target: AudioFormat) -> bool:
    """Return whether the conversion takes PyAV: compressed audio is decoded, or encoded to something else than MP3."""
    return _decodes(source) or target.encoding in _ENCODERS


def require(source: AudioFormat, target: AudioFormat) -> None:
    """Raise CannotConvert if `converter` would: for lack of the library, without loading it, or for a bit rate that MP3 does not have."""
    if not _is_same(source, target) and target.is_named_mp3:
        rate = target.sample_rate_hz or source.sample_rate_hz
        Mp3Encoder(AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate or _INTERMEDIATE_HZ), rate, target.kbit_per_s)
    if not _is_same(source, target) and needs_library(source, target) and find_spec("av") is None:
        raise CannotConvert(_failure(source, target), EXTRA)


def _is_same(source: AudioFormat, target: AudioFormat) -> bool:
    if source == target:
        return True
    return source.encoding == target.encoding and not (target.sample_rate_hz or target.kbit_per_s)


def converter(source: AudioFormat, target: AudioFormat) -> Converter | None:
    """Return a converter like `gw.wire.convert.converter`, for compressed audio as well; None if there is nothing to do.

    The rate of a compressed target is that of the source unless it names one. Raises CannotConvert, naming the extra if that
    would help; so does feeding audio of another kind.
    """
    if _is_same(source, target):
        return None
    rate = target.sample_rate_hz or source.sample_rate_hz or _INTERMEDIATE_HZ
    pcm = AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate, channels=target.channels)
    if target.encoding == "mp3":
        pcm = msgspec.structs.replace(pcm, sample_rate_hz=source.sample_rate_hz or rate)
        return _Chain(_to_samples(source, pcm), Mp3Encoder(pcm, target.sample_rate_hz, target.kbit_per_s))
    if target.encoding in _ENCODERS:
        av = library(_failure(source, target))
        return _Chain(_to_samples(source, pcm), _Encoder(av, pcm, target))
    if _decodes(source):
        return _Chain(_to_samples(source, pcm), convert.converter(pcm, target))
    return convert.converter(source, target)


def _to_samples(source: AudioFormat, pcm: AudioFormat) -> Converter | None:
    if not _decodes(source):
        return convert.converter(source, pcm)
    av = library(_failure(source, pcm))
    codec = _STREAMED_CODECS.get(source.encoding)
    return _FileDecoder(av, source, pcm) if codec is None else _FrameDecoder(av, codec, pcm)


def _decodes(source: AudioFormat) -> bool:
    return source.encoding in _STREAMED_CODECS or source.encoding in _FILE_ENCODINGS


def _failure(source: AudioFormat, target: AudioFormat) -> str:
    return f"{source.encoding} cannot be converted to {target.encoding}"


def library(failure: str) -> Any:
    """Import PyAV. Raises CannotConvert with the text `failure`."""
    try:
        return import_module("av")
    except ModuleNotFoundError:
        raise CannotConvert(failure, EXTRA) from None


class _Chain:
    """Converters applied one after the other."""

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
        container, codec, options = _ENCODERS[target.encoding]
        self._av = av
        self._layout = "stereo" if source.channels == 2 else "mono"
        self._rate = source.sample_rate_hz
        self._block = 2 * source.channels
        self._partial = b""  # incomplete block of samples
        self._output = BytesIO()
        try:
            sink = SimpleNamespace(write=self._output.write)  # it cannot seek back to write a length into its head
            self._container = av.open(sink, "w", format=container, options={"flush_packets": "1", **options})
            self._stream = self._container.add_stream(codec, rate=_supported_rate(codec, self._rate))
            self._stream.layout = self._layout
        except (av.FFmpegError, ValueError) as error:
            raise CannotConvert(f"this PyAV cannot encode {target.encoding}") from error

    def feed(self, data: bytes) -> bytes:
        data = self._partial + data
        end = len(data) - len(data) % self._block
        self._partial = data[end:]
        if end:
            frame = self._av.AudioFrame(format="s16", layout=self._layout, samples=end // self._block)
            plane = frame.planes[0]
            plane.update(data[:end].ljust(plane.buffer_size, b"\0"))
            frame.sample_rate = self._rate
            self._container.mux(self._stream.encode(frame))
        return self._take_output()

    def end(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._take_output()

    def _take_output(self) -> bytes:
        output = self._output.getvalue()
        self._output.seek(0)
        self._output.truncate()
        return output


def _supported_rate(codec: str, rate_hz: int) -> int:
    """Return a rate that the codec supports: the nearest above `rate_hz`, else its highest."""
    rates = {"libopus": (8_000, 12_000, 16_000, 24_000, 48_000)}.get(codec, (rate_hz,))
    return min((rate for rate in rates if rate >= rate_hz), default=max(rates))


class FrameResampler:
    """Decoded frames → 16-bit samples of the rate and channels of `pcm`."""

    def __init__(self, av: Any, pcm: AudioFormat) -> None:
        layout = "stereo" if pcm.channels == 2 else "mono"
        self._resampler = av.AudioResampler(format="s16", layout=layout, rate=pcm.sample_rate_hz)
        self._block = 2 * pcm.channels

    def feed(self, frames: Iterable[Any]) -> bytes:
        return b"".join(self._bytes(resampled) for frame in frames for resampled in self._resampler.resample(frame))

    def end(self) -> bytes:
        return b"".join(map(self._bytes, self._resampler.resample(None)))

    def _bytes(self, frame: Any) -> bytes:
        return bytes(frame.planes[0])[: frame.samples * self._block]


class _FrameDecoder:
    """Decoder of frames without a container. A bad one is skipped; raises CannotConvert at the end if all were."""

    def __init__(self, av: Any, name: str, pcm: AudioFormat) -> None:
        self._av = av
        self._name = name
        self._codec = av.CodecContext.create(name, "r")
        self._resampler = FrameResampler(av, pcm)
        self._has_bad = self._has_good = False

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._decode(packet) for packet in self._codec.parse(data)) if data else b""

    def end(self) -> bytes:
        samples = b"".join(self._decode(packet) for packet in (*self._codec.parse(b""), None))
        if self._has_bad and not self._has_good:
            raise CannotConvert(f"this is not {self._name}")
        return samples + (self._resampler.end() if self._has_good else b"")

    def _decode(self, packet: Any) -> bytes:
        try:
            samples = self._resampler.feed(self._codec.decode(packet))
        except self._av.FFmpegError:
            self._has_bad = True
            return b""
        self._has_good = self._has_good or bool(samples)
        return samples


class _FileDecoder:
    """Decoder of a container that must be complete."""

    def __init__(self, av: Any, source: AudioFormat, pcm: AudioFormat) -> None:
        self._av = av
        self._name = source.encoding
        self._resampler = FrameResampler(av, pcm)
        self._file = BytesIO()

    def feed(self, data: bytes) -> bytes:
        if self._file.tell() + len(data) > _MAX_FILE_BYTES:
            raise CannotConvert(f"more than {_MAX_FILE_BYTES >> 20} MB of {self._name} are not decoded at once")
        self._file.write(data)
        return b""

    def end(self) -> bytes:
        if not self._file.tell():
            return b""
        self._file.seek(0)
        try:
            with self._av.open(self._file) as container:
                return self._resampler.feed(container.decode(audio=0)) + self._resampler.end()
        except (self._av.FFmpegError, IndexError, ValueError) as error:
            raise CannotConvert(f"this is not {self._name} with audio in it") from error
