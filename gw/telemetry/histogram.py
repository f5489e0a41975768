"""Latency histogram with logarithmic buckets: mergeable, small, and within 3 % of the true quantile.

Bucket 0 has everything below `FLOOR_MS`; bucket i >= 1 has [FLOOR_MS * G**(i-1), FLOOR_MS * G**i). With
G = (1 + e) / (1 - e) a value is at most the fraction e away from its bucket's representative, whatever its size.
Counts are kept sparsely, since one hour of one model fills a handful of buckets, and merging is addition; so the
order of merging does not matter and a month is the sum of its days.

Stored forms, little-endian; the smaller is used, and no entries = no bytes. Both start with the width of a count (1, 2, 4, 8)
as a byte and the sum as a double. *Sparse*: the bucket numbers as u16, then the counts. *Dense* (`_DENSE` set in the first
byte): the number of the first bucket as u16, then its count and all that follow, zeros included.

Reports merge tens of thousands of stored histograms, too many for a loop over buckets: the counts of a dense one are spread
to lanes of 64 bits and read as one large integer, and adding two such integers adds all buckets at once.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

RELATIVE_ERROR = 0.03
FLOOR_MS = 0.1
_GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_PER_LOG = 1 / math.log(_GROWTH)
_MIDDLE = 2 / (1 + _GROWTH)
"""Upper edge of a bucket times this = its representative: equally far from both edges, relative to its size."""
_HEAD = struct.Struct("<Bd")
_DENSE_HEAD = struct.Struct("<BdH")
_DENSE = 0x10
_LANE_BITS = 64
_WIDTHS = ((0xFF, 1, "B"), (0xFFFF, 2, "H"), (0xFFFF_FFFF, 4, "I"), (0xFFFF_FFFF_FFFF_FFFF, 8, "Q"))
_CODE_OF_WIDTH = {width: code for _, width, code in _WIDTHS}


class Histogram:
    """Counts of values in ms. Mutable; not safe to share between threads."""

    __slots__ = ("_counts", "sum_ms")

    def __init__(self, values_ms: Iterable[float] = ()) -> None:
        self._counts: dict[int, int] = {}
        self.sum_ms = 0.0
        self.record_all(values_ms)

    @property
    def count(self) -> int:
        return sum(self._counts.values())

    @property
    def mean_ms(self) -> float | None:
        count = self.count
        return self.sum_ms / count if count else None

    def record(self, value_ms: float) -> None:
        """Count one value. Infinity and NaN are ignored; a negative number counts as 0."""
        self.record_all((value_ms,))

    def record_all(self, values_ms: Iterable[float]) -> None:
        counts, get, log = self._counts, self._counts.get, math.log
        sum_ms = self.sum_ms
        for value_ms in values_ms:
            if FLOOR_MS <= value_ms < math.inf:
                index = 1 + int(log(value_ms / FLOOR_MS) * _PER_LOG)
                sum_ms += value_ms
            elif -math.inf < value_ms < FLOOR_MS:
                index = 0
                sum_ms += value_ms if value_ms > 0 else 0.0
            else:
                continue
            counts[index] = get(index, 0) + 1
        self.sum_ms = sum_ms

    def quantile(self, q: float) -> float | None:
        """Return the value of rank ceil(q * count) in ms, within 3 % (0.1 ms below the floor). None when empty."""
        return self.quantiles(q)[0]

    def quantiles(self, *qs: float) -> list[float | None]:
        """Return several quantiles at once."""
        for q in qs:
            if not 0 <= q <= 1:
                raise ValueError(f"a quantile must be between 0 and 1, not {q!r}")
        indexes = sorted(self._counts)
        ranks = list(accumulate(map(self._counts.__getitem__, indexes)))
        if not ranks:
            return [None] * len(qs)
        return [_representative(indexes[bisect_left(ranks, max(1, math.ceil(q * ranks[-1])))]) for q in qs]

    def buckets(self) -> Iterator[tuple[float, float, int]]:
        """Yield `(from_ms, to_ms, count)` of each bucket from the first to the last that is not empty, in order."""
        if self._counts:
            for index in range(min(self._counts), max(self._counts) + 1):
                yield FLOOR_MS * _GROWTH ** (index - 1) if index else 0.0, FLOOR_MS * _GROWTH**index, self._counts.get(index, 0)

    def merge(self, other: Histogram) -> None:
        """Add the other's counts to this one."""
        self._add(other._counts.items())
        self.sum_ms += other.sum_ms

    def merge_encoded(self, stored: Iterable[bytes]) -> None:
        """Add stored histograms, 1 to 2 µs each. Raises ValueError for an invalid one."""
        lanes: dict[int, int] = {}
        for data in stored:
            if not data:
                continue
            size = len(data)
            kind, sum_ms = _HEAD.unpack_from(data) if size > _HEAD.size else (0, 0.0)
            if kind & _DENSE:
                width = kind ^ _DENSE
                n, remainder = divmod(size - _DENSE_HEAD.size, width) if width in _CODE_OF_WIDTH else (0, 1)
                if remainder or n < 1:
                    raise ValueError("not a stored histogram")
                first = data[9] | data[10] << 8
                spread = bytearray(8 * n)
                for byte in range(width):
                    spread[byte::8] = data[_DENSE_HEAD.size + byte :: width]
                lanes[first] = lanes.get(first, 0) + int.from_bytes(spread, "little")
            else:
                self._add_sparse(data, kind)
            self.sum_ms += sum_ms
        if lanes:
            self._add_lanes(lanes)

    def _add_sparse(self, data: bytes, width: int) -> None:
        size = len(data) - _HEAD.size
        if width not in _CODE_OF_WIDTH or size % (2 + width):
            raise ValueError("not a stored histogram")
        n = size // (2 + width)
        entries = struct.unpack_from(f"<{n}H{n}{_CODE_OF_WIDTH[width]}", data, _HEAD.size)
        self._add(zip(entries[:n], entries[n:], strict=True))

    def _add_lanes(self, lanes: dict[int, int]) -> None:
        lowest = min(lanes)
        total = sum(lane << (first - lowest) * _LANE_BITS for first, lane in lanes.items())
        n = -(-total.bit_length() // _LANE_BITS)
        counts = struct.unpack(f"<{n}Q", total.to_bytes(8 * n, "little"))
        entries = {index: count for index, count in enumerate(counts, lowest) if count}
        if self._counts:
            self._add(entries.items())
        else:
            self._counts = entries

    def _add(self, entries: Iterable[tuple[int, int]]) -> None:
        counts, get = self._counts, self._counts.get
        for index, count in entries:
            counts[index] = get(index, 0) + count

    def encode(self) -> bytes:
        """Return the stored form; equal histograms have equal bytes."""
        if not self._counts:
            return b""
        entries = sorted(self._counts.items())
        largest = max(self._counts.values())
        width, code = next((width, code) for limit, width, code in _WIDTHS if largest <= limit)
        n, first = len(entries), entries[0][0]
        span = entries[-1][0] - first + 1
        if 2 + width * span <= (2 + width) * n:
            counts = [0] * span
            for index, count in entries:
                counts[index - first] = count
            return _DENSE_HEAD.pack(width | _DENSE, self.sum_ms, first) + struct.pack(f"<{span}{code}", *counts)
        indexes, sparse = zip(*entries, strict=True)
        return _HEAD.pack(width, self.sum_ms) + struct.pack(f"<{n}H{n}{code}", *indexes, *sparse)

    @classmethod
    def decode(cls, data: bytes) -> Histogram:
        """Raises ValueError for an invalid stored form."""
        histogram = cls()
        histogram.merge_encoded([data])
        return histogram

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self._counts == other._counts and self.sum_ms == other.sum_ms

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Histogram(count={self.count}, p50={self.quantile(0.5)}, p99={self.quantile(0.99)})"


class EncodedHistogram:
    """A histogram in its stored form, for one to which a few values at a time are added: that costs a tenth of `encode`."""

    __slots__ = ("_data", "_histogram")

    def __init__(self, histogram: Histogram) -> None:
        """Take over the histogram."""
        self._histogram = histogram
        self._data = bytearray(histogram.encode())

    @property
    def data(self) -> bytes:
        """Return what `Histogram.encode` returns for the sum of all that was added."""
        return bytes(self._data)

    def add(self, other: Histogram) -> None:
        """Add the other's counts."""
        self._histogram.merge(other)
        if not self._changed_in_place(other._counts):
            self._data = bytearray(self._histogram.encode())

    def _changed_in_place(self, indexes: Iterable[int]) -> bool:
        """Write the counts of these buckets into a dense form that has room for them; return False if it has none."""
        data, counts = self._data, self._histogram._counts
        if not data or not data[0] & _DENSE:
            return False
        width, first = data[0] ^ _DENSE, data[9] | data[10] << 8
        span, limit = (len(data) - _DENSE_HEAD.size) // width, 1 << 8 * width
        for index in indexes:
            count = counts[index]
            if not first <= index < first + span or count >= limit:
                return False
            at = _DENSE_HEAD.size + width * (index - first)
            data[at : at + width] = count.to_bytes(width, "little")
        _DENSE_HEAD.pack_into(data, 0, data[0], self._histogram.sum_ms, first)
        return True


def _representative(index: int) -> float:
    return FLOOR_MS * _GROWTH**index * _MIDDLE if index else FLOOR_MS / 2
