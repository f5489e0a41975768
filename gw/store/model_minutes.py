"""SQL of the times by minute and model, of all projects together: for the line of one model over a day, and for the comparison of models.

They change in the transaction that inserts the records, and go with them, as the sums by minute do (`gw.store.minute_sums`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gw.store.latency import LatencyGroup
from gw.store.minute_sums import MINUTE_S, OLDEST_MINUTE, Minutes
from gw.store.requests import bounded_float
from gw.store.rollups import SPAN
from gw.store.row_times import RecentRows, RowTimes
from gw.store.sql_connection import SqlConnection
from gw.types.usage import RequestRecord

TABLE = "model_minute"
KEYS = ("bucket", "model_id", "provider", "modality")
SUMS = ("requests",)
BLOBS = ("ttfb", "latency")
_ALL = (*KEYS, *SUMS, *BLOBS)
_FIND = f"select ttfb, latency from {TABLE} where {' and '.join(f'{key} = ?' for key in KEYS)}"
_ADD = f"""
insert into {TABLE} ({", ".join(_ALL)}) values ({", ".join("?" * len(_ALL))})
on conflict ({", ".join(KEYS)}) do update set requests = requests + excluded.requests, ttfb = excluded.ttfb, latency = excluded.latency"""
_DELETE_EMPTY = f"delete from {TABLE} where {' and '.join(f'{key} = ?' for key in KEYS)} and requests = 0"
_PRUNE = f"delete from {TABLE} where bucket < {OLDEST_MINUTE}"
_COLUMNS = "select r.bucket, r.provider, r.model_id, r.modality, r.requests, r.ttfb, r.latency"
_GROUPS = f"{_COLUMNS} from {TABLE} r where bucket between :since and :until and requests <> 0"
_OF_MODEL = f"""{SPAN.format(table=TABLE)} {_COLUMNS} from span
cross join {TABLE} r on r.bucket = span.bucket and r.model_id = :model_id where requests <> 0"""
"""One seek per minute: the key begins with the minute, so a range of minutes holds all models."""

Key = tuple[int, str, str, str]
"""Minute since 1970 (UTC), model id, provider and modality."""


class ModelMinute(RowTimes):
    """Values that a batch adds to one row."""

    __slots__ = ("sums",)

    def __init__(self) -> None:
        super().__init__()
        self.sums = [0]


# ---- writing


def by_minute(records: Iterable[RequestRecord]) -> dict[Key, ModelMinute]:
    """Return what records add to each row."""
    minutes: dict[Key, ModelMinute] = {}
    for record in records:
        key = (int(bounded_float(record.timestamp) // MINUTE_S), record.model_id, record.provider, record.modality)
        group = minutes.get(key)
        if group is None:
            group = minutes[key] = ModelMinute()
        group.sums[0] += 1
        group.add_times(record)
    for group in minutes.values():
        group.fill_histograms()
    return minutes


def negated(minutes: Mapping[Key, ModelMinute]) -> Mapping[Key, ModelMinute]:
    for group in minutes.values():
        group.sums[0] = -group.sums[0]
    return minutes


def add(db: SqlConnection, records: Iterable[RequestRecord], recent: RecentRows) -> None:
    """Add newly inserted records. Within the caller's transaction."""
    _upsert(db, by_minute(records), recent)


def subtract(db: SqlConnection, records: Iterable[RequestRecord], recent: RecentRows) -> None:
    """Take deleted records without times (interrupted ones have none) out of the rows. Within the caller's transaction."""
    minutes = negated(by_minute(records))
    _upsert(db, minutes, recent)
    db.executemany(_DELETE_EMPTY, minutes)


def _upsert(db: SqlConnection, minutes: Mapping[Key, ModelMinute], recent: RecentRows) -> None:
    for key, group in minutes.items():
        ends_at = (key[0] + 1) * MINUTE_S
        blobs = recent.add(TABLE, ends_at, key, group.histograms)
        if blobs is None:
            blobs = recent.read(TABLE, ends_at, key, group.histograms, db.execute(_FIND, key))
        db.execute(_ADD, (*key, *group.sums, *blobs))


def prune(db: SqlConnection) -> None:
    """Delete the minutes before the oldest record."""
    db.execute(_PRUNE)


# ---- reading


def groups(db: SqlConnection, span: Minutes, model_id: str | None) -> Iterable[LatencyGroup]:
    """Return the rows of minutes, of one model or of all."""
    last = 2**62 if span.last is None else span.last
    bindings = {"since": span.first, "until": last, "model_id": model_id}
    return map(LatencyGroup._make, db.execute(_GROUPS if model_id is None else _OF_MODEL, bindings))
