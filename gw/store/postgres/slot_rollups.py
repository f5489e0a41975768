"""Rollups of several gateways: each adds to rows of its own slot, and old ones are merged into slot 0.

A slot is a number that a gateway holds as a session's advisory lock. The server gives it back when the connection ends, so a killed
gateway leaves none behind. The name of an instance has its slot for good, so what it has spent today can be read.
See `gw.store.rollups` for what the rows mean.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

from gw.store import attempt_rollups, first_audio, minute_sums, model_minutes, owner_spend, rollups
from gw.store.minute_table import MINUTE_S, MinuteRow
from gw.store.owner_spend import SpendOfAll
from gw.store.postgres.pg_connection import PgConnection, storable
from gw.store.postgres.pg_schema import LOCK_COMPACTION, LOCK_SLOT, LOCKS
from gw.store.rollups import KEYS, SECONDS, SUMS, TABLES, TOTALS, TOTALS_KEYS, TOTALS_SUMS, BucketSums, Grain, Spend
from gw.store.row_times import RecentRows
from gw.store.sql_connection import SqlConnection
from gw.store.window_pieces import HOUR_S
from gw.telemetry.clock import DAY_S
from gw.telemetry.histogram import Histogram
from gw.types.usage import RequestRecord

MERGED = 0
"""Slot of the rows into which old ones are merged."""
COMPACT_AFTER_S = 2 * DAY_S
_BUCKETS = 24  # merged in one transaction
_SPEND_OF = """
select project, sum(cost_nusd + estimated_nusd), sum(estimated_nusd) from rollup_day r join slots s on s.slot = r.slot
where r.bucket = ? and s.instance = ? group by project"""
_OF_INSTANCE = """ and slot in (
    select slot from slots where instance = :instance
    union all select slot from owner_spend where slot not in (select slot from slots)
        and :instance = (select instance from slots order by slot limit 1))"""
_ATTEMPT_KEYS = ("bucket", "provider", "model_id", "next_model_id", "outcome")
_TimedSums: TypeAlias = BucketSums | MinuteRow
_AUDIO_KEYS = ("bucket", "project", "stack")


def _key_types(keys: Sequence[str]) -> str:
    return ", ".join(f"%s::{'bigint' if key == 'bucket' else 'text'}[]" for key in keys)


def _stored(table: str, keys: Sequence[str], blobs: str) -> str:
    """Return the statement that reads, and locks, the rows of a slot with these keys."""
    matching = " and ".join(f"r.{key} = k.{key}" for key in keys)
    columns = ", ".join(f"r.{key}" for key in keys)
    return f"""
select {columns}, {blobs} from {table} r join unnest({_key_types(keys)}) as k({", ".join(keys)}) on {matching}
where r.slot = %s for update of r"""


def _upsert(table: str, keys: Sequence[str], sums: Sequence[str], others: Mapping[str, str]) -> str:
    columns = (*keys, "slot", *sums, *others)
    changes = [f"{name} = r.{name} + excluded.{name}" for name in sums] + [f"{name} = {value}" for name, value in others.items()]
    return f"""
insert into {table} as r ({", ".join(columns)}) values ({", ".join(["%s"] * len(columns))})
on conflict ({", ".join(keys)}, slot) do update set {", ".join(changes)}"""


_BY_MINUTE = (minute_sums.TABLE, model_minutes.TABLE)
_MINUTES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {table.name: (table.keys, table.sums) for table in _BY_MINUTE}
_TIMED = {**dict.fromkeys(TABLES.values(), (KEYS, SUMS)), **_MINUTES}
"""Table with histograms of times → its keys and sums."""
_FIND = {table: _stored(table, keys, "ttfb, latency") for table, (keys, _) in _TIMED.items()}
_ADD = {
    table: _upsert(table, keys, sums, {"ttfb": "excluded.ttfb", "latency": "excluded.latency"})
    for table, (keys, sums) in _TIMED.items()
}
_DELETE_EMPTY = {
    table: f"delete from {table} where {' and '.join(f'{name} = %s' for name in (*KEYS, 'slot'))} and "
    + " and ".join(f"{name} = 0" for name in SUMS)
    for table in TABLES.values()
}
_ADD_TOTALS = {table: _upsert(table, TOTALS_KEYS, TOTALS_SUMS, {}) for table in TOTALS.values()}
_IN_TOTALS = tuple(SUMS.index(name) for name in TOTALS_SUMS)
_ADD_SPEND = _upsert("owner_spend", ("owner", "id", "day"), ("nusd",), {})
_FIND_AUDIO = {table: _stored(table, _AUDIO_KEYS, "waits") for table in first_audio.TABLES.values()}
_ADD_AUDIO = {table: _upsert(table, _AUDIO_KEYS, (), {"waits": "excluded.waits"}) for table in first_audio.TABLES.values()}
_LATER_ERROR = "case when excluded.last_at >= r.last_at then excluded.last_error else r.last_error end"
_LATER = {"last_error": _LATER_ERROR, "last_at": "greatest(r.last_at, excluded.last_at)"}
_ADD_ATTEMPTS = {table: _upsert(table, _ATTEMPT_KEYS, ("attempts",), _LATER) for table in attempt_rollups.TABLES.values()}


def lease_slot(db: PgConnection, instance: str) -> int:
    """Return the slot that this connection now holds: that of the instance, or, while another one has it, the lowest free one."""
    assigned = {name: slot for slot, name in db.raw.execute("select slot, instance from slots")}
    if instance in assigned and _lock_slot(db, assigned[instance]):
        return int(assigned[instance])
    taken = set(assigned.values())
    slot = next(slot for slot in count(1) if slot not in taken and _lock_slot(db, slot))
    if instance not in assigned:
        db.raw.execute("insert into slots (slot, instance) values (%s, %s) on conflict do nothing", (slot, storable(instance)))
    return slot


def _lock_slot(db: PgConnection, slot: int) -> bool:
    """Lock a slot if it is free; return whether it was."""
    return bool(db.raw.execute("select pg_try_advisory_lock(%s, %s)", (LOCKS + LOCK_SLOT, slot)).fetchall()[0][0])


def spend_of(db: SqlConnection, day: int, instance: str) -> dict[str, Spend]:
    """Return what each project spent through one instance on a UTC day that is not merged yet."""
    return {project: Spend(*sums) for project, *sums in db.execute(_SPEND_OF, (day, instance))}


def owner_spend_of(db: SqlConnection, day: int, instance: str) -> SpendOfAll:
    """Return what each project and key spent through one instance on a UTC day and before.

    What belongs to no instance, because it was copied or recorded before instances had slots, counts for the one with the lowest slot.
    """
    return owner_spend.spend_among(db, day, _OF_INSTANCE, {"instance": instance})


def _columns(keys: Collection[Sequence[Any]]) -> list[list[Any]]:
    """Return the keys as one array for each column."""
    return [list(map(storable, column)) for column in zip(*keys, strict=True)]


def _rows(db: PgConnection, sql: str, keys: Collection[Sequence[Any]], slot: int) -> list[Any]:
    return db.raw.execute(sql.encode(), (*_columns(keys), slot)).fetchall() if keys else []


def _write(db: PgConnection, sql: str, rows: Iterable[Sequence[Any]]) -> None:
    if rows := [[storable(value) for value in row] for row in rows]:
        db.raw.cursor().executemany(sql.encode(), rows)


def add(db: PgConnection, slot: int, records: Sequence[RequestRecord], recent: RecentRows) -> None:
    """Add newly inserted records. Within the caller's transaction. `recent`: of this connection."""
    hours = rollups.by_hour(records)
    days = rollups.by_day(hours)  # before the stored histograms are added
    _add_timed(db, TABLES["hour"], slot, hours, SECONDS["hour"], recent)
    _add_timed(db, TABLES["day"], slot, days, SECONDS["day"], recent)
    _add_totals(db, "hour", slot, hours)
    _add_totals(db, "day", slot, days)
    for by_minute in _BY_MINUTE:
        _add_timed(db, by_minute.name, slot, by_minute.by_minute(records), MINUTE_S, recent)
    _add_attempts(db, slot, records, 1)
    _add_spend(db, slot, records, 1)


def subtract(db: PgConnection, slot: int, records: Sequence[RequestRecord], recent: RecentRows) -> None:
    """Take deleted records without times out of the sums. Within the caller's transaction."""
    hours = rollups.by_hour(records)
    grains: tuple[tuple[Grain, dict[Any, BucketSums]], ...] = (("hour", hours), ("day", rollups.by_day(hours)))
    for grain, groups in grains:
        for group in groups.values():
            group.sums = [-value for value in group.sums]
        _add_timed(db, TABLES[grain], slot, groups, SECONDS[grain], recent)
        _write(db, _DELETE_EMPTY[TABLES[grain]], [(*key, slot) for key in groups])
        _add_totals(db, grain, slot, groups)
    for by_minute in _BY_MINUTE:
        _add_timed(db, by_minute.name, slot, by_minute.taken_by_minute(records), MINUTE_S, recent)
        db.raw.execute(f"delete from {by_minute.name} where slot = %s and requests = 0".encode(), (slot,))
    _add_attempts(db, slot, records, -1)
    _add_spend(db, slot, records, -1)
    for table in attempt_rollups.TABLES.values():
        db.raw.execute(f"delete from {table} where slot = %s and attempts = 0".encode(), (slot,))


def _add_timed(
    db: PgConnection, table: str, slot: int, groups: Mapping[Any, _TimedSums], seconds: int, recent: RecentRows
) -> None:
    """Add to the rows of `groups`, whose keys begin with a bucket of so many seconds."""
    blobs: dict[Any, list[bytes]] = {}
    unknown: dict[tuple[Any, ...], list[tuple[bytes, bytes]]] = {}
    for key, group in groups.items():
        added = recent.add(table, (key[0] + 1) * seconds, key, group.histograms)
        if added is None:
            unknown[tuple(map(storable, key))] = []
        else:
            blobs[key] = added
    for *key, ttfb, latency in _rows(db, _FIND[table], unknown.keys(), slot):
        unknown[tuple(key)].append((ttfb, latency))
    for key, group in groups.items():
        if key not in blobs:
            stored = unknown[tuple(map(storable, key))]
            blobs[key] = recent.read(table, (key[0] + 1) * seconds, key, group.histograms, stored)
    _write(db, _ADD[table], ((*key, slot, *group.sums, *blobs[key]) for key, group in groups.items()))


def _add_totals(db: PgConnection, grain: Grain, slot: int, groups: Mapping[Any, BucketSums]) -> None:
    """Add to the sums of all projects together."""
    added: dict[tuple[Any, ...], list[float]] = {}
    for (bucket, _, *key), group in groups.items():
        sums = added.setdefault((bucket, *key), [0] * len(TOTALS_SUMS))
        sums[:] = [value + group.sums[place] for value, place in zip(sums, _IN_TOTALS, strict=True)]
    _write(db, _ADD_TOTALS[TOTALS[grain]], [(*key, slot, *sums) for key, sums in added.items()])


def _add_attempts(db: PgConnection, slot: int, records: Iterable[RequestRecord], sign: int) -> None:
    for grain, rows in attempt_rollups.by_grain(attempt_rollups.counted(records)).items():
        added = [(*key, slot, sign * count, error, at) for key, (count, at, error) in rows.items()]
        _write(db, _ADD_ATTEMPTS[attempt_rollups.TABLES[grain]], added)


def _add_spend(db: PgConnection, slot: int, records: Iterable[RequestRecord], sign: int) -> None:
    _write(db, _ADD_SPEND, [(*key, slot, sign * nusd) for key, nusd in owner_spend.spend_of(records).items()])


def add_first_audio(db: PgConnection, slot: int, turns: Sequence[first_audio.TurnWait]) -> None:
    """Add the first audio of turns. Within the caller's transaction."""
    waits = first_audio.sums_of(turns)
    _write(db, first_audio.ADD_TURN.replace("?", "%s"), map(first_audio.row_of, turns))
    for grain, table in first_audio.TABLES.items():
        groups = {key: Histogram(values) for (its_grain, *key_), values in waits.items() if its_grain == grain for key in [tuple(key_)]}
        stored = {tuple(map(storable, key)): histogram for key, histogram in groups.items()}
        for *key, blob in _rows(db, _FIND_AUDIO[table], groups.keys(), slot):
            stored[tuple(key)].merge_encoded([blob])
        _write(db, _ADD_AUDIO[table], [(*key, slot, histogram.encode()) for key, histogram in groups.items()])


# ---- merging old rows


def newest_hour(db: PgConnection) -> int | None:
    """Return the last UTC hour (since 1970) with a record, None without any."""
    hour: int | None = db.raw.execute("select max(bucket) from rollup_hour").fetchall()[0][0]
    return hour


def compact(db: PgConnection, *, before: float) -> int:
    """Merge the rows of hours that ended before this time (Unix seconds) into one row each; return how many went.

    One gateway at a time does so; another returns at once.
    """
    went = 0
    for table, seconds in _BUCKET_S.items():
        while merged := _compact(db, table, int(before // seconds)):
            went += merged
    return went


def _compact(db: PgConnection, table: str, end: int) -> int:
    """Merge the rows of a few buckets before `end`; return how many went."""
    with db.raw.transaction():
        if not db.raw.execute("select pg_try_advisory_xact_lock(%s, %s)", (LOCKS, LOCK_COMPACTION)).fetchall()[0][0]:
            return 0
        chosen = f"select distinct bucket from {table} where slot <> {MERGED} and bucket < %s order by bucket limit {_BUCKETS}"
        buckets = [bucket for (bucket,) in db.raw.execute(chosen.encode(), (end,)).fetchall()]
        if not buckets:
            return 0
        keys, sums, blobs = _PARTS[table]
        columns = (*keys, *sums, *blobs)
        deleted = f"delete from {table} where slot <> {MERGED} and bucket = any(%s) returning {', '.join(columns)}"
        rows = db.raw.execute(deleted.encode(), (buckets,)).fetchall()
        if (added_up := {**_ADD_ATTEMPTS, **_ADD_TOTALS}.get(table)) is not None:
            _write(db, added_up, [(*row[: len(keys)], MERGED, *row[len(keys) :]) for row in rows])
        else:
            _merge(db, table, keys, sums, rows)
    return len(rows)


def _merge(db: PgConnection, table: str, keys: Sequence[str], sums: Sequence[str], rows: Sequence[Any]) -> None:
    find = {**_FIND, **_FIND_AUDIO}[table]
    groups: dict[tuple[Any, ...], tuple[list[Any], list[list[bytes]]]] = {}
    for row in rows:
        key, values, blobs = row[: len(keys)], row[len(keys) : len(keys) + len(sums)], row[len(keys) + len(sums) :]
        group = groups.setdefault(key, ([0] * len(sums), [[] for _ in blobs]))
        group[0][:] = map(sum, zip(group[0], values, strict=True))
        for collected, blob in zip(group[1], blobs, strict=True):
            collected.append(blob)
    for row in _rows(db, find, groups.keys(), MERGED):
        for collected, blob in zip(groups[row[: len(keys)]][1], row[len(keys) :], strict=True):
            collected.append(blob)
    merged = {key: [first_audio.merged(blobs).encode() for blobs in columns] for key, (_, columns) in groups.items()}
    add_rows = {**_ADD, **_ADD_AUDIO}[table]
    _write(db, add_rows, [(*key, MERGED, *values, *merged[key]) for key, (values, _) in groups.items()])


_PARTS: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    **{table: (*keys_and_sums, ("ttfb", "latency")) for table, keys_and_sums in _TIMED.items()},
    **dict.fromkeys(first_audio.TABLES.values(), (_AUDIO_KEYS, (), ("waits",))),
    **dict.fromkeys(attempt_rollups.TABLES.values(), (_ATTEMPT_KEYS, ("attempts",), ("last_error", "last_at"))),
    **dict.fromkeys(TOTALS.values(), (TOTALS_KEYS, TOTALS_SUMS, ())),
}
_BUCKET_S = {
    **{tables["hour"]: HOUR_S for tables in (TABLES, TOTALS, attempt_rollups.TABLES, first_audio.TABLES)},
    **{tables["day"]: DAY_S for tables in (TABLES, TOTALS, attempt_rollups.TABLES, first_audio.TABLES)},
    **dict.fromkeys((*_MINUTES, first_audio.TABLES["minute"]), MINUTE_S),
}
"""Table → seconds of its buckets."""
