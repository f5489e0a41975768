"""From one form of audio to another, piece by piece: µ-law, A-law, 32-bit float, sample rates, channels, WAV.

A frame of 20 ms costs between 10 µs (telephone codes) and half a millisecond (48 to 8 kHz). Compressed audio is not this
module's.
"""

from __future__ import annotations

from array import array
from sys import byteorder
from typing import Protocol

import msgspec

from gw.types.audio import AudioFormat
from gw.wire import g711, wav
from gw.wire.resample import Resampler

_SAMPLE_BYTES = {"pcm_s16le": 2, "mulaw": 1, "alaw": 1, "pcm_f32le": 4}
RATES_HZ = range(4_000, 192_001)
_HEADER_BYTES = 64 * 1024
"""A WAV whose samples begin later is none."""


class CannotConvert(ValueError):
    """Between these two formats there is no way, or none without what `gw[extra]` installs."""

    def __init__(self, what: str, extra: str = "") -> None:
        super().__init__(f"{what}; install gw[{extra}]" if extra else what)
        self.extra = extra


class Converter(Protocol):
    """Cut the input wherever you like: what comes out is the same. After `end` it is used up."""

    def feed(self, data: bytes) -> bytes: ...

    def end(self) -> bytes:
        """What is left."""
        ...


def converter(source: AudioFormat, target: AudioFormat) -> Converter | None:
    """None when there is nothing to do. Raises CannotConvert; so does feeding a WAV of samples we cannot read.

    `wav` stands for a file: as a source its own header tells the format, as a target it is begun with one that leaves the
    length open.
    """
    if source == target:
        return None
    for fmt in (source, target):
        if (fmt.encoding not in _SAMPLE_BYTES and fmt.encoding != "wav") or fmt.sample_rate_hz not in RATES_HZ:
            raise CannotConvert(f"{source.encoding} cannot be made into {target.encoding}")
    if target.channels != 1 and target.channels != source.channels:
        raise CannotConvert(f"{source.channels} channels cannot be made into {target.channels}")
    if target.encoding == "wav":
        return _ToWav(converter(source, _samples_of(target)), target)
    return _FromWav(source, target) if source.encoding == "wav" else _Raw(source, target)


def _samples_of(fmt: AudioFormat) -> AudioFormat:
    return msgspec.structs.replace(fmt, encoding="pcm_s16le") if fmt.encoding == "wav" else fmt


class _ToWav:
    def __init__(self, inner: Converter | None, target: AudioFormat) -> None:
        self._inner = inner
        self._header = wav.header(target, None)

    def feed(self, data: bytes) -> bytes:
        return self._begun(self._inner.feed(data) if self._inner is not None else data)

    def end(self) -> bytes:
        return self._begun(self._inner.end() if self._inner is not None else b"")

    def _begun(self, data: bytes) -> bytes:
        header, self._header = self._header, b""
        return header + data if header else data


class _FromWav:
    """What has no header is taken for samples of the format told. What follows the samples is dropped."""

    def __init__(self, told: AudioFormat, target: AudioFormat) -> None:
        self._told = _samples_of(told)
        self._target = target
        self._held: bytes | None = b""
        self._left: int | None = None
        self._inner: Converter | None = None

    def feed(self, data: bytes) -> bytes:
        if self._held is not None:
            held = self._held + data
            info = wav.parse(held)
            waits = held[:4] == b"RIFF"[: len(held)] and held[8:12] == b"WAVE"[: len(held[8:12])]
            if info is None and waits and len(held) < _HEADER_BYTES:
                self._held = held
                return b""
            self._held = None
            if info is not None:
                self._left = info.data_bytes
                data = held[info.data_offset :]
            else:
                data = held
            self._inner = converter(_samples_of(info.format) if info is not None else self._told, self._target)
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        return self._inner.feed(data) if self._inner is not None else data

    def end(self) -> bytes:
        return self._inner.end() if self._inner is not None else b""


class _Raw:
    """Samples to samples. Half a sample at the end is no audio."""

    def __init__(self, source: AudioFormat, target: AudioFormat) -> None:
        self._source = source
        self._target = target
        self._block = _SAMPLE_BYTES[source.encoding] * source.channels
        self._rest = b""
        same_rate = source.sample_rate_hz == target.sample_rate_hz
        self._resamplers = (
            [] if same_rate
            else [Resampler(source.sample_rate_hz, target.sample_rate_hz) for _ in range(target.channels)]
        )  # fmt: skip

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data if self._rest else data
        whole = len(data) - len(data) % self._block
        self._rest = data[whole:]
        samples = _mono(_decoded(data[:whole], self._source.encoding), self._source.channels, self._target.channels)
        if self._resamplers:
            many = len(self._resamplers)
            samples = _together([r.feed(samples[n::many]) for n, r in enumerate(self._resamplers)])
        return _encoded(samples, self._target.encoding)

    def end(self) -> bytes:
        rest = _together([r.end() for r in self._resamplers]) if self._resamplers else array("h")
        return _encoded(rest, self._target.encoding)


def _together(channels: list[array[int]]) -> array[int]:
    if len(channels) == 1:
        return channels[0]
    woven = array("h", bytes(2 * sum(map(len, channels))))
    for n, samples in enumerate(channels):
        woven[n :: len(channels)] = samples
    return woven


def _mono(samples: array[int], have: int, want: int) -> array[int]:
    if have == want:
        return samples
    channels = [samples[n::have] for n in range(have)]
    return array("h", (sum(frame) // have for frame in zip(*channels, strict=True)))


def _decoded(data: bytes, encoding: str) -> array[int]:
    if encoding == "pcm_f32le":
        floats = array("f", data)
        if byteorder == "big":
            floats.byteswap()
        return array("h", map(_whole, floats))
    if encoding == "mulaw":
        data = g711.mulaw_to_pcm16(data)
    elif encoding == "alaw":
        data = g711.alaw_to_pcm16(data)
    samples = array("h", data)
    if byteorder == "big":
        samples.byteswap()
    return samples


def _whole(sample: float) -> int:
    """Full scale is 1.0; what is beyond is cut, and what is not a number is silence."""
    if -1.0 < sample < 1.0:
        return int(sample * 32_767)
    return 32_767 if sample >= 1.0 else -32_768 if sample <= -1.0 else 0


def _encoded(samples: array[int], encoding: str) -> bytes:
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
