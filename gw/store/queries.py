"""The queries that reports make, as functions of a `QueryContext`: they can run in a thread or in another process.

`since_day` counts UTC days (`clock.utc_day`), None = everything; `project` None = all projects. Buckets are UTC hours or
days since 1970, both ends included. `before` is the id of the last record (of a turn: of its first) that was read before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from gw.store import attempt_rollups, requests, rollups, windows
from gw.store.group_starts import TURN, StartSearch, newest_groups
from gw.store.latency import QueryContext
from gw.store.latency import latencies as latencies
from gw.store.latency import latency_points as latency_points
from gw.store.requests import ANY, LogFilter, Totals
from gw.store.rollups import CostRow, Grain, Point
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import struct_of
from gw.store.window_pieces import TimeWindow
from gw.telemetry.clock import DAY_S, utc_day, utc_hour
from gw.telemetry.histogram import Histogram
from gw.types.captured import CaptureState
from gw.types.ids import Modality
from gw.types.usage import RequestRecord

MOST_REQUESTS = 200  # requests that are read of one turn, the first ones; an app may give all its requests one id

_AT_ONCE = 50  # turns read by one statement: with days of records apart, each statement looks into all of them
_COLUMNS = requests.SELECT.partition(" from ")[0]
_REQUESTS = f"""
select * from (
  {_COLUMNS}, row_number() over (partition by turn_id, session_id, project order by timestamp, seq) as place
  from requests indexed by requests_turn_id where turn_id in ({", ".join("?" * _AT_ONCE)})) r
where place <= ? order by timestamp, place"""

_NEWEST = """
select session_id, project from requests indexed by requests_turn_id
where turn_id = :turn_id and (:project is null or project = :project) and (:session_id is null or session_id = :session_id)
order by timestamp desc, seq desc limit 1"""


class NoSuchRecord(LookupError):
    """The record after which a page was to start does not exist (any more)."""


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """`last_errors` by provider."""

    health: list[attempt_rollups.Health]
    last_errors: Mapping[str, attempt_rollups.LastError]
    moves: list[attempt_rollups.Move]


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    today: Totals
    ever: Totals


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """`ttfb` by modality, and of all together under ""."""

    totals: Totals
    ttfb: Mapping[str, Histogram]


class Days(msgspec.Struct, frozen=True, kw_only=True):
    """`hours`: UTC hour → its totals and times to first byte; hours without requests are left out."""

    today: Figures
    yesterday: Figures
    hours: Mapping[int, tuple[Point, Histogram]]


def costs(context: QueryContext, since_day: int | None, project: str | None) -> list[CostRow]:
    """Return costs per provider, model and project, the highest first."""
    return rollups.costs(context.db, since_day, project)


def totals(context: QueryContext, since_day: int | None, project: str | None) -> Totals:
    return rollups.totals(context.db, since_day, project)


def sums(context: QueryContext, day: int, project: str | None) -> Sums:
    """Return the totals of a UTC day and of all time."""
    return Sums(today=rollups.totals(context.db, day, project), ever=rollups.totals(context.db, None, project))


def days(context: QueryContext, now: float, hours: int, project: str | None) -> Days:
    """Return today, yesterday up to the same time of day, and the last `hours` UTC hours. `now`: Unix seconds."""
    hour, today = utc_hour(now), utc_day(now)
    since = hour - hours + 1
    latest = points(context, "hour", since, hour, by="none", project=project, model_id=None)
    speeds = latency_points(context, "hour", since, hour, by="none", project=project, model_id=None)
    ttfb = _ttfb_by_modality(context, "day", today, today, project)
    return Days(
        today=Figures(totals=rollups.totals(context.db, today, project, until=today), ttfb=_with_all(ttfb)),
        yesterday=_until_same_time(context, now, project),
        hours={point.bucket: (point, speeds[point.bucket, ""].ttfb) for point in latest},
    )


def _until_same_time(context: QueryContext, now: float, project: str | None) -> Figures:
    """Return yesterday until this time of day."""
    result = windows.figures(context, TimeWindow(float((utc_day(now) - 1) * DAY_S), now - DAY_S), project)
    return Figures(totals=result.totals, ttfb={modality: row.ttfb for modality, row in result.latency.items()})


def _ttfb_by_modality(
    context: QueryContext, grain: Grain, since: int, until: int, project: str | None
) -> dict[str, Histogram]:
    merged: dict[str, Histogram] = {}
    rows = latency_points(context, grain, since, until, by="modality", project=project, model_id=None)
    for (_, modality), row in rows.items():
        merged.setdefault(modality, Histogram()).merge(row.ttfb)
    return merged


def _with_all(ttfb: dict[str, Histogram]) -> dict[str, Histogram]:
    together = Histogram()
    for histogram in ttfb.values():
        together.merge(histogram)
    return {**ttfb, "": together}


def points(
    context: QueryContext, grain: Grain, since: int, until: int, *, by: str, project: str | None, model_id: str | None
) -> list[Point]:
    """Return totals per bucket and name; `by`: see `rollups.BY`."""
    return rollups.points(context.db, grain, since, until, by=by, project=project, model_id=model_id)


def attempted(context: QueryContext, since_hour: int, hours: int, until_hour: int | None = None) -> Attempts:
    """Return the outcomes of providers' calls by periods of `hours` hours, and the moves between candidates.

    `until_hour` is the last one; None = no bound.
    """
    return Attempts(
        health=attempt_rollups.health(context.db, since_hour, hours, until_hour),
        last_errors=attempt_rollups.last_errors(context.db, since_hour, until_hour),
        moves=attempt_rollups.moves(context.db, since_hour, until_hour),
    )


def log(
    context: QueryContext, limit: int, before: str | None = None, log_filter: LogFilter = ANY
) -> list[RequestRecord]:
    """Return the newest records that pass the filter. Raises NoSuchRecord."""
    return requests.page(context.db, limit=limit, log_filter=log_filter, before=_place(context.db, before))


def log_in_order(
    context: QueryContext, limit: int, before: str | None, log_filter: LogFilter, order: str, most: int
) -> list[RequestRecord] | None:
    """Return records in the order of a column, see `requests.page_in_order`. Raises NoSuchRecord."""
    _place(context.db, before)
    return requests.page_in_order(context.db, limit=limit, log_filter=log_filter, order=order, before=before, most=most)


def request(context: QueryContext, record_id: str) -> RequestRecord | None:
    return requests.find(context.db, record_id)


def _place(db: SqlConnection, record_id: str | None) -> tuple[float, int] | None:
    if record_id is None:
        return None
    place = requests.place(db, record_id)
    if place is None:
        raise NoSuchRecord(record_id)
    return place


# ---- turns: clients choose their ids, so requests of one turn share id, session and project


class TurnFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions that a turn, or a session, must all meet; None = any. `since` and `until`: when its first request began."""

    project: str | None = None
    since: float | None = None
    until: float | None = None
    trouble: str | None = None
    """Name in `group_starts.TROUBLES`."""


ANY_TURN = TurnFilter()


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """`requests` in order of time, at least one."""

    turn_id: str
    session_id: str | None
    project: str
    requests: tuple[RequestRecord, ...]


def newest_turns(context: QueryContext, limit: int, before: str | None, wanted: TurnFilter) -> list[Turn]:
    """Return the turns that began last, the newest first. Raises NoSuchRecord."""
    return _turns(context.db, _turn_keys(context, limit, before, wanted))


def all_turns(context: QueryContext, most: int, wanted: TurnFilter) -> list[Turn] | None:
    """Return all turns that pass the filter, the newest first; None if there are more than `most`."""
    keys = _turn_keys(context, most + 1, None, wanted)
    return None if len(keys) > most else _turns(context.db, keys)


def _turn_keys(context: QueryContext, limit: int, before: str | None, wanted: TurnFilter) -> list[tuple[str, str | None, str]]:
    """Return (turn id, session id, project) of each."""
    search = StartSearch(
        group=TURN, index="turns" if wanted.project is None else "project", since=wanted.since, until=wanted.until,
        conditions=() if wanted.project is None else ("project = :project",), bindings={"project": wanted.project},
        before=_place(context.db, before), trouble=wanted.trouble,
    )  # fmt: skip
    return newest_groups(context.db, search, limit)


def turn(context: QueryContext, turn_id: str, *, project: str | None, session_id: str | None) -> Turn | None:
    """Return the turn; if several sessions or projects use the id, that of the last use."""
    bindings = {"turn_id": turn_id, "project": project, "session_id": session_id}
    for session, owner in context.db.execute(_NEWEST, bindings):
        return _turns(context.db, [(turn_id, session, owner)])[0]
    return None


def _turns(db: SqlConnection, keys: Sequence[tuple[str, str | None, str]]) -> list[Turn]:
    records: defaultdict[tuple[str | None, str | None, str], list[RequestRecord]] = defaultdict(list)
    different = list(dict.fromkeys(turn_id for turn_id, _, _ in keys))
    for at in range(0, len(different), _AT_ONCE):
        ids = different[at : at + _AT_ONCE]
        ids += ids[-1:] * (_AT_ONCE - len(ids))  # one text of the statement, however many there are
        for *row, _ in db.execute(_REQUESTS, (*ids, MOST_REQUESTS)):
            record = requests.record_of(row)
            records[record.turn_id, record.session_id, record.project].append(record)
    return [Turn(turn_id=key[0], session_id=key[1], project=key[2], requests=tuple(records[key])) for key in keys]


class CaptureOwner(msgspec.Struct, frozen=True, kw_only=True):
    """A request of which something may be captured."""

    id: str
    timestamp: float
    project: str
    session_id: str | None
    turn_id: str | None
    modality: Modality
    model_id: str
    captured: CaptureState


def captured_requests(context: QueryContext, name: str, *, project: str | None, limit: int) -> list[CaptureOwner]:
    """Return the requests of which something was captured, by the id of their session, their turn or their own, oldest first."""
    columns = ", ".join(CaptureOwner.__struct_fields__)
    condition = "captured is not null and (:project is null or project = :project)"
    parts = [f"select {columns}, seq from requests where {key} = :name and {condition}" for key in ("id", "session_id", "turn_id")]
    sql = f"select {columns} from ({' union '.join(parts)}) r order by timestamp, seq limit :limit"
    rows = context.db.execute(sql, {"name": name, "project": project, "limit": limit})
    return [struct_of(CaptureOwner, row) for row in rows]
