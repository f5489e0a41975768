"""SQL of the sums by minute: of all projects together, by modality, so that a day in minutes need not be made of its records.

They change in the transaction that inserts the records. A minute has only what is shown of it: how requests ended, what they cost,
and their times. Sums of minutes whose records are deleted go with them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping

import attrs

from gw.store.latency import LatencyGroup
from gw.store.requests import Totals, bounded_float, bounded_int
from gw.store.rollups import Point
from gw.store.row_times import RecentRows, RowTimes
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import struct_of
from gw.types.usage import RequestRecord

MINUTE_S = 60
TABLE = "sums_minute"
KEYS = ("bucket", "modality")
SUMS = ("requests", "errors", "refused", "fallbacks", "cancelled", "cost_nusd", "unpriced", "wasted_nusd", "saved_nusd")
BLOBS = ("ttfb", "latency")
_ALL = (*KEYS, *SUMS, *BLOBS)
_FIND = f"select ttfb, latency from {TABLE} where bucket = ? and modality = ?"
_ADD = f"""
insert into {TABLE} ({", ".join(_ALL)}) values ({", ".join("?" * len(_ALL))})
on conflict ({", ".join(KEYS)}) do update set
{", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS)}, ttfb = excluded.ttfb, latency = excluded.latency"""
_DELETE_EMPTY = f"delete from {TABLE} where bucket = ? and modality = ? and requests = 0"
_RANGE = f"from {TABLE} where bucket between :first and :last"
_TALLIES = ", ".join(f"coalesce(sum({name}), 0)" for name in Totals.__struct_fields__)
_TOTALS = f"select {_TALLIES} {_RANGE}"
_POINTS = {
    "none": f"select {_TALLIES}, bucket, '' {_RANGE} group by bucket",
    "modality": f"select {_TALLIES}, bucket, modality {_RANGE} group by bucket, modality",
}
_GROUPS = f"select bucket, '', '', modality, requests, ttfb, latency {_RANGE} and requests <> 0"
OLDEST_MINUTE = f"(select cast(timestamp as integer) / {MINUTE_S} from requests order by timestamp limit 1)"
"""Minute of the oldest record, in SQL."""
_PRUNE = f"delete from {TABLE} where bucket < {OLDEST_MINUTE}"

Key = tuple[int, str]
"""Minute since 1970 (UTC), and modality."""


@attrs.frozen
class Minutes:
    """Sums of minutes, both ends included."""

    first: int
    last: int | None


class MinuteSums(RowTimes):
    """Values that a batch adds to one row."""

    __slots__ = ("sums",)

    def __init__(self) -> None:
        super().__init__()
        self.sums = [0] * len(SUMS)


# ---- writing


def by_minute(records: Iterable[RequestRecord]) -> dict[Key, MinuteSums]:
    """Return what records add to each row."""
    minutes: dict[Key, MinuteSums] = {}
    for record in records:
        key: Key = (int(bounded_float(record.timestamp) // MINUTE_S), record.modality)
        group = minutes.get(key)
        if group is None:
            group = minutes[key] = MinuteSums()
        cost, wasted, saved = record.cost_nusd, record.wasted_nusd, record.saved_nusd
        is_unpriced = cost is None or "unpriced" in record.pricing_source
        values = (
            1, record.failed, record.refused, record.fell_back, record.status == "cancelled",
            0 if cost is None else bounded_int(cost), is_unpriced, bounded_int(wasted) if wasted else 0,
            bounded_int(saved) if saved else 0,
        )  # fmt: skip
        group.sums = [*map(operator.add, group.sums, values)]
        group.add_times(record)
    for group in minutes.values():
        group.fill_histograms()
    return minutes


def negated(minutes: Mapping[Key, MinuteSums]) -> Mapping[Key, MinuteSums]:
    for group in minutes.values():
        group.sums = [-value for value in group.sums]
    return minutes


def add(db: SqlConnection, records: Iterable[RequestRecord], recent: RecentRows) -> None:
    """Add newly inserted records. Within the caller's transaction."""
    _upsert(db, by_minute(records), recent)


def subtract(db: SqlConnection, records: Iterable[RequestRecord], recent: RecentRows) -> None:
    """Take deleted records without times (interrupted ones have none) out of the sums. Within the caller's transaction."""
    minutes = negated(by_minute(records))
    _upsert(db, minutes, recent)
    db.executemany(_DELETE_EMPTY, minutes)


def _upsert(db: SqlConnection, minutes: Mapping[Key, MinuteSums], recent: RecentRows) -> None:
    for key, group in minutes.items():
        ends_at = (key[0] + 1) * MINUTE_S
        blobs = recent.add(TABLE, ends_at, key, group.histograms)
        if blobs is None:
            blobs = recent.read(TABLE, ends_at, key, group.histograms, db.execute(_FIND, key))
        db.execute(_ADD, (*key, *group.sums, *blobs))


def prune(db: SqlConnection) -> None:
    """Delete the minutes before the oldest record."""
    db.execute(_PRUNE)


# ---- reading


def totals(db: SqlConnection, span: Minutes) -> Totals:
    [row] = db.execute(_TOTALS, _bounds(span))
    return struct_of(Totals, row)


def points(db: SqlConnection, span: Minutes, *, by: str) -> list[Point]:
    """Return totals by minute, and by modality if `by` says so."""
    return [struct_of(Point, row) for row in db.execute(_POINTS[by], _bounds(span))]


def groups(db: SqlConnection, span: Minutes) -> Iterable[LatencyGroup]:
    return map(LatencyGroup._make, db.execute(_GROUPS, _bounds(span)))


def _bounds(span: Minutes) -> dict[str, int]:
    return {"first": span.first, "last": 2**62 if span.last is None else span.last}
