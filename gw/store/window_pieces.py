"""The pieces of a stretch of time: complete hours and days from the rollups, minutes from their sums, the rest from records.

Minutes are of all projects together, so they stand in for records of all projects only (`minutes_since`).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, inf

import msgspec

from gw.store import requests, rollups
from gw.store.latency import QueryContext
from gw.store.minute_table import MINUTE_S, Minutes
from gw.store.rollups import Grain
from gw.store.sql_connection import SqlConnection

HOUR_S, DAY_S = 3_600, 86_400


class TimeWindow(msgspec.Struct, frozen=True):
    """Times from `since` (included) to `until` (not included), in Unix seconds; None = no bound."""

    since: float | None = None
    until: float | None = None


class Buckets(msgspec.Struct, frozen=True):
    """Rollup rows of complete hours or days, both ends included."""

    grain: Grain
    first: int | None
    last: int | None


class Rows(msgspec.Struct, frozen=True):
    """Records that began in [since, until)."""

    since: float
    until: float


Piece = Buckets | Minutes | Rows


def pieces(context: QueryContext, window: TimeWindow, coarsest: Grain = "day", *, minutes_since: int | None = None) -> list[Piece]:
    """Divide a window into rollups and records, in no particular order.

    `minutes_since`: first UTC minute (since 1970) whose sums stand in for records; None = none do.
    """
    since, until = -inf if window.since is None else window.since, inf if window.until is None else window.until
    first_hour, end_hour = _ceil(since / HOUR_S), _floor(until / HOUR_S)
    result: list[Piece] = []
    if first_hour > end_hour:  # within one hour
        return _records(context, since, until, minutes_since) if since < until else []
    if since < first_hour * HOUR_S:
        result += _records(context, since, first_hour * HOUR_S, minutes_since)
    if end_hour * HOUR_S < until:
        result += _records(context, end_hour * HOUR_S, until, minutes_since)
    if coarsest == "hour":
        return [*result, *_buckets("hour", first_hour, end_hour)]
    first_day, end_day = _ceil(first_hour / 24), _floor(end_hour / 24)
    if first_day >= end_day:
        return [*result, *_buckets("hour", first_hour, end_hour)]
    result += _buckets("hour", first_hour, first_day * 24)
    result += _buckets("day", first_day, end_day)
    return [*result, *_buckets("hour", end_day * 24, end_hour)]


def _ceil(value: float) -> float:
    return value if value in (inf, -inf) else ceil(value)


def _floor(value: float) -> float:
    return value if value in (inf, -inf) else value // 1


def _buckets(grain: Grain, first: float, end: float) -> Iterable[Buckets]:
    if first < end:
        yield Buckets(grain, None if first == -inf else int(first), None if end == inf else int(end) - 1)


def _records(context: QueryContext, since: float, until: float, minutes_since: int | None) -> list[Piece]:
    """Return the records, or all of their hour if some of them may have been deleted. Within one hour."""
    if context.oldest is None or since < context.oldest:
        hour = int(since // HOUR_S)
        return [Buckets("hour", hour, hour)]
    return minutes_and_records(since, until, minutes_since)


def minutes_and_records(since: float, until: float, minutes_since: int | None) -> list[Piece]:
    """Divide a stretch, whose records are all there, into minutes and records."""
    first, end = max(_ceil(since / MINUTE_S), inf if minutes_since is None else minutes_since), _floor(until / MINUTE_S)
    if first >= end:
        return [Rows(since, until)]
    result: list[Piece] = [Minutes(int(first), None if end == inf else int(end) - 1)]
    if since < first * MINUTE_S:
        result.append(Rows(since, first * MINUTE_S))
    if end * MINUTE_S < until:
        result.append(Rows(end * MINUTE_S, until))
    return result


def pieces_by_step(
    context: QueryContext, window: TimeWindow, step_s: int, *, minutes_since: int | None = None
) -> Iterable[Piece]:
    """Divide a window so that no piece of a rollup spans several steps."""
    if step_s >= HOUR_S:
        return pieces(context, window, "day" if step_s >= DAY_S else "hour", minutes_since=minutes_since)
    if step_s % MINUTE_S:
        minutes_since = None
    oldest = context.oldest
    since, until = window.since or 0.0, inf if window.until is None else window.until
    if oldest is None or since >= oldest:
        return minutes_and_records(since, until, minutes_since)
    border = max(since, _first_complete_hour(context.db, oldest) * HOUR_S)
    if border >= until:
        return [Buckets("hour", int(since // HOUR_S), ceil(until / HOUR_S) - 1)]
    rows = minutes_and_records(border, until, minutes_since)
    return [*_buckets("hour", since // HOUR_S, border // HOUR_S), *rows]


def _first_complete_hour(db: SqlConnection, oldest: float) -> int:
    """Return the hour of the oldest record, or the next one if records of that hour have been deleted."""
    hour = int(oldest // HOUR_S)
    left = requests.between(db, hour * HOUR_S, (hour + 1) * HOUR_S, None)[0].requests
    return hour + (left < rollups.totals(db, hour, None, until=hour, grain="hour").requests)
