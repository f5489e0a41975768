"""First audio: the wait from a caller's last word to the first sound of the answer, once for each turn.

It is a quantity of a turn, not of a request: the turn begins with the end of the caller's speech (`HeardSpeech.ended_at`), or
with its first request where no live transcription is known. A turn counts when its first request of speech is committed, in
the transaction that inserts it, in the UTC hour and day in which the turn began. Requests of the turn that are committed later
begin later, so they do not change it.

A bucket has a row for each project and stack of models, and sums of them: for each project, for each stack, and for all. Projects and
stacks can be many, so a report of a month would else merge a hundred thousand rows. A minute has the sum for all only. Each turn that
counts also has a row of its own, for the incomplete hours at the ends of a stretch of time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Literal, TypeVar

import msgspec

from gw.store.latency import QueryContext
from gw.store.minute_table import MINUTE_S, OLDEST_MINUTE, Minutes
from gw.store.requests import heard_speech
from gw.store.rollups import SPAN
from gw.store.sql_connection import SqlConnection
from gw.store.window_pieces import HOUR_S, Buckets, Piece, Rows, TimeWindow, minutes_and_records, pieces
from gw.telemetry.histogram import Histogram
from gw.types.usage import RequestRecord

K = TypeVar("K", str, int)
WaitsBy = Literal["none", "project", "stack"]
WaitGrain = Literal["minute", "hour", "day"]
TABLES: Mapping[WaitGrain, str] = {"minute": "first_audio_minute", "hour": "first_audio_hour", "day": "first_audio_day"}
SECONDS: Mapping[WaitGrain, int] = {"minute": MINUTE_S, "hour": HOUR_S, "day": 24 * HOUR_S}
ADD_TURN = "insert into turn_waits (began, project, stack, wait_ms) values (?, ?, ?, ?)"
_TURN_WAITS = """
select began, project, stack, wait_ms from turn_waits
where began >= :since and began < :until and (:project is null or project = :project)"""
_PRUNE = (
    "delete from turn_waits where began < (select min(timestamp) from requests)",
    f"delete from first_audio_minute where bucket < {OLDEST_MINUTE}",
)
ALL = ""
"""Project or stack of a row that is the sum of the others."""
_TURN = """
select id, timestamp, modality, model_id, ttfb_ms, heard from requests indexed by requests_turn_id
where turn_id = ? and session_id is not distinct from ? and project = ? order by timestamp, seq limit 1000"""
_TURNS = """
select distinct turn_id, session_id, project from requests indexed by requests_time
where timestamp >= :since and timestamp < :until and turn_id is not null and modality = 'tts' and ttfb_ms is not null
  and (:project is null or project = :project)"""
_TURNS_AT_ONCE = 500
_TURNS_ROWS = f"""
select turn_id, session_id, project, id, timestamp, modality, model_id, ttfb_ms, heard from requests indexed by requests_turn_id
where turn_id in ({", ".join("?" * _TURNS_AT_ONCE)}) and timestamp >= ? and timestamp < ? order by timestamp, seq"""
_EXACT = {
    grain: f"""{SPAN.format(table=table)}
select r.bucket, r.project, r.stack, r.waits from span
cross join {table} r on r.bucket = span.bucket and r.project = :project and r.stack = :stack"""
    for grain, table in TABLES.items()
}
_BY_PROJECT, _BY_STACK = (
    {
        grain: f"select bucket, project, stack, waits from {table} where bucket between :since and :until and {which}"
        for grain, table in TABLES.items()
    }
    for which in (f"project <> '{ALL}' and stack = '{ALL}'", f"project = :project and stack <> '{ALL}'")
)
_MOST_KEPT = 64
"""Stretches of complete hours and days whose merged rows are kept for the next report. With 500 stacks one has 70 KB."""
_LONGEST_S = 86_400.0
"""Longest time between two requests of a turn."""
_LONG_S = 60.0
"""Longest time between a turn's beginning and its first sound, for nearly all turns: requests so much around are read."""


class TurnWait(msgspec.Struct, frozen=True):
    """First audio of one turn. `stack`: the models of its stages, as `stt / llm / tts`, those there are."""

    began: float
    """Unix seconds."""
    project: str
    stack: str
    wait_ms: float


_TurnKey = tuple[str, str | None, str]
"""Turn, session and project."""
NewWaits = Mapping[tuple[WaitGrain, int, str, str], list[float]]
"""Grain, bucket, project and stack of a row → waits in ms that are new to it."""


def _wait(rows: Iterable[Any], project: str, fresh: frozenset[str]) -> tuple[TurnWait | None, bool]:
    """Return a turn's first audio, and whether a request that is not among `fresh` ones had sound before.

    `rows`: of its requests, with the columns of `_TURN`.
    """
    began, sound, counted = float("inf"), float("inf"), False
    models: dict[str, str] = {}
    for record_id, timestamp, modality, model_id, ttfb_ms, heard in rows:
        began = min(began, timestamp)
        for speech in heard_speech(heard):
            began = min(began, speech.ended_at)
            models.setdefault("stt", speech.model_id)
        if modality != "tts" or ttfb_ms is not None:
            models.setdefault(modality, model_id)
        if modality == "tts" and ttfb_ms is not None:
            sound = min(sound, timestamp + ttfb_ms / 1_000)
            counted = counted or record_id not in fresh
    if sound == float("inf"):
        return None, counted
    stack = " / ".join(models[stage] for stage in ("stt", "llm", "tts") if stage in models)
    return TurnWait(began, project, stack, round(max(0.0, sound - began) * 1_000, 3)), counted


def turn_of(rows: Iterable[Any], project: str) -> TurnWait | None:
    """Return the first audio of a turn, from its requests in order of time with the columns of `_TURN`; None without sound."""
    return _wait(rows, project, frozenset())[0]


def with_sound(records: Iterable[RequestRecord]) -> list[RequestRecord]:
    """Return the records that may have the first sound of a turn."""
    return [record for record in records if record.modality == "tts" and record.ttfb_ms is not None and record.turn_id is not None]


def new_turns(fresh: Iterable[RequestRecord], rows_of: Callable[[_TurnKey], Iterable[Any]]) -> list[TurnWait]:
    """Return the turns whose first sound is among newly inserted records, which `with_sound` has chosen.

    `rows_of` returns a turn's requests in order of time, see `_wait`.
    """
    fresh = list(fresh)
    ids = frozenset(record.id for record in fresh)
    turns: list[TurnWait] = []
    for turn_id, session_id, project in dict.fromkeys((r.turn_id, r.session_id, r.project) for r in fresh):
        assert turn_id is not None
        result, counted = _wait(rows_of((turn_id, session_id, project)), project, ids)
        if result is not None and not counted:
            turns.append(result)
    return turns


def sums_of(turns: Iterable[TurnWait]) -> NewWaits:
    """Return what turns add to the rows of their buckets."""
    waits: defaultdict[tuple[WaitGrain, int, str, str], list[float]] = defaultdict(list)
    for turn in turns:
        for grain, seconds in SECONDS.items():
            bucket = int(turn.began // seconds)
            waits[grain, bucket, ALL, ALL].append(turn.wait_ms)
            if grain != "minute":
                for owner, stack in ((turn.project, turn.stack), (turn.project, ALL), (ALL, turn.stack)):
                    waits[grain, bucket, owner, stack].append(turn.wait_ms)
    return waits


def add(db: SqlConnection, records: Iterable[RequestRecord]) -> None:
    """Count the turns whose first sound is among newly inserted records. Within the caller's transaction."""
    turns = new_turns(with_sound(records), lambda key: db.execute(_TURN, key))
    for (grain, bucket, project, stack), values in sums_of(turns).items():
        key, histogram = (bucket, project, stack), Histogram(values)
        for (stored,) in db.execute(f"select waits from {TABLES[grain]} where bucket = ? and project = ? and stack = ?", key):
            histogram.merge_encoded([stored])
        db.execute(f"insert or replace into {TABLES[grain]} values (?, ?, ?, ?)", (*key, histogram.encode()))
    db.executemany(ADD_TURN, map(row_of, turns))


def row_of(turn: TurnWait) -> tuple[float, str, str, float]:
    return turn.began, turn.project, turn.stack, turn.wait_ms


def prune(db: SqlConnection) -> None:
    """Delete the turns and the minutes before the oldest record."""
    for statement in _PRUNE:
        db.execute(statement)


def merged(stored: Iterable[bytes]) -> Histogram:
    histogram = Histogram()
    histogram.merge_encoded(stored)
    return histogram


# ---- reading


class _Waits:
    """First audio that is being added up: stored histograms are collected, which merges them all at once."""

    __slots__ = ("stored", "waits_ms")

    def __init__(self) -> None:
        self.stored: list[bytes] = []
        self.waits_ms: list[float] = []

    def histogram(self) -> Histogram:
        histogram = Histogram(self.waits_ms)
        histogram.merge_encoded(self.stored)
        return histogram


def by_name(context: QueryContext, window: TimeWindow, by: WaitsBy, project: str | None) -> dict[str, Histogram]:
    """Return the first audio of the turns that began in a window, by project or stack, or together under ""."""
    minutes_since = context.minutes_since if by == "none" and project is None else None
    chosen = pieces(context, window, minutes_since=minutes_since)
    return _added_up(entry for piece in chosen for entry in _named(context, piece, by, project))


def by_stack_and_project(
    context: QueryContext, window: TimeWindow, project: str | None
) -> tuple[dict[str, Histogram], dict[str, Histogram]]:
    """Return what `by_name` returns for both, reading the turns of incomplete hours once."""
    stacks: list[tuple[str, bytes | float]] = []
    projects: list[tuple[str, bytes | float]] = []
    for piece in pieces(context, window):
        if isinstance(piece, Rows):
            for turn in _turns_in(context, piece, project):
                stacks.append((turn.stack, turn.wait_ms))
                projects.append((turn.project, turn.wait_ms))
        else:
            stacks += _named(context, piece, "stack", project)
            projects += _named(context, piece, "project", project)
    return _added_up(stacks), _added_up(projects)


def _named(context: QueryContext, piece: Piece, by: WaitsBy, project: str | None) -> Iterable[tuple[str, bytes | float]]:
    """Return names and waits. Those of complete hours and days are merged once, and again when the sums of all of them have changed."""
    if not isinstance(piece, Buckets) or by == "none" or (by == "project" and project is not None):
        return ((name, waits) for _, name, waits in _counted(context, [piece], by, project))
    key, kept = (by, project, piece), context.merged.waits
    sums = [(began, waits) for began, _, waits in _counted(context, [piece], "none", project)]
    stored = kept.pop(key, None)
    if stored is None or stored[0] != sums:
        merged_rows = _added_up((name, waits) for _, name, waits in _counted(context, [piece], by, project))
        stored = sums, [(name, histogram.encode()) for name, histogram in merged_rows.items()]
    kept[key] = stored  # the last one: that which was not used for the longest time goes first
    for oldest in list(kept)[:-_MOST_KEPT]:
        kept.pop(oldest, None)
    return stored[1]


def by_step(context: QueryContext, window: TimeWindow, step_s: int, project: str | None) -> dict[int, Histogram]:
    """Return the first audio by steps of `step_s` seconds, counted from 1970."""
    minutes_since = context.minutes_since if project is None and step_s % MINUTE_S == 0 else None
    if step_s >= HOUR_S:
        chosen = pieces(context, window, "day" if step_s >= 24 * HOUR_S else "hour", minutes_since=minutes_since)
    else:
        since, until = window.since or 0.0, inf if window.until is None else window.until
        chosen = minutes_and_records(since, until, minutes_since)
    return _added_up((int(began // step_s), waits) for began, _, waits in _counted(context, chosen, "none", project))


def _added_up(entries: Iterable[tuple[K, bytes | float]]) -> dict[K, Histogram]:
    """Return the histogram of each key, from stored ones and from single waits in ms."""
    rows: defaultdict[K, _Waits] = defaultdict(_Waits)
    for key, waits in entries:
        if isinstance(waits, bytes):
            rows[key].stored.append(waits)
        else:
            rows[key].waits_ms.append(waits)
    return {key: row.histogram() for key, row in rows.items()}


def _counted(
    context: QueryContext, chosen: Iterable[Piece], by: WaitsBy, project: str | None
) -> Iterator[tuple[float, str, bytes | float]]:
    """Yield the time of each entry in Unix seconds, its name, and its waits: a stored histogram, or one wait in ms."""
    for piece in chosen:
        if isinstance(piece, Rows):
            for turn in _turns_in(context, piece, project):
                yield turn.began, _name(by, turn.project, turn.stack), turn.wait_ms
            continue
        grain: WaitGrain = "minute" if isinstance(piece, Minutes) else piece.grain
        since, until = -(2**62) if piece.first is None else piece.first, 2**62 if piece.last is None else piece.last
        if by == "stack":
            sql = _BY_STACK
        elif by == "project" and project is None:
            sql = _BY_PROJECT
        else:
            sql = _EXACT
        bindings = {"since": since, "until": until, "project": project or ALL, "stack": ALL}
        for bucket, owner, stack, waits in context.db.execute(sql[grain], bindings):
            yield bucket * SECONDS[grain], _name(by, owner, stack), waits


def _turns_in(context: QueryContext, piece: Rows, project: str | None) -> Iterator[TurnWait]:
    """Yield the turns that began in a stretch of time; those from before their own rows were kept from their records."""
    kept_since = float(context.minutes_since * MINUTE_S)
    if piece.since < kept_since:
        yield from _in_records(context.db, Rows(piece.since, min(piece.until, kept_since)), project)
    bindings = {"since": max(piece.since, kept_since), "until": min(piece.until, 1e300), "project": project}
    for row in context.db.execute(_TURN_WAITS, bindings):
        yield TurnWait(*row)


def _name(by: WaitsBy, project: str, stack: str) -> str:
    return project if by == "project" else stack if by == "stack" else ""


def _of_turns(db: SqlConnection, keys: Sequence[_TurnKey], piece: Rows) -> Iterator[TurnWait]:
    """Yield the first audio of turns that have sound about then, with few statements: each may look into many days of records."""
    for at in range(0, len(keys), _TURNS_AT_ONCE):
        some = keys[at : at + _TURNS_AT_ONCE]
        ids = [turn_id for turn_id, _, _ in some]
        ids += ids[-1:] * (_TURNS_AT_ONCE - len(ids))  # one text of the statement, however many there are
        rows: defaultdict[_TurnKey, list[Any]] = defaultdict(list)
        for turn_id, session_id, project, *row in db.execute(_TURNS_ROWS, (*ids, piece.since - _LONGEST_S, piece.until + _LONGEST_S)):
            rows[turn_id, session_id, project].append(row)
        for key in some:
            if (result := turn_of(rows[key], key[2])) is not None:
                yield result


def _in_records(db: SqlConnection, piece: Rows, project: str | None) -> Iterator[TurnWait]:
    """Yield the turns that began in a stretch of time, from their records."""
    bindings = {"since": piece.since, "until": piece.until + _LONG_S, "project": project}
    keys: list[_TurnKey] = [tuple(row) for row in db.execute(_TURNS, bindings)]
    for turn in _of_turns(db, keys, piece):
        if piece.since <= turn.began < piece.until:
            yield turn

