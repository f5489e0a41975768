"""First audio: the wait from a caller's last word to the first sound of the answer, once for each turn.

It is a quantity of a turn, not of a request: the turn begins with the end of the caller's speech (`HeardSpeech.ended_at`), or
with its first request where no live transcription is known. A turn counts when its first request of speech is committed, in
the transaction that inserts it, in the UTC hour and day in which the turn began. Requests of the turn that are committed later
begin later, so they do not change it.

A bucket has a row for each project and stack of models, and sums of them: for each project, for each stack, and for all. Projects and
stacks can be many, so a report of a month would else merge a hundred thousand rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from gw.store.requests import heard_speech
from gw.store.rollups import SPAN, Grain
from gw.store.sql_connection import SqlConnection
from gw.store.windows import HOUR_S, Buckets, Rows, TimeWindow, pieces
from gw.telemetry.histogram import Histogram
from gw.types.usage import RequestRecord

WaitsBy = Literal["none", "project", "stack"]
TABLES: Mapping[Grain, str] = {"hour": "first_audio_hour", "day": "first_audio_day"}
_SECONDS: Mapping[Grain, int] = {"hour": HOUR_S, "day": 24 * HOUR_S}
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
_TIMES = """
select case when heard_at < timestamp then heard_at else timestamp end, sound from (
  select min(timestamp) as timestamp, min(case when modality = 'tts' then timestamp + ttfb_ms / 1000.0 end) as sound,
         min((select min(json_extract(value, '$.ended_at')) from json_each(heard))) as heard_at
  from requests indexed by requests_time
  where timestamp >= :since and timestamp < :until and turn_id is not null and (:project is null or project = :project)
  group by turn_id, session_id, project) r
where sound is not null"""
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
NewWaits = Mapping[tuple[Grain, int, str, str], list[float]]
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


def with_sound(records: Iterable[RequestRecord]) -> list[RequestRecord]:
    """Return the records that may have the first sound of a turn."""
    return [record for record in records if record.modality == "tts" and record.ttfb_ms is not None and record.turn_id is not None]


def new_waits(fresh: Iterable[RequestRecord], rows_of: Callable[[_TurnKey], Iterable[Any]]) -> NewWaits:
    """Return the waits of the turns whose first sound is among newly inserted records, which `with_sound` has chosen.

    `rows_of` returns a turn's requests in order of time, see `_wait`.
    """
    fresh = list(fresh)
    ids = frozenset(record.id for record in fresh)
    waits: defaultdict[tuple[Grain, int, str, str], list[float]] = defaultdict(list)
    for turn_id, session_id, project in dict.fromkeys((r.turn_id, r.session_id, r.project) for r in fresh):
        assert turn_id is not None
        found, counted = _wait(rows_of((turn_id, session_id, project)), project, ids)
        if found is not None and not counted:
            for grain, seconds in _SECONDS.items():
                for owner, stack in ((project, found.stack), (project, ALL), (ALL, found.stack), (ALL, ALL)):
                    waits[grain, int(found.began // seconds), owner, stack].append(found.wait_ms)
    return waits


def add(db: SqlConnection, records: Iterable[RequestRecord]) -> None:
    """Count the turns whose first sound is among newly inserted records. Within the caller's transaction."""
    waits = new_waits(with_sound(records), lambda key: db.execute(_TURN, key))
    for (grain, bucket, project, stack), values in waits.items():
        key, histogram = (bucket, project, stack), Histogram(values)
        for (stored,) in db.execute(f"select waits from {TABLES[grain]} where bucket = ? and project = ? and stack = ?", key):
            histogram.merge_encoded([stored])
        db.execute(f"insert or replace into {TABLES[grain]} values (?, ?, ?, ?)", (*key, histogram.encode()))


def merged(stored: Iterable[bytes]) -> Histogram:
    histogram = Histogram()
    histogram.merge_encoded(stored)
    return histogram


# ---- reading


def by_name(db: SqlConnection, window: TimeWindow, by: WaitsBy, project: str | None) -> dict[str, Histogram]:
    """Return the first audio of the turns that began in a window, by project or stack, or together under ""."""
    rows: defaultdict[str, Histogram] = defaultdict(Histogram)
    for _, name, histogram in _counted(db, pieces(db, window), by, project):
        rows[name].merge(histogram)
    return dict(rows)


def by_step(db: SqlConnection, window: TimeWindow, step_s: int, project: str | None) -> dict[int, Histogram]:
    """Return the first audio by steps of `step_s` seconds, counted from 1970. Steps below an hour are made of records."""
    if step_s >= HOUR_S:
        chosen = pieces(db, window, "day" if step_s >= 24 * HOUR_S else "hour")
    else:
        return _times(db, window.since or 0.0, float("inf") if window.until is None else window.until, step_s, project)
    rows: defaultdict[int, Histogram] = defaultdict(Histogram)
    for began, _, histogram in _counted(db, chosen, "none", project):
        rows[int(began // step_s)].merge(histogram)
    return dict(rows)


def _times(db: SqlConnection, since: float, until: float, step_s: int, project: str | None) -> dict[int, Histogram]:
    """Return the first audio by steps from records alone, in one statement: there are thousands of turns in a day."""
    waits: defaultdict[int, list[float]] = defaultdict(list)
    bindings = {"since": since - _LONG_S, "until": until + _LONG_S, "project": project}
    for began, sound in db.execute(_TIMES, bindings):
        if since <= began < until:
            waits[int(began // step_s)].append(max(0.0, sound - began) * 1_000)
    return {bucket: Histogram(values) for bucket, values in waits.items()}


def _counted(
    db: SqlConnection, chosen: Iterable[Buckets | Rows], by: WaitsBy, project: str | None
) -> Iterator[tuple[float, str, Histogram]]:
    """Yield the time of each entry in Unix seconds, its name and its waits."""
    for piece in chosen:
        if isinstance(piece, Rows):
            for one in _in_records(db, piece, project):
                yield one.began, _name(by, one.project, one.stack), Histogram([one.wait_ms])
            continue
        since, until = -(2**62) if piece.first is None else piece.first, 2**62 if piece.last is None else piece.last
        if by == "stack":
            sql = _BY_STACK
        elif by == "project" and project is None:
            sql = _BY_PROJECT
        else:
            sql = _EXACT
        bindings = {"since": since, "until": until, "project": project or ALL, "stack": ALL}
        for bucket, owner, stack, waits in db.execute(sql[piece.grain], bindings):
            yield bucket * _SECONDS[piece.grain], _name(by, owner, stack), merged([waits])


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
            found, _ = _wait(rows[key], key[2], frozenset())
            if found is not None:
                yield found


def _in_records(db: SqlConnection, piece: Rows, project: str | None) -> Iterator[TurnWait]:
    """Yield the turns that began in a stretch of time, from their records."""
    bindings = {"since": piece.since, "until": piece.until + _LONG_S, "project": project}
    keys: list[_TurnKey] = [tuple(row) for row in db.execute(_TURNS, bindings)]
    for found in _of_turns(db, keys, piece):
        if piece.since <= found.began < piece.until:
            yield found
