"""Turns and sessions in the order in which they began, the newest first. Both are requests that share ids.

Where the log is divided by days, as in PostgreSQL, each day has an index of its ids, so a look-up goes through all days. Therefore many ids
are looked up by one statement, after a piece of the log has been read back in time.

With a filter for trouble, the requests that had some come first: in ever longer times before the newest request, until enough of
their turns have begun within such a time; any other one began before it. Where that would be too many, since a page is far back
in time, the log is read back as without a filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from gw.store.sql_connection import SqlConnection

INTERRUPTED = "status = 'cancelled' and modality <> 'stt'"
TROUBLES = {
    "error": "status = 'error' and not refused",
    "fallback": "(status = 'fallback' or fallback_from is not null)",
    "interruption": INTERRUPTED,
    "any": f"(status = 'error' and not refused or status = 'fallback' or fallback_from is not null or {INTERRUPTED})",
}
"""Name of a filter of turns and sessions → condition that one of their requests must meet. None of them has the status `success`."""

GroupKey: TypeAlias = tuple[Any, ...]
"""Values of the group's columns."""
Place: TypeAlias = tuple[float, int]
"""Position in the log: timestamp, seq."""

_BEFORE = "timestamp <= :before_timestamp and (timestamp < :before_timestamp or seq < :before_seq)"
EXTENT = "select (select max(timestamp) from requests), (select min(timestamp) from requests)"
"""Two look-ups in the index; SQLite reads all of it for both in one select."""
_LOOK_UPS = (50, 500)  # ids of one statement: few texts, however many ids there are
_FIRST_S, _LONGER = 60.0, 4  # the first time that is searched for trouble, and how much longer the next one is
_MOST_TROUBLED = 1_000
_FEWEST_ROWS, _MOST_ROWS = 64, 2_000  # read back at once


class RequestGroup(msgspec.Struct, frozen=True):
    columns: tuple[str, ...]
    """Ids that the requests share. The first one has an index."""

    @property
    def names(self) -> str:
        return ", ".join(self.columns)


TURN = RequestGroup(("turn_id", "session_id", "project"))
SESSION = RequestGroup(("session_id", "project"))


class _Start(NamedTuple):
    place: Place
    is_troubled: bool


class StartSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A search for groups. `index`: of the log, to read it back. `conditions`: of all requests of a group, with `bindings`."""

    group: RequestGroup
    index: str
    conditions: Sequence[str] = ()
    bindings: Mapping[str, object] = msgspec.field(default_factory=dict)
    since: float | None = None
    until: float | None = None
    before: Place | None = None
    trouble: str | None = None
    """Name in TROUBLES."""

    def begins_within(self, place: Place) -> bool:
        timestamp, _ = place
        return (
            (self.since is None or timestamp >= self.since)
            and (self.until is None or timestamp < self.until)
            and (self.before is None or place < self.before)
        )


def newest_groups(db: SqlConnection, search: StartSearch, limit: int) -> list[GroupKey]:
    """Return the keys of at most `limit` groups."""
    if search.trouble is not None and (keys := _of_troubled(db, search, limit)) is not None:
        return keys
    return _read_back(db, search, limit)


def _of_troubled(db: SqlConnection, search: StartSearch, limit: int) -> list[GroupKey] | None:
    """Find groups by their requests with trouble; None if these are too many."""
    newest, oldest = db.execute(EXTENT).get
    if newest is None:
        return []
    floor = oldest if search.since is None else max(oldest, search.since)
    assert search.trouble is not None
    conditions = [
        f"{search.group.columns[0]} is not null", "status in ('error', 'fallback', 'cancelled') and status <> 'success'",
        TROUBLES[search.trouble], "timestamp >= :low and timestamp <= :high", *search.conditions,
    ]  # fmt: skip
    sql = f"select {search.group.names} from requests indexed by requests_unusual where {' and '.join(conditions)} limit :most"
    starts: dict[GroupKey, _Start] = {}
    troubled: dict[GroupKey, None] = {}
    top = newest if search.before is None else min(newest, search.before[0])
    high, length, left = newest, 0.0 if top < newest else _FIRST_S, _MOST_TROUBLED
    while True:
        low = max(floor, top - length)
        rows = list(db.execute(sql, {**search.bindings, "low": low, "high": high, "most": left + 1}))
        left -= len(rows)
        if left < 0:
            return None
        troubled |= dict.fromkeys(map(tuple, rows))
        starts |= _starts(db, search.group, [key for key in troubled if key not in starts], None)
        places = {key: starts[key].place for key in troubled if key in starts}
        passing = {key: place for key, place in places.items() if search.begins_within(place)}
        if low <= floor or sum(timestamp >= low for timestamp, _ in passing.values()) >= limit:
            return sorted(passing, key=passing.__getitem__, reverse=True)[:limit]
        high, length = low, max(_FIRST_S, length * _LONGER)


def _read_back(db: SqlConnection, search: StartSearch, limit: int) -> list[GroupKey]:
    trouble = None if search.trouble is None else TROUBLES[search.trouble]
    starts: dict[GroupKey, _Start] = {}
    groups: list[GroupKey] = []
    before, at_once = search.before, max(_FEWEST_ROWS, min(4 * limit, _MOST_ROWS))
    while True:
        rows = list(db.execute(*_piece(search, before, at_once)))
        keys = dict.fromkeys(tuple(row[:-2]) for row in rows)
        starts |= _starts(db, search.group, [key for key in keys if key not in starts], trouble)
        for *key, timestamp, seq in rows:
            start = starts.get(tuple(key))
            if start is not None and start.place == (timestamp, seq) and (trouble is None or start.is_troubled):
                groups.append(tuple(key))
                if len(groups) == limit:
                    return groups
        if len(rows) < at_once:
            return groups
        before, at_once = (rows[-1][-2], rows[-1][-1]), min(2 * at_once, _MOST_ROWS)


def _piece(search: StartSearch, before: Place | None, rows: int) -> tuple[str, dict[str, object]]:
    """Return the statement that reads rows back from a place, the newest first, and its values."""
    conditions, bindings = [f"{search.group.columns[0]} is not null", *search.conditions], {**search.bindings, "rows": rows}
    for name, condition in (("since", "timestamp >= :since"), ("until", "timestamp < :until")):
        if (value := getattr(search, name)) is not None:
            conditions.append(condition)
            bindings[name] = value
    if before is not None:
        conditions.append(_BEFORE)
        bindings |= {"before_timestamp": before[0], "before_seq": before[1]}
    source = f"requests indexed by requests_{search.index} where {' and '.join(conditions)}"
    return f"select {search.group.names}, timestamp, seq from {source} order by timestamp desc, seq desc limit :rows", bindings


def _starts(db: SqlConnection, group: RequestGroup, keys: Iterable[GroupKey], trouble: str | None) -> dict[GroupKey, _Start]:
    """Return when groups began, and whether one of their requests meets the condition. Other groups with the same first id come too."""
    different, starts = list(dict.fromkeys(key[0] for key in keys)), {}
    while different:
        size = next((size for size in _LOOK_UPS if len(different) <= size), _LOOK_UPS[-1])
        ids, different = different[:size], different[size:]
        ids += ids[-1:] * (size - len(ids))
        together = f"partition by {group.names}"
        sql = f"""
select * from (
  select {group.names}, timestamp, seq, max(case when {trouble or "1 = 0"} then 1 else 0 end) over ({together}) as troubled,
       row_number() over ({together} order by timestamp, seq) as place
  from requests indexed by requests_{group.columns[0]} where {group.columns[0]} in ({", ".join("?" * size)})) r
where place = 1"""
        for *key, timestamp, seq, troubled, _ in db.execute(sql, ids):
            starts[tuple(key)] = _Start((timestamp, seq), bool(troubled))
    return starts
