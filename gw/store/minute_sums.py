"""Sums of all projects together by minute and modality, so that a day in minutes need not be made of its records.

A minute has only what is shown of it: how requests ended, what they cost, and their times.
"""

from __future__ import annotations

from collections.abc import Iterable

from gw.store.latency import LatencyGroup
from gw.store.minute_table import Minutes, MinuteTable
from gw.store.requests import Totals, bounded_int
from gw.store.rollups import Point
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import struct_of
from gw.types.usage import RequestRecord


def _values(record: RequestRecord) -> tuple[int, ...]:
    """Return what a record adds to each sum."""
    cost, wasted, saved = record.cost_nusd, record.wasted_nusd, record.saved_nusd
    is_unpriced = cost is None or "unpriced" in record.pricing_source
    return (
        1, record.failed, record.refused, record.fell_back, record.status == "cancelled",
        0 if cost is None else bounded_int(cost), is_unpriced, bounded_int(wasted) if wasted else 0,
        bounded_int(saved) if saved else 0,
    )  # fmt: skip


TABLE = MinuteTable(
    "sums_minute", keys=("modality",), key_of=lambda record: (record.modality,), values_of=_values,
    sums=("requests", "errors", "refused", "fallbacks", "cancelled", "cost_nusd", "unpriced", "wasted_nusd", "saved_nusd"),
)  # fmt: skip
_RANGE = f"from {TABLE.name} where bucket between :first and :last"
_TALLIES = ", ".join(f"coalesce(sum({name}), 0)" for name in Totals.__struct_fields__)
_TOTALS = f"select {_TALLIES} {_RANGE}"
_POINTS = {
    "none": f"select {_TALLIES}, bucket, '' {_RANGE} group by bucket",
    "modality": f"select {_TALLIES}, bucket, modality {_RANGE} group by bucket, modality",
}
_GROUPS = f"select bucket, '', '', modality, requests, ttfb, latency {_RANGE} and requests <> 0"


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
