"""Rows of records that get a turn which became known after they were written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from gw.store.sql_connection import SqlConnection
from gw.types.usage import RequestRecord

_JOIN = """
update requests set turn_id = ?, session_id = coalesce(session_id, ?), heard = coalesce(?, heard)
where id = ? and project = ? and (turn_id is null or turn_id = ? and heard is null and ? is not null) returning id"""


class JoinedRow(NamedTuple):
    """A stored record that gets a turn."""

    turn_id: str | None
    session_id: str | None
    heard: str | None
    id: str
    project: str


def joined_rows(records: Iterable[RequestRecord], again: Iterable[RequestRecord]) -> list[JoinedRow]:
    """Return the rows that get a turn: the earlier records named by `records`, and those that are written `again`, for their turn."""
    rows = [
        JoinedRow(one.turn_id, one.session_id, msgspec.json.encode(one.heard).decode() if one.heard else None, one.id, one.project)
        for one in again if one.turn_id is not None
    ]  # fmt: skip
    known = {row.id for row in rows}  # which say more
    rows += [
        JoinedRow(one.turn_id, one.session_id, None, id_, one.project) for one in records for id_ in one.earlier or () if id_ not in known
    ]  # fmt: skip
    return rows


def written_again(records: Sequence[RequestRecord], fresh: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Return the records that were there before."""
    if len(fresh) == len(records):
        return []
    new = {id(record) for record in fresh}
    return [record for record in records if id(record) not in new]


def join_turns(db: SqlConnection, rows: Iterable[JoinedRow]) -> set[str]:
    """Give stored records their turn, unless they have another one; return the ids of those. Within the caller's transaction."""
    return {id_ for row in rows for (id_,) in db.execute(_JOIN, (*row, row.turn_id, row.heard))}
