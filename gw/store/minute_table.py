"""Tables of sums and times by minute, of all projects together. See `minute_sums` and `model_minutes` for what is in their rows.

They change in the transaction that inserts the records. Rows of minutes whose records are deleted go with them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from gw.store.requests import bounded_float
from gw.store.row_times import RecentRows, RowTimes
from gw.store.sql_connection import SqlConnection
from gw.types.usage import RequestRecord

MINUTE_S: Final = 60
OLDEST_MINUTE: Final = f"(select cast(timestamp as integer) / {MINUTE_S} from requests order by timestamp limit 1)"
"""Minute of the oldest record, in SQL."""
_BLOBS = ("ttfb", "latency")


class Minutes(msgspec.Struct, frozen=True):
    """Minutes since 1970 (UTC), both ends included; without an end, all that follow."""

    first: int
    last: int | None


class MinuteRow(RowTimes):
    """Values that a batch adds to one row."""

    __slots__ = ("sums",)

    def __init__(self, sums: int) -> None:
        super().__init__()
        self.sums: Sequence[int] = [0] * sums


Key = tuple[Any, ...]
"""Minute since 1970 (UTC), and what else the key of the table has."""


class MinuteTable:
    def __init__(
        self, name: str, *, keys: Sequence[str], sums: Sequence[str],
        key_of: Callable[[RequestRecord], tuple[str, ...]], values_of: Callable[[RequestRecord], Sequence[int]],
    ) -> None:  # fmt: skip
        """`keys` are the columns after `bucket`, the minute, and `key_of` gives them; `values_of` gives what a record adds to `sums`."""
        self.name = name
        self.keys = ("bucket", *keys)
        self.sums = tuple(sums)
        self.columns = (*self.keys, *self.sums, *_BLOBS)
        self._key_of, self._values_of = key_of, values_of
        of_key = " and ".join(f"{key} = ?" for key in self.keys)
        added = [*(f"{each} = {each} + excluded.{each}" for each in sums), *(f"{blob} = excluded.{blob}" for blob in _BLOBS)]
        self._find = f"select {', '.join(_BLOBS)} from {name} where {of_key}"
        self._add = f"""
insert into {name} ({", ".join(self.columns)}) values ({", ".join("?" * len(self.columns))})
on conflict ({", ".join(self.keys)}) do update set {", ".join(added)}"""
        self._delete_empty = f"delete from {name} where {of_key} and requests = 0"
        self._prune = f"delete from {name} where bucket < {OLDEST_MINUTE}"

    def by_minute(self, records: Iterable[RequestRecord]) -> dict[Key, MinuteRow]:
        """Return what records add to each row."""
        rows: dict[Key, MinuteRow] = {}
        for record in records:
            key = (int(bounded_float(record.timestamp) // MINUTE_S), *self._key_of(record))
            row = rows.get(key)
            if row is None:
                row = rows[key] = MinuteRow(len(self.sums))
            row.sums = [*map(operator.add, row.sums, self._values_of(record))]
            row.add_times(record)
        for row in rows.values():
            row.fill_histograms()
        return rows

    def taken_by_minute(self, records: Iterable[RequestRecord]) -> dict[Key, MinuteRow]:
        """Return what records without times take out of each row: the negative of what they added."""
        rows = self.by_minute(records)
        for row in rows.values():
            row.sums = [-value for value in row.sums]
        return rows

    def add(self, db: SqlConnection, records: Iterable[RequestRecord], recent: RecentRows) -> None:
        """Add newly inserted records. Within the caller's transaction."""
        self._upsert(db, self.by_minute(records), recent)

    def subtract(self, db: SqlConnection, records: Iterable[RequestRecord], recent: RecentRows) -> None:
        """Take deleted records without times (interrupted ones have none) out of the rows. Within the caller's transaction."""
        rows = self.taken_by_minute(records)
        self._upsert(db, rows, recent)
        db.executemany(self._delete_empty, rows)

    def _upsert(self, db: SqlConnection, rows: Mapping[Key, MinuteRow], recent: RecentRows) -> None:
        for key, row in rows.items():
            ends_at = (key[0] + 1) * MINUTE_S
            blobs = recent.add(self.name, ends_at, key, row.histograms)
            if blobs is None:
                blobs = recent.read(self.name, ends_at, key, row.histograms, db.execute(self._find, key))
            db.execute(self._add, (*key, *row.sums, *blobs))

    def prune(self, db: SqlConnection) -> None:
        """Delete the minutes before the oldest record."""
        db.execute(self._prune)
