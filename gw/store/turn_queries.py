"""SQL of turns: the requests of one exchange in a conversation (listen, think, speak), which carry one turn id.

Clients choose turn ids, so two sessions or projects may use the same one: requests of one turn share all three.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw
import attrs

from gw.store import requests
from gw.types.usage import RequestRecord

MOST_REQUESTS = 200  # requests that are read of one turn, the first ones; an app may give all its requests one id

_FIRST_REQUESTS = """
select turn_id, session_id, project from requests t indexed by requests_{index}
where turn_id is not null {project} {before} and not exists (
  select 1 from requests p indexed by requests_turn_id
  where p.turn_id = t.turn_id and p.session_id is t.session_id and p.project = t.project
    and p.timestamp <= t.timestamp and (p.timestamp < t.timestamp or p.seq < t.seq))
order by timestamp desc, seq desc limit :limit"""
_BEFORE = "and timestamp <= :timestamp and (timestamp < :timestamp or seq < :seq)"

_REQUESTS = (
    requests.SELECT
    + """
indexed by requests_turn_id where turn_id = ? and session_id is ? and project = ? order by timestamp, seq limit ?"""
)

_NEWEST = """
select session_id, project from requests indexed by requests_turn_id
where turn_id = :turn_id and (:project is null or project = :project) and (:session_id is null or session_id = :session_id)
order by timestamp desc, seq desc limit 1"""


_JOIN = """
update requests set turn_id = ?, session_id = coalesce(session_id, ?) where id = ? and project = ? and turn_id is null"""


@attrs.frozen(kw_only=True)
class Turn:
    """`requests` in order of time, at least one."""

    turn_id: str
    session_id: str | None
    project: str
    requests: tuple[RequestRecord, ...]


def join(db: apsw.Connection, records: Iterable[RequestRecord]) -> None:
    """Give the earlier records named by `records` their turn. Within the caller's transaction."""
    joined = [
        (record.turn_id, record.session_id, earlier, record.project)
        for record in records
        if record.earlier
        for earlier in record.earlier
    ]
    if joined:
        db.executemany(_JOIN, joined)


def page(db: apsw.Connection, *, limit: int, before: tuple[float, int] | None, project: str | None) -> list[Turn]:
    """Return the turns that began last, the newest first; `before`: the `requests.place` of a turn's first request."""
    sql = _FIRST_REQUESTS.format(
        index="turns" if project is None else "project",
        project="" if project is None else "and project = :project",
        before="" if before is None else _BEFORE,
    )
    timestamp, seq = before or (0.0, 0)
    bindings = {"limit": limit, "project": project, "timestamp": timestamp, "seq": seq}
    keys = list(db.execute(sql, bindings))
    return [_turn(db, *key) for key in keys]


def find(db: apsw.Connection, turn_id: str, *, project: str | None, session_id: str | None) -> Turn | None:
    """Return the turn; if several sessions or projects use the id, that of the last use."""
    bindings = {"turn_id": turn_id, "project": project, "session_id": session_id}
    for session, owner in db.execute(_NEWEST, bindings):
        return _turn(db, turn_id, session, owner)
    return None


def _turn(db: apsw.Connection, turn_id: str, session_id: str | None, project: str) -> Turn:
    rows = db.execute(_REQUESTS, (turn_id, session_id, project, MOST_REQUESTS))
    records = tuple(requests.record_of(row) for row in rows)
    return Turn(turn_id=turn_id, session_id=session_id, project=project, requests=records)
