"""Conversion of the sample rate: a windowed sinc of 16 taps or more, one set of coefficients for each position between two samples.

    rates of small ratios (8, 16, 24, 32, 48 kHz)    ConvolvingResampler   all samples of a position in a few multiplications
    all others (44.1 kHz)                            SampleResampler       one sum of products for each sample

`bench/resampling.py` measures both: the first takes a seventh of the time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from functools import lru_cache
from operator import mul
from sys import byteorder

_ZEROS = 8  # zero crossings of the sinc on each side, counted at the lower rate
_PASS = 0.97  # edge of the pass band, as a part of the lower rate's half
_BETA = 5.0  # parameter of the Kaiser window
_MAX_PHASES = 640  # limit for sets of coefficients between two samples; unusual pairs of rates use the nearest set
_MAX_MULTIPLICATIONS = 128  # for a piece of audio, however short; with 840 a frame of 20 ms takes longer than by sums for each sample


class Resampler(ABC):
    """Makes `up` samples of `down`, of one channel of signed 16-bit samples. How the input is cut makes no difference to the output."""

    def __init__(self, up: int, down: int) -> None:
        self._up, self._down = up, down
        self._bank = _bank(up, down)
        self._width = len(self._bank[0])
        self._at = 0  # position of the next output sample, in 1/up of a source sample from the middle of the filter's window

    @abstractmethod
    def feed(self, samples: array[int]) -> array[int]:
        """Return the samples that can be made with these."""

    def end(self) -> array[int]:
        """Return the samples that still wait for input."""
        return self.feed(array("h", bytes(2 * (self._width // 2))))


def resampler(source_hz: int, target_hz: int) -> Resampler:
    """Return the faster one for these rates."""
    common = math.gcd(source_hz, target_hz)
    up, down = target_hz // common, source_hz // common
    return ConvolvingResampler(up, down) if up * down <= _MAX_MULTIPLICATIONS else SampleResampler(up, down)


class SampleResampler(Resampler):
    """Makes one sample after the other."""

    def __init__(self, up: int, down: int) -> None:
        super().__init__(up, down)
        self._window = [0] * (self._width // 2 - 1)
        """Samples from the start of the filter's window; half of it is before the stream. A list: its slices are cheap."""

    def feed(self, samples: array[int]) -> array[int]:
        window = self._window
        window.extend(samples)
        output = array("h")
        up, down, width, bank, at = self._up, self._down, self._width, self._bank, self._at
        phases = len(bank)
        last = (len(window) - width) * up
        append = output.append
        while at <= last + up - 1:
            index, between = divmod(at, up)
            value = sum(map(mul, window[index : index + width], bank[between * phases // up]))
            append(32_767 if value > 32_767 else -32_768 if value < -32_768 else round(value))
            at += down
        done = min(at // up, len(window))
        del window[:done]
        self._at = at - done * up
        return output


_LIMB = 8  # bytes of a number within a large one: 16 bits of a sample, 32 of a coefficient, and room for their sum
_UNIT = 1 << 32  # a coefficient of 1.0
_OFFSET = ((1 << 48) + _UNIT // 2).to_bytes(_LIMB, "little")
"""Added to every sum: half a unit rounds, and 65,536 units keep it positive, so that it borrows nothing from the next."""
_SIGN = bytes(byte ^ 0x80 for byte in range(256))
"""Adds 32,768 to samples of which it translates the upper bytes, or subtracts it."""


class ConvolvingResampler(Resampler):
    """Multiplies large numbers, which Python does in C.

    Samples and coefficients are the digits ("limbs") of two numbers, the coefficients in reverse order. Then the digits of their
    product are the sums of products that the filter consists of. Output samples at the same position between two samples of the
    source use the same coefficients, so each position has a product; as they use only every `down`-th sample of the source, it is
    the sum of `down` shorter ones.

    Samples have 32,768 added, since digits have no sign. A set of coefficients adds up to `_UNIT`, so each sum has 32,768 units
    more as well: its bytes 4 and 5 are the output sample in the same form, and byte 6 is 1, unless the sample has to be clipped.
    """

    def __init__(self, up: int, down: int) -> None:
        super().__init__(up, down)
        self._sets = _packed_bank(up, down)
        self._taps = math.ceil(self._width / down)  # of each of the `down` parts
        self._window = bytearray(2 * (self._width // 2 - 1))  # as in SampleResampler, in bytes

    def feed(self, samples: array[int]) -> array[int]:
        window, up, down = self._window, self._up, self._down
        window += _little_endian(samples).tobytes()
        end = (len(window) // 2 - self._width + 1) * up  # positions before it have a whole window
        count = max(0, (end - self._at + down - 1) // down)
        lower, upper = bytes(window[::2]), bytes(window[1::2]).translate(_SIGN)
        output = bytearray(2 * count)
        for number in range(min(up, count)):
            index, position = divmod(self._at + number * down, up)
            of_position = (count - number + up - 1) // up
            low, high = self._samples_at(position, of_position, lower[index:], upper[index:])
            output[2 * number :: 2 * up], output[2 * number + 1 :: 2 * up] = low, high
        at = self._at + count * down
        done = min(at // up, len(window) // 2)
        del window[: 2 * done]
        self._at = at - done * up
        return _little_endian(array("h", bytes(output)))

    def _samples_at(self, position: int, count: int, lower: bytes, upper: bytes) -> tuple[bytes, bytes]:
        """Return the lower and the upper bytes of `count` output samples. `lower`, `upper`: bytes of the source from the first's window."""
        down, taps = self._down, self._taps
        digits = count + taps - 1
        total = int.from_bytes(_OFFSET * (digits + taps), "little")
        for part, coefficients in enumerate(self._sets[position]):
            low, high = lower[part : part + digits * down : down], upper[part : part + digits * down : down]
            limbs = bytearray(_LIMB * len(low))
            limbs[::_LIMB], limbs[1::_LIMB] = low, high
            total += int.from_bytes(limbs, "little") * coefficients
        sums = total.to_bytes(_LIMB * (digits + taps + 1), "little")[_LIMB * (taps - 1) : _LIMB * digits]
        low, high, range_ = sums[4::_LIMB], sums[5::_LIMB].translate(_SIGN), sums[6::_LIMB]
        return (low, high) if range_.count(1) == count else _clipped(low, high, range_)


def _clipped(low: bytes, high: bytes, range_: bytes) -> tuple[bytes, bytes]:
    """Replace samples below the range of 16 bits (0 in `range_`) and above it (2)."""
    lows, highs = bytearray(low), bytearray(high)
    for index, place in enumerate(range_):
        if place != 1:
            lows[index], highs[index] = (0xFF, 0x7F) if place else (0x00, 0x80)
    return bytes(lows), bytes(highs)


def _little_endian(samples: array[int]) -> array[int]:
    """Convert from the machine's order of bytes, or back to it."""
    if byteorder == "big":
        samples = samples[:]
        samples.byteswap()
    return samples


@lru_cache(maxsize=64)
def _packed_bank(up: int, down: int) -> tuple[tuple[int, ...], ...]:
    """Return the coefficients of `_bank` as large numbers: `down` for each position, of every `down`-th coefficient."""
    sets = []
    for taps in _bank(up, down):
        units = [round(tap * _UNIT) for tap in taps]
        units[len(units) // 2] += _UNIT - sum(units)  # what rounding has cost: the level stays exactly the same
        units += [0] * (-len(units) % down)
        parts = (units[part::down] for part in range(down))
        sets.append(tuple(sum(unit << 8 * _LIMB * index for index, unit in enumerate(reversed(part))) for part in parts))
    return tuple(sets)


@lru_cache(maxsize=64)
def _bank(up: int, down: int) -> tuple[tuple[float, ...], ...]:
    """Return coefficients by position between two samples; each set adds up to 1, so that a level stays the same."""
    lower = min(1.0, up / down)
    half = math.ceil(_ZEROS / lower)
    phases = min(up, _MAX_PHASES)
    bank = []
    for phase in range(phases):
        offsets = [n - half + 1 - phase / phases for n in range(2 * half)]
        taps = [_sinc(_PASS * lower * x) * _kaiser(x / half) for x in offsets]
        total = sum(taps)
        bank.append(tuple(tap / total for tap in taps))
    return tuple(bank)


def _sinc(x: float) -> float:
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0


def _kaiser(x: float) -> float:
    return _bessel(_BETA * math.sqrt(1 - x * x)) / _bessel(_BETA) if -1 < x < 1 else 0.0


def _bessel(x: float) -> float:
    """Return the modified Bessel function of the first kind and order 0, by its power series."""
    total = term = 1.0
    for k in range(1, 32):
        term *= (x / (2 * k)) ** 2
        total += term
    return total
