"""Counts of durations by upper bound."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate


class BucketCounts:
    """Counts by upper bound in seconds. `observe_ms` takes milliseconds, the unit of records."""

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def observe_ms(self, value_ms: float | None) -> None:
        """Count a duration; None is left out."""
        if value_ms is not None:
            seconds = value_ms / 1_000
            self.counts[bisect_left(self.bounds_s, seconds)] += 1
            self.sum_s += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return `(le, count)` pairs up to and including `+Inf`."""
        return list(zip([*map(repr, self.bounds_s), "+Inf"], accumulate(self.counts), strict=True))
