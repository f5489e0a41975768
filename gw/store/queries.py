"""The questions that reports ask, as functions of a desk: they can be run in a thread or in another process.

`since_day` counts UTC days (`clock.utc_day`), None = everything; `project` None = all projects. Buckets are UTC hours or
days since 1970, both ends included. `before` is the id of the last record (of a turn: of its first) that was read before.
"""

from __future__ import annotations

from collections.abc import Mapping

import apsw
import attrs

from gw.store import attempt_rollups, day_summary, latency, requests, rollups, turn_queries
from gw.store.day_summary import Days
from gw.store.latency import LatencyRow, MergedBuckets
from gw.store.requests import ANY, LogFilter, Totals
from gw.store.rollup_versions import Grain
from gw.store.rollups import CostRow, Point
from gw.store.turn_queries import Turn
from gw.types.usage import RequestRecord


class NoSuchRecord(LookupError):
    """The record that a page was to begin after is not there (any more)."""


@attrs.frozen
class QueryContext:
    """What a query works with: a connection, and the sums that its process keeps."""

    db: apsw.Connection
    merged: MergedBuckets


@attrs.frozen(kw_only=True)
class Attempts:
    """`last_errors` by provider."""

    health: list[attempt_rollups.Health]
    last_errors: Mapping[str, attempt_rollups.LastError]
    moves: list[attempt_rollups.Move]


@attrs.frozen(kw_only=True)
class Sums:
    today: Totals
    ever: Totals


def costs(desk: QueryContext, since_day: int | None, project: str | None) -> list[CostRow]:
    """Per provider, model and project, the dearest first."""
    return rollups.costs(desk.db, since_day, project)


def latencies(desk: QueryContext, since_day: int | None, project: str | None) -> dict[str, LatencyRow]:
    """Per model id."""
    return latency.by_model(desk.db, since_day, project, desk.merged)


def totals(desk: QueryContext, since_day: int | None, project: str | None) -> Totals:
    return rollups.totals(desk.db, since_day, project)


def sums(desk: QueryContext, day: int, project: str | None) -> Sums:
    """Return the totals of a UTC day and of all time."""
    return Sums(
        today=rollups.totals(desk.db, day, project),
        ever=rollups.totals(desk.db, None, project),
    )


def days(desk: QueryContext, now: float, hours: int, project: str | None) -> Days:
    """Today, yesterday up to the same time of day, and the last `hours` UTC hours. `now`: Unix seconds."""
    return day_summary.read(desk.db, now, hours, project, desk.merged)


def points(
    desk: QueryContext, grain: Grain, since: int, until: int, *, by: str, project: str | None, model_id: str | None
) -> list[Point]:
    """Totals per bucket and name; `by`: see `rollups.BY`."""
    return rollups.points(desk.db, grain, since, until, by=by, project=project, model_id=model_id)


def latency_points(
    desk: QueryContext, grain: Grain, since: int, until: int, *, by: str, project: str | None, model_id: str | None
) -> Mapping[tuple[int, str], LatencyRow]:
    """As `points`, by (bucket, name)."""
    return latency.series(
        desk.db, grain, since, until, by=by, project=project, model_id=model_id, merged=desk.merged
    )


def attempted(desk: QueryContext, since_hour: int, hours: int) -> Attempts:
    """How providers' calls ended, by stretches of `hours` hours since then, and where requests went on."""
    return Attempts(
        health=attempt_rollups.health(desk.db, since_hour, hours),
        last_errors=attempt_rollups.last_errors(desk.db, since_hour),
        moves=attempt_rollups.moves(desk.db, since_hour),
    )


def log(desk: QueryContext, limit: int, before: str | None = None, wanted: LogFilter = ANY) -> list[RequestRecord]:
    """The newest records that pass the filter. Raises NoSuchRecord."""
    return requests.page(desk.db, limit=limit, wanted=wanted, before=_place(desk.db, before))


def newest_turns(desk: QueryContext, limit: int, before: str | None, project: str | None) -> list[Turn]:
    """Raises NoSuchRecord."""
    return turn_queries.page(desk.db, limit=limit, before=_place(desk.db, before), project=project)


def turn(desk: QueryContext, turn_id: str, *, project: str | None, session_id: str | None) -> Turn | None:
    """Where several sessions or projects use the id, the one that used it last."""
    return turn_queries.find(desk.db, turn_id, project=project, session_id=session_id)


def request(desk: QueryContext, record_id: str) -> RequestRecord | None:
    return requests.find(desk.db, record_id)


def _place(db: apsw.Connection, record_id: str | None) -> tuple[float, int] | None:
    if record_id is None:
        return None
    found = requests.place(db, record_id)
    if found is None:
        raise NoSuchRecord(record_id)
    return found
