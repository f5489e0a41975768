"""Response times of candidates: the 95th percentile of its latest times to the first content."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

WINDOW = 64
ENOUGH = 20
"""Samples from which a percentile is taken."""
_EVERY = 8  # samples between two computations: sorting for each would cost as much as the rest of its accounting
_MAX_CANDIDATES = 2_000


class _Times:
    __slots__ = ("p95", "samples", "since")

    def __init__(self) -> None:
        self.samples: deque[float] = deque(maxlen=WINDOW)
        self.since = 0
        self.p95: float | None = None


class ResponseTimes:
    """Seconds to the first content, by candidate. Only answers count: a failure says nothing about speed."""

    def __init__(self) -> None:
        self._times: dict[Hashable, _Times] = {}

    def add(self, candidate: Hashable, seconds: float) -> None:
        times = self._times.get(candidate)
        if times is None:
            if len(self._times) >= _MAX_CANDIDATES:
                del self._times[next(iter(self._times))]
            times = self._times[candidate] = _Times()
        times.samples.append(seconds)
        times.since += 1
        if times.since >= _EVERY and len(times.samples) >= ENOUGH:
            times.since = 0
            ordered = sorted(times.samples)
            times.p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]

    def p95(self, candidate: Hashable) -> float | None:
        """Return the 95th percentile in seconds, None as long as there are too few samples."""
        times = self._times.get(candidate)
        return None if times is None else times.p95

    def longest_s(self, candidate: Hashable) -> float | None:
        """Return the 95th percentile, else the longest of the few samples; None without any."""
        times = self._times.get(candidate)
        if times is None or times.p95 is not None:
            return None if times is None else times.p95
        return max(times.samples)
