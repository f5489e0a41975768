"""SQL of the attempts' rollups: per UTC hour and day, how the calls of each model ended and which candidate came next.

Attempts are JSON inside the records, too much to read for a report on providers over days. The rollup changes in the
transaction that inserts the records, like the others.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from gw.store.requests import bounded_float
from gw.store.rollups import Grain
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import struct_of
from gw.telemetry.clock import utc_hour
from gw.types.usage import AttemptRecord, RequestRecord

Key = tuple[int, str, str, str, str]
"""Bucket, provider, model, following model and outcome of a row."""
_OWN_LIMIT = "own_limit"
SKIPS = (
    "breaker_open", "busy", "disabled", "missing_ability", "not_configured", _OWN_LIMIT, "retry_after", "skipped", "unpriced",
)  # fmt: skip
"""Outcomes of candidates that were passed over without a call. A rate limit of gw's own says nothing about the provider."""

TABLES: Mapping[Grain, str] = {"hour": "rollup_attempt", "day": "rollup_attempt_day"}
_HOURS: Mapping[Grain, int] = {"hour": 1, "day": 24}

_ADD = {
    grain: f"""
insert into {table}
(bucket, provider, model_id, next_model_id, outcome, attempts, last_at, last_error) values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (bucket, provider, model_id, next_model_id, outcome) do update set
attempts = attempts + excluded.attempts,
last_error = case when excluded.last_at >= last_at then excluded.last_error else last_error end,
last_at = max(last_at, excluded.last_at)"""
    for grain, table in TABLES.items()
}

_SUBTRACT = {
    grain: f"""
update {table} set attempts = attempts - ?
where bucket = ? and provider = ? and model_id = ? and next_model_id = ? and outcome = ?"""
    for grain, table in TABLES.items()
}

_SKIPS = str(SKIPS)
_OUTCOMES = {
    "ok": "= 'ok'", "rate_limited": "= 'rate_limited'", "skipped": f"in {_SKIPS}", "cancelled": "= 'cancelled'",
    "failed": f"not in ('ok', 'rate_limited', 'cancelled', {_SKIPS[1:]}",
}  # fmt: skip
"""Field of `Health` → SQL condition on the outcome."""
_HEALTH = {
    grain: f"""
select provider, bucket * {_HOURS[grain]} / :hours * :hours,
       {", ".join(f"coalesce(sum(attempts) filter (where outcome {which}), 0)" for which in _OUTCOMES.values())}
from {table} where bucket between :since and :until group by 1, 2"""
    for grain, table in TABLES.items()
}
_LAST_ERROR = {
    grain: f"""
select provider, last_error, last_at from (
    select provider, last_error, last_at, row_number() over (partition by provider order by last_at desc) as place from {table}
    where bucket between :since and :until and last_error is not null) r
where place = 1"""
    for grain, table in TABLES.items()
}
_MOVES = {
    grain: f"""
select model_id, next_model_id, outcome, sum(attempts) from {table}
where bucket between :since and :until and next_model_id not in ('', model_id) group by 1, 2, 3"""
    for grain, table in TABLES.items()
}


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of one provider's attempts in the hours from `hour` on (UTC hours since 1970); see `_OUTCOMES`."""

    provider: str
    hour: int
    ok: int
    rate_limited: int
    skipped: int
    cancelled: int
    failed: int


class LastError(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: Unix seconds at which the request began."""

    code: str
    at: float


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """Number of moves from one candidate to the next, for one reason: the outcome of the first."""

    model_id: str
    next_model_id: str
    reason: str
    count: int


def add(db: SqlConnection, records: Iterable[RequestRecord]) -> None:
    """Add the attempts of newly inserted records. Within the caller's transaction."""
    for grain, rows in by_grain(counted(records)).items():
        db.executemany(_ADD[grain], [(*key, *sums) for key, sums in rows.items()])


def subtract(db: SqlConnection, records: Iterable[RequestRecord]) -> None:
    """Take the attempts of deleted records out of the counts. Within the caller's transaction."""
    for grain, rows in by_grain(counted(records)).items():
        db.executemany(_SUBTRACT[grain], [(sums[0], *key) for key, sums in rows.items()])
        db.execute(f"delete from {TABLES[grain]} where attempts = 0")


def counted(records: Iterable[RequestRecord]) -> dict[Key, list[Any]]:
    """Return count, latest time and its error for each hour, provider, model, following model and outcome."""
    rows: dict[Key, list[Any]] = {}
    for record in records:
        at = bounded_float(record.timestamp)
        attempts = record.attempts
        for number, attempt in enumerate(attempts, start=1):
            following = attempts[number].model_id if number < len(attempts) else ""
            key = (utc_hour(at), attempt.provider_id, attempt.model_id, following, _outcome(attempt))
            _count(rows, key, 1, at, attempt.error_code)
    return rows


def _count(rows: dict[Key, list[Any]], key: Key, attempts: int, at: float, error: str | None) -> None:
    sums = rows.get(key)
    if sums is None:
        rows[key] = [attempts, at, error]
        return
    sums[0] += attempts
    if at >= sums[1]:
        sums[1:] = [at, error]


def by_grain(hours: dict[Key, list[Any]]) -> Mapping[Grain, dict[Key, list[Any]]]:
    """Return rows of hours, and those of the days that they add up to."""
    days: dict[Key, list[Any]] = {}
    for (hour, *others), (attempts, at, error) in hours.items():
        provider, model_id, next_model_id, outcome = others
        _count(days, (hour // 24, provider, model_id, next_model_id, outcome), attempts, at, error)
    return {"hour": hours, "day": days}


def _outcome(attempt: AttemptRecord) -> str:
    is_own = attempt.outcome == "rate_limited" and attempt.upstream_status is None
    return _OWN_LIMIT if is_own else attempt.outcome


def health(db: SqlConnection, since_hour: int, hours: int, until_hour: int | None = None) -> list[Health]:
    """Return outcomes by provider and period of `hours` hours, from `since_hour` to `until_hour`, both included.

    `hours` divides a day, or is one.
    """
    sums: defaultdict[tuple[str, int], list[int]] = defaultdict(lambda: [0] * len(_OUTCOMES))
    for grain, span in _spans(since_hour, until_hour, days=hours == 24):
        for provider, hour, *counts in db.execute(_HEALTH[grain], {"hours": hours, **span}):
            sums[provider, hour] = [*map(operator.add, sums[provider, hour], counts)]
    return [struct_of(Health, (*key, *counts)) for key, counts in sorted(sums.items())]


def last_errors(db: SqlConnection, since_hour: int, until_hour: int | None = None) -> Mapping[str, LastError]:
    """Return the last error of each provider."""
    result: dict[str, LastError] = {}
    for grain, span in _spans(since_hour, until_hour):
        for name, code, at in db.execute(_LAST_ERROR[grain], span):
            if name not in result or at >= result[name].at:
                result[name] = LastError(code=code, at=at)
    return result


def moves(db: SqlConnection, since_hour: int, until_hour: int | None = None) -> list[Move]:
    """Return the moves, the most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for grain, span in _spans(since_hour, until_hour):
        for *key, count in db.execute(_MOVES[grain], span):
            counts[tuple(key)] += count
    return [struct_of(Move, (*key, count)) for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _spans(since: int, until: int | None, *, days: bool = True) -> Iterator[tuple[Grain, dict[str, int]]]:
    """Divide hours, both ends included, into complete days and the hours around them; without `days` into hours only."""
    end = 2**62 if until is None else until + 1
    first, last = -(-since // 24), end // 24
    if not days or first >= last:
        yield "hour", {"since": since, "until": end - 1}
        return
    yield "day", {"since": first, "until": last - 1}
    if since < first * 24:
        yield "hour", {"since": since, "until": first * 24 - 1}
    if last * 24 < end and until is not None:
        yield "hour", {"since": last * 24, "until": until}
