"""Queries of sessions: conversations, whose requests share session id and project. See `gw.store.queries` for the arguments.

A list of sessions reads few columns of their requests: the others keep the record's defaults.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import apsw
import msgspec

from gw.store import requests
from gw.store.group_starts import SESSION, StartSearch, newest_groups
from gw.store.latency import QueryContext
from gw.store.queries import NoSuchRecord, TurnFilter
from gw.store.requests import heard_speech
from gw.store.sql_connection import SqlConnection
from gw.types.usage import RequestRecord, Usage

MOST_REQUESTS = 10_000
"""Requests that are read of one session, the first ones: an app may give all its requests one id."""
_OF_SESSION = "indexed by requests_session_id where session_id = ? and project = ? order by timestamp, seq limit ?"
_AT_ONCE = 50  # sessions read by one statement: with days of records apart, each statement looks into all of them
_FIGURES = f"""
select * from (
  select session_id, project, row_number() over (partition by session_id, project order by timestamp, seq) as place,
       id, timestamp, modality, model_id, status, total_latency_ms, ttfb_ms, cost_nusd, pricing_source, wasted_nusd, stream,
       turn_id, heard, refused, fallback_from,
       coalesce(nullif(audio_seconds, 0), json_extract(measured, '$.audio_seconds'), 0.0) as audio_seconds
  from requests indexed by requests_session_id where session_id in ({", ".join("?" * _AT_ONCE)})) r
where place <= ? order by place"""
_NEWEST = """
select project from requests indexed by requests_session_id
where session_id = :session_id and (:project is null or project = :project) order by timestamp desc, seq desc limit 1"""


class SessionFilter(TurnFilter, frozen=True, kw_only=True):
    """Conditions that a session must all meet."""

    id_part: str | None = None
    """Beginning of the id."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """`requests` in order of time, at least one. `is_cut`: it has more than MOST_REQUESTS."""

    session_id: str
    project: str
    requests: tuple[RequestRecord, ...]
    is_cut: bool


def newest_sessions(context: QueryContext, limit: int, before: str | None, wanted: SessionFilter) -> list[Session]:
    """Return the sessions that began last, the newest first. `before`: the first request of one. Raises NoSuchRecord."""
    return _with_figures(context.db, _keys(context, limit, before, wanted))


def all_sessions(context: QueryContext, most: int, wanted: SessionFilter) -> list[Session] | None:
    """Return all sessions that pass the filter, the newest first; None if there are more than `most`."""
    keys = _keys(context, most + 1, None, wanted)
    return None if len(keys) > most else _with_figures(context.db, keys)


def _keys(context: QueryContext, limit: int, before: str | None, wanted: SessionFilter) -> list[tuple[str, str]]:
    """Return (session id, project) of each."""
    conditions, index = [], "time"
    if wanted.project is not None:
        conditions.append("project = :project")
        index = "project"
    part = wanted.id_part or ""
    if part:
        conditions.append("session_id >= :part and session_id < :part_end")
        index = "session_id"
    place = None if before is None else requests.place(context.db, before)
    if before is not None and place is None:
        raise NoSuchRecord(before)
    search = StartSearch(
        group=SESSION, index=index, conditions=conditions, since=wanted.since, until=wanted.until, before=place, trouble=wanted.trouble,
        bindings={"project": wanted.project, "part": part, "part_end": part + chr(0x10FFFF)},
    )  # fmt: skip
    return newest_groups(context.db, search, limit)


def session(context: QueryContext, session_id: str, project: str | None) -> Session | None:
    """Return a session with its complete records; if several projects use the id, that of the last use."""
    bindings = {"session_id": session_id, "project": project}
    for (owner,) in context.db.execute(_NEWEST, bindings):
        rows = context.db.execute(f"{requests.SELECT} {_OF_SESSION}", (session_id, owner, MOST_REQUESTS + 1))
        return _session(session_id, owner, [requests.record_of(row) for row in rows])
    return None


def _session(session_id: str, project: str, records: list[RequestRecord]) -> Session:
    counted = tuple(records[:MOST_REQUESTS])
    return Session(session_id=session_id, project=project, requests=counted, is_cut=len(records) > MOST_REQUESTS)


def _with_figures(db: SqlConnection, keys: Sequence[tuple[str, str]]) -> list[Session]:
    records: defaultdict[tuple[str, str], list[RequestRecord]] = defaultdict(list)
    different = list(dict.fromkeys(session_id for session_id, _ in keys))
    for at in range(0, len(different), _AT_ONCE):
        ids = different[at : at + _AT_ONCE]
        ids += ids[-1:] * (_AT_ONCE - len(ids))  # one text of the statement, however many there are
        for session_id, project, _, *row in db.execute(_FIGURES, (*ids, MOST_REQUESTS + 1)):
            records[session_id, project].append(_figures(session_id, project, *row))
    return [_session(session_id, project, records[session_id, project]) for session_id, project in keys]


def _figures(session_id: str, project: str, *row: apsw.SQLiteValue) -> RequestRecord:
    """Return a record of the columns of `_FIGURES`, without a check of their types: they are those of the table."""
    (
        record_id, timestamp, modality, model_id, status, total_ms, ttfb_ms, cost, pricing_source, wasted, stream, turn_id, heard,
        refused, fallback_from, audio_seconds,
    ) = row  # fmt: skip
    values: dict[str, object] = {
        "id": record_id, "timestamp": timestamp, "modality": modality, "model_id": model_id, "status": status,
        "total_latency_ms": total_ms, "ttfb_ms": ttfb_ms, "cost_nusd": cost, "pricing_source": pricing_source,
        "wasted_nusd": wasted, "turn_id": turn_id, "fallback_from": fallback_from,
    }  # fmt: skip
    return RequestRecord(
        project=project, provider="", requested_model="", session_id=session_id, stream=bool(stream),
        refused=bool(refused), heard=heard_speech(heard),
        usage=Usage(audio_seconds=audio_seconds), **values,  # type: ignore[arg-type]  # the columns' types
    )  # fmt: skip
