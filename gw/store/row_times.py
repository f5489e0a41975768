"""Histograms of a row of sums: what a batch adds to them, and those of the rows that were written last, which need not be read again."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence

from gw.telemetry.clock import DAY_S
from gw.telemetry.histogram import EncodedHistogram, Histogram
from gw.types.usage import RequestRecord

BUCKETS = 2
"""Newest buckets of a table that are remembered. Nearly all records belong to them."""
MAX_ROWS = 4_096
"""Rows of one bucket that are remembered, about 1 KB each; others are read again for each batch."""


class RowTimes:
    """Times of requests: to the first byte of all that had one, and in all of those that were answered."""

    __slots__ = ("_latencies", "_ttfbs", "latency", "ttfb")

    def __init__(self) -> None:
        self.ttfb = Histogram()
        self.latency = Histogram()
        self._ttfbs: list[float] = []
        self._latencies: list[float] = []

    def add_times(self, record: RequestRecord) -> None:
        if record.is_cached:
            return
        if record.ttfb_ms is not None:
            self._ttfbs.append(record.ttfb_ms)
        if record.status in ("success", "fallback"):
            self._latencies.append(record.total_latency_ms)

    def fill_histograms(self) -> None:
        """Put the times into the histograms, all at once, after the last `add_times`."""
        self.ttfb.record_all(self._ttfbs)
        self.latency.record_all(self._latencies)

    def merge_times(self, other: RowTimes) -> None:
        self.ttfb.merge(other.ttfb)
        self.latency.merge(other.latency)

    @property
    def histograms(self) -> tuple[Histogram, Histogram]:
        return self.ttfb, self.latency


class RecentRows:
    """Histograms of the rows that this connection wrote last. It must be the only one that writes them.

    Rows that are merged or deleted by age (`slot_rollups.compact`, `MinuteTable.prune`) are never among them: buckets that ended a day
    ago are not kept. After a transaction that failed, `clear` must be called.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """`now` returns Unix seconds."""
        self._now = now
        self._tables: dict[str, dict[int, dict[Hashable, list[EncodedHistogram]]]] = {}

    def add(self, table: str, ends_at: int, key: Hashable, added: Sequence[Histogram]) -> list[bytes] | None:
        """Add to the histograms of a row, whose bucket ends at `ends_at` (Unix seconds), and return them; None if they are not known."""
        known = self._tables.get(table, {}).get(ends_at, {}).get(key)
        if known is None or ends_at < self._now() - DAY_S:
            return None
        for histogram, values in zip(known, added, strict=True):
            histogram.add(values)
        return [histogram.data for histogram in known]

    def read(
        self, table: str, ends_at: int, key: Hashable, added: Sequence[Histogram], stored: Iterable[Sequence[bytes]]
    ) -> list[bytes]:
        """Add what is stored in a row to `added`, and return the sums, which are remembered. `stored` has one entry, or none."""
        for encoded in stored:
            for histogram, data in zip(added, encoded, strict=True):
                histogram.merge_encoded([data])
        rows = self._rows(table, ends_at)
        if rows is None or len(rows) >= MAX_ROWS:
            return [histogram.encode() for histogram in added]
        rows[key] = [EncodedHistogram(histogram) for histogram in added]
        return [histogram.data for histogram in rows[key]]

    def _rows(self, table: str, ends_at: int) -> dict[Hashable, list[EncodedHistogram]] | None:
        """Return the remembered rows of a bucket; None if they are not to be remembered."""
        buckets = self._tables.setdefault(table, {})
        if ends_at not in buckets:
            if ends_at < self._now() - DAY_S or (len(buckets) >= BUCKETS and ends_at < min(buckets)):
                return None
            buckets[ends_at] = {}
            if len(buckets) > BUCKETS:
                del buckets[min(buckets)]
        return buckets[ends_at]

    def clear(self) -> None:
        self._tables.clear()
