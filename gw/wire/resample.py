"""Sample rate conversion, piece by piece: a windowed sinc, one set of coefficients for each position between two samples.

Rates are reduced to a fraction up/down, so positions are exact and nothing drifts over an hour. The output is not delayed
against the input: the filter waits for half its width of samples (6 of the lower rate, under a millisecond), and `end` returns
what still waits. Over 50 dB of signal to noise at speech rates (tests), at about 2 µs a sample.
"""

from __future__ import annotations

import math
from array import array
from functools import lru_cache
from operator import mul

_ZEROS = 8  # zero crossings of the sinc on each side, counted at the lower rate
_PASS = 0.97  # edge of the pass band, as a part of the lower rate's half
_BETA = 5.0  # parameter of the Kaiser window
_MAX_PHASES = 640  # limit for sets of coefficients between two samples; unusual pairs of rates use the nearest set


class Resampler:
    """One channel of signed 16-bit samples."""

    def __init__(self, source_hz: int, target_hz: int) -> None:
        common = math.gcd(source_hz, target_hz)
        self._up, self._down = target_hz // common, source_hz // common
        self._bank = _bank(self._up, self._down)
        self._width = len(self._bank[0])
        self._window = [0] * (self._width // 2 - 1)
        """Samples from the start of the filter's window; half of it is before the stream. A list: its slices are cheap."""
        self._at = 0  # position of the next output sample, in 1/up of a source sample from the window's middle

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

    def end(self) -> array[int]:
        """Return the samples that still wait for input."""
        return self.feed(array("h", bytes(2 * (self._width // 2))))


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
