"""Samples of speech as small Opus files that are complete in themselves, and back to exactly as many samples.

PyAV is imported when needed. Encoding is set to be quick rather than small: 24 kbit/s keeps speech easy to understand.
"""

from __future__ import annotations

from io import BytesIO

from gw.codecs.compressed import FrameResampler, converter, library
from gw.types.audio import AudioFormat, Encoding
from gw.wire import convert
from gw.wire.convert import CannotConvert

_OPUS_HZ = (8_000, 12_000, 16_000, 24_000, 48_000)
_BITS_PER_S = 24_000
_OPTIONS = {"application": "voip", "compression_level": "2"}
_UNKNOWN = frozenset({"unknown", "wav"})


def pcm_of(fmt: AudioFormat) -> AudioFormat:
    """Return the format of 16-bit samples with the rate and the channels of `fmt`."""
    return AudioFormat(encoding="pcm_s16le", sample_rate_hz=fmt.sample_rate_hz or 16_000, channels=min(fmt.channels, 2))


def encode(data: bytes, fmt: AudioFormat) -> bytes:
    """Return samples of the format `fmt` as an Ogg Opus file. Blocks. Raises CannotConvert."""
    pcm = pcm_of(fmt)
    to_pcm = convert.converter(fmt, pcm)
    samples = data if to_pcm is None else to_pcm.feed(data) + to_pcm.end()
    block = 2 * pcm.channels
    samples = samples[: len(samples) - len(samples) % block]
    if not samples:
        return b""
    av = library("samples cannot be encoded")
    rate = min((rate for rate in _OPUS_HZ if rate >= pcm.sample_rate_hz), default=48_000)
    file, layout = BytesIO(), "stereo" if pcm.channels == 2 else "mono"
    try:
        with av.open(file, "w", format="ogg") as container:
            stream = container.add_stream("libopus", rate=rate, options=_OPTIONS)
            stream.layout, stream.bit_rate = layout, _BITS_PER_S * pcm.channels
            frame = av.AudioFrame(format="s16", layout=layout, samples=len(samples) // block)
            plane = frame.planes[0]
            plane.update(samples.ljust(plane.buffer_size, b"\0"))
            frame.sample_rate = pcm.sample_rate_hz
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    except (av.FFmpegError, ValueError) as error:
        raise CannotConvert("these samples cannot be encoded") from error
    return file.getvalue()


def decode(file: bytes, pcm: AudioFormat, seconds: float) -> bytes:
    """Return the samples of a file that `encode` has made, exactly `seconds` of them. Blocks. Raises CannotConvert."""
    size = round(seconds * pcm.sample_rate_hz) * 2 * pcm.channels
    if not file:
        return bytes(size)
    return _decoded(file, pcm)[:size].ljust(size, b"\0")


def decode_stream(data: bytes, encoding: Encoding, pcm: AudioFormat) -> bytes:
    """Return the samples of compressed audio of any kind. Blocks. Raises CannotConvert."""
    source = AudioFormat(encoding=encoding)
    if encoding in _UNKNOWN:
        return _decoded(data, pcm)
    to_pcm = converter(source, pcm)
    return data if to_pcm is None else to_pcm.feed(data) + to_pcm.end()


def _decoded(file: bytes, pcm: AudioFormat) -> bytes:
    av = library("audio cannot be decoded")
    try:
        with av.open(BytesIO(file)) as container:
            resampler = FrameResampler(av, pcm)
            return resampler.feed(container.decode(audio=0)) + resampler.end()
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise CannotConvert("this audio cannot be decoded") from error
