"""Latency histogram with logarithmic buckets: mergeable, small, and within 3 % of the true quantile.

Bucket 0 holds everything below `FLOOR_MS`; bucket i >= 1 holds [FLOOR_MS * G**(i-1), FLOOR_MS * G**i). With
G = (1 + e) / (1 - e) a value is at most the fraction e away from its bucket's representative, whatever its size.
Counts are kept sparsely, since one hour of one model fills a handful of buckets, and merging is addition; so the
order of merging does not matter and a month is the sum of its days.

Stored form, little-endian: one byte for the width of a count, the sum as a double, the bucket numbers as u16, the
counts. No entries = no bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

RELATIVE_ERROR = 0.03
FLOOR_MS = 0.1
_GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_PER_LOG = 1 / math.log(_GROWTH)
_MIDDLE = 2 / (1 + _GROWTH)
"""Upper edge of a bucket times this = its representative: equally far, in relation, from both edges."""
_LAST = 0xFFFF
_HEAD = struct.Struct("<Bd")
_WIDTHS = ((0xFF, 1, "B"), (0xFFFF, 2, "H"), (0xFFFF_FFFF, 4, "I"), (0xFFFF_FFFF_FFFF_FFFF, 8, "Q"))
_CODE_OF_WIDTH = {width: code for _, width, code in _WIDTHS}


class Histogram:
    """Counts of values in ms. Mutable; not safe to share between threads."""

    __slots__ = ("_counts", "sum_ms")

    def __init__(self, values_ms: Iterable[float] = ()) -> None:
        self._counts: dict[int, int] = {}
        self.sum_ms = 0.0
        for value in values_ms:
            self.record(value)

    @property
    def count(self) -> int:
        return sum(self._counts.values())

    @property
    def mean_ms(self) -> float | None:
        count = self.count
        return self.sum_ms / count if count else None

    def record(self, value_ms: float) -> None:
        """Count one value. What is no finite number is left out; a negative one counts as 0."""
        if not math.isfinite(value_ms):
            return
        value_ms = max(value_ms, 0.0)
        index = _index(value_ms)
        self._counts[index] = self._counts.get(index, 0) + 1
        self.sum_ms += value_ms

    def quantile(self, q: float) -> float | None:
        """The value of rank ceil(q * count) in ms, within 3 % (0.1 ms below the floor). None when empty."""
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile lies in 0..1, not {q!r}")
        rank = max(1, math.ceil(q * self.count))
        seen = 0
        for index in sorted(self._counts):
            seen += self._counts[index]
            if seen >= rank:
                return _representative(index)
        return None

    def merge(self, other: Histogram) -> None:
        """Add the other's counts to this one."""
        self._add(other._counts.items())
        self.sum_ms += other.sum_ms

    def merge_encoded(self, stored: Iterable[bytes]) -> None:
        """Add stored histograms, about 1 µs each. Raises ValueError when one is none.

        A report merges tens of thousands: their arrays are joined first and unpacked once per width of count.
        """
        joined: dict[int, tuple[bytearray, bytearray]] = {}
        for data in stored:
            if not data:
                continue
            size = len(data)
            width, sum_ms = _HEAD.unpack_from(data) if size > _HEAD.size else (0, 0.0)
            if width not in _CODE_OF_WIDTH or (size - _HEAD.size) % (2 + width):
                raise ValueError("not a stored histogram")
            middle = _HEAD.size + (size - _HEAD.size) // (2 + width) * 2
            if width not in joined:
                joined[width] = (bytearray(), bytearray())
            indexes, counts = joined[width]
            indexes += data[_HEAD.size : middle]
            counts += data[middle:]
            self.sum_ms += sum_ms
        for width, (indexes, counts) in joined.items():
            n = len(counts) // width
            code = _CODE_OF_WIDTH[width]
            self._add(zip(struct.unpack(f"<{n}H", indexes), struct.unpack(f"<{n}{code}", counts), strict=True))

    def _add(self, entries: Iterable[tuple[int, int]]) -> None:
        mine = self._counts
        get = mine.get
        for index, count in entries:
            mine[index] = get(index, 0) + count

    def encode(self) -> bytes:
        """The stored form; equal histograms have equal bytes."""
        if not self._counts:
            return b""
        entries = sorted(self._counts.items())
        largest = max(self._counts.values())
        width, code = next((width, code) for limit, width, code in _WIDTHS if largest <= limit)
        n = len(entries)
        indexes, counts = zip(*entries, strict=True)
        return _HEAD.pack(width, self.sum_ms) + struct.pack(f"<{n}H{n}{code}", *indexes, *counts)

    @classmethod
    def decode(cls, data: bytes) -> Histogram:
        """Raises ValueError when `data` is no stored histogram."""
        histogram = cls()
        histogram.merge_encoded([data])
        return histogram

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self._counts == other._counts and self.sum_ms == other.sum_ms

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Histogram(count={self.count}, p50={self.quantile(0.5)}, p99={self.quantile(0.99)})"


def _index(value_ms: float) -> int:
    if value_ms < FLOOR_MS:
        return 0
    return min(1 + int(math.log(value_ms / FLOOR_MS) * _PER_LOG), _LAST)


def _representative(index: int) -> float:
    return FLOOR_MS * _GROWTH**index * _MIDDLE if index else FLOOR_MS / 2
