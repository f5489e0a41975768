"""Conversion of uncompressed audio, piece by piece: µ-law, A-law, 32-bit float, sample rates, channels, WAV.

A frame of 20 ms takes between 10 µs (G.711) and a tenth of a millisecond (24 to 16 kHz). For compressed audio see `gw.codecs`.
"""

from __future__ import annotations

from array import array
from sys import byteorder
from typing import Protocol

import msgspec

from gw.types.audio import AudioFormat
from gw.wire import g711, wav
from gw.wire.resampler import resampler

_SAMPLE_BYTES = {"pcm_s16le": 2, "mulaw": 1, "alaw": 1, "pcm_f32le": 4}
_SILENCE = {"mulaw": b"\xff", "alaw": b"\xd5"}
RATES_HZ = range(4_000, 192_001)
_MAX_HEADER_BYTES = 64 * 1024  # limit for the chunks before a WAV's samples


class CannotConvert(ValueError):
    """These two formats cannot be converted, or not without what gw's extra `extra` installs."""

    def __init__(self, what: str, extra: str = "") -> None:
        super().__init__(f"{what}; install gw with its extra {extra!r}" if extra else what)
        self.extra = extra


class Converter(Protocol):
    """Stateful conversion: the output does not depend on how the input is cut. Not usable after `end`."""

    def feed(self, data: bytes) -> bytes: ...

    def end(self) -> bytes:
        """Return the remaining output."""


def converter(source: AudioFormat, target: AudioFormat) -> Converter | None:
    """Return a converter; None if there is nothing to do. Raises CannotConvert; so does feeding a WAV of unreadable samples.

    `wav` stands for a file: a source's own header determines its format; a target starts with a header without a length.
    """
    if source == target:
        return None
    for fmt in (source, target):
        if (fmt.encoding not in _SAMPLE_BYTES and fmt.encoding != "wav") or fmt.sample_rate_hz not in RATES_HZ:
            raise CannotConvert(f"{source.encoding} cannot be converted to {target.encoding}")
    if target.channels != 1 and target.channels != source.channels:
        raise CannotConvert(f"{source.channels} channels cannot be converted to {target.channels}")
    if target.encoding == "wav":
        return _ToWav(converter(source, _samples_of(target)), target)
    return _FromWav(source, target) if source.encoding == "wav" else _Raw(source, target)


def _samples_of(fmt: AudioFormat) -> AudioFormat:
    return msgspec.structs.replace(fmt, encoding="pcm_s16le") if fmt.encoding == "wav" else fmt


class _ToWav:
    def __init__(self, samples: Converter | None, target: AudioFormat) -> None:
        self._samples = samples
        self._header = wav.header(target, None)

    def feed(self, data: bytes) -> bytes:
        return self._with_header(self._samples.feed(data) if self._samples is not None else data)

    def end(self) -> bytes:
        return self._with_header(self._samples.end() if self._samples is not None else b"")

    def _with_header(self, data: bytes) -> bytes:
        header, self._header = self._header, b""
        return header + data if header else data


class _FromWav:
    """Reader of a WAV; without a header, input is treated as samples of the format announced. Data after the samples is dropped."""

    def __init__(self, announced: AudioFormat, target: AudioFormat) -> None:
        self._announced = _samples_of(announced)
        self._target = target
        self._prefix: bytes | None = b""
        self._remaining: int | None = None
        self._samples: Converter | None = None

    def feed(self, data: bytes) -> bytes:
        if self._prefix is not None:
            prefix = self._prefix + data
            info = wav.parse(prefix)
            may_be_wav = prefix[:4] == b"RIFF"[: len(prefix)] and prefix[8:12] == b"WAVE"[: len(prefix[8:12])]
            if info is None and may_be_wav and len(prefix) < _MAX_HEADER_BYTES:
                self._prefix = prefix
                return b""
            self._prefix = None
            if info is not None:
                self._remaining = info.data_bytes
                data = prefix[info.data_offset :]
            else:
                data = prefix
            self._samples = converter(_samples_of(info.format) if info is not None else self._announced, self._target)
        if self._remaining is not None:
            data = data[: self._remaining]
            self._remaining -= len(data)
        return self._samples.feed(data) if self._samples is not None else data

    def end(self) -> bytes:
        return self._samples.end() if self._samples is not None else b""


class _Raw:
    """Samples to samples. Half a sample at the end is dropped."""

    def __init__(self, source: AudioFormat, target: AudioFormat) -> None:
        self._source = source
        self._target = target
        self._block = _SAMPLE_BYTES[source.encoding] * source.channels
        self._partial = b""  # incomplete block of samples
        same_rate = source.sample_rate_hz == target.sample_rate_hz
        self._resamplers = (
            [] if same_rate
            else [resampler(source.sample_rate_hz, target.sample_rate_hz) for _ in range(target.channels)]
        )  # fmt: skip

    def feed(self, data: bytes) -> bytes:
        data = self._partial + data if self._partial else data
        end = len(data) - len(data) % self._block
        self._partial = data[end:]
        samples = _mono(_decode(data[:end], self._source.encoding), self._source.channels, self._target.channels)
        if self._resamplers:
            count = len(self._resamplers)
            samples = _interleave([r.feed(samples[n::count]) for n, r in enumerate(self._resamplers)])
        return _encode(samples, self._target.encoding)

    def end(self) -> bytes:
        samples = _interleave([r.end() for r in self._resamplers]) if self._resamplers else array("h")
        return _encode(samples, self._target.encoding)


def _interleave(channels: list[array[int]]) -> array[int]:
    if len(channels) == 1:
        return channels[0]
    interleaved = array("h", bytes(2 * sum(map(len, channels))))
    for n, samples in enumerate(channels):
        interleaved[n :: len(channels)] = samples
    return interleaved


def _mono(samples: array[int], source_channels: int, target_channels: int) -> array[int]:
    if source_channels == target_channels:
        return samples
    channels = [samples[n::source_channels] for n in range(source_channels)]
    return array("h", (sum(frame) // source_channels for frame in zip(*channels, strict=True)))


def _decode(data: bytes, encoding: str) -> array[int]:
    if encoding == "pcm_f32le":
        floats = array("f", data)
        if byteorder == "big":
            floats.byteswap()
        return array("h", map(_to_int16, floats))
    if encoding == "mulaw":
        data = g711.mulaw_to_pcm16(data)
    elif encoding == "alaw":
        data = g711.alaw_to_pcm16(data)
    samples = array("h", data)
    if byteorder == "big":
        samples.byteswap()
    return samples


def _to_int16(sample: float) -> int:
    """Convert a sample whose full scale is 1.0; beyond that it is clipped, and NaN is silence."""
    if -1.0 < sample < 1.0:
        return int(sample * 32_767)
    return 32_767 if sample >= 1.0 else -32_768 if sample <= -1.0 else 0


def _encode(samples: array[int], encoding: str) -> bytes:
    if encoding == "pcm_f32le":
        floats = array("f", (sample / 32_768 for sample in samples))
        if byteorder == "big":
            floats.byteswap()
        return floats.tobytes()
    if byteorder == "big":
        samples.byteswap()
    data = samples.tobytes()
    if encoding == "mulaw":
        return g711.pcm16_to_mulaw(data)
    return g711.pcm16_to_alaw(data) if encoding == "alaw" else data


def silence(fmt: AudioFormat, length_s: float) -> bytes:
    """Return silence as raw samples."""
    data = bytes(fmt.bytes_per_second // fmt.sample_rate_hz) if fmt.encoding not in _SILENCE else _SILENCE[fmt.encoding]
    return data * int(length_s * fmt.sample_rate_hz)
