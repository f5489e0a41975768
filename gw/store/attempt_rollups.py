"""SQL of the attempts' rollup: per UTC hour, how the calls of each model ended and which candidate came next.

Attempts are JSON inside the records, too much to read for a report on providers over days. The rollup changes in the
transaction that inserts the records, like the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gw.store.requests import bounded_float
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import struct_of
from gw.telemetry.clock import utc_hour
from gw.types.usage import AttemptRecord, RequestRecord

_OWN_LIMIT = "own_limit"
SKIPS = (
    "breaker_open", "busy", "disabled", "missing_ability", "not_configured", _OWN_LIMIT, "retry_after", "skipped", "unpriced",
)  # fmt: skip
"""Outcomes of candidates that were passed over without a call. A rate limit of gw's own says nothing about the provider."""

_ADD = """
insert into rollup_attempt
(bucket, provider, model_id, next_model_id, outcome, attempts, last_at, last_error) values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (bucket, provider, model_id, next_model_id, outcome) do update set
attempts = attempts + excluded.attempts,
last_error = case when excluded.last_at >= last_at then excluded.last_error else last_error end,
last_at = max(last_at, excluded.last_at)"""

_SUBTRACT = """
update rollup_attempt set attempts = attempts - ?
where bucket = ? and provider = ? and model_id = ? and next_model_id = ? and outcome = ?"""

_SKIPS = str(SKIPS)
_OUTCOMES = {
    "ok": "= 'ok'", "rate_limited": "= 'rate_limited'", "skipped": f"in {_SKIPS}", "cancelled": "= 'cancelled'",
    "failed": f"not in ('ok', 'rate_limited', 'cancelled', {_SKIPS[1:]}",
}  # fmt: skip
"""Field of `Health` → SQL condition on the outcome."""
_HEALTH = f"""
select provider, bucket / :hours * :hours,
       {", ".join(f"coalesce(sum(attempts) filter (where outcome {which}), 0)" for which in _OUTCOMES.values())}
from rollup_attempt where bucket between :since and :until group by 1, 2 order by 1, 2"""

_LAST_ERROR = """
select provider, last_error, last_at from (
    select provider, last_error, last_at, row_number() over (partition by provider order by last_at desc) as place from rollup_attempt
    where bucket between :since and :until and last_error is not null) r
where place = 1"""

_MOVES = """
select model_id, next_model_id, outcome, sum(attempts) from rollup_attempt
where bucket between :since and :until and next_model_id not in ('', model_id) group by 1, 2, 3 order by 4 desc, 1, 2, 3"""


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
    db.executemany(_ADD, [(*key, *sums) for key, sums in counted(records).items()])


def subtract(db: SqlConnection, records: Iterable[RequestRecord]) -> None:
    """Take the attempts of deleted records out of the counts. Within the caller's transaction."""
    db.executemany(_SUBTRACT, [(sums[0], *key) for key, sums in counted(records).items()])
    db.execute("delete from rollup_attempt where attempts = 0")


def counted(records: Iterable[RequestRecord]) -> dict[tuple[int, str, str, str, str], list[object]]:
    """Return count, latest time and its error for each hour, provider, model, following model and outcome."""
    rows: dict[tuple[int, str, str, str, str], list[object]] = {}
    for record in records:
        at = bounded_float(record.timestamp)
        attempts = record.attempts
        for number, attempt in enumerate(attempts, start=1):
            following = attempts[number].model_id if number < len(attempts) else ""
            key = (utc_hour(at), attempt.provider_id, attempt.model_id, following, _outcome(attempt))
            sums = rows.get(key)
            if sums is None:
                rows[key] = [1, at, attempt.error_code]
            else:
                sums[0] += 1  # type: ignore[operator]  # a count
                if at >= sums[1]:  # type: ignore[operator]  # a time
                    sums[1:] = [at, attempt.error_code]
    return rows


def _outcome(attempt: AttemptRecord) -> str:
    is_own = attempt.outcome == "rate_limited" and attempt.upstream_status is None
    return _OWN_LIMIT if is_own else attempt.outcome


def health(db: SqlConnection, since_hour: int, hours: int, until_hour: int | None = None) -> list[Health]:
    """Return outcomes by provider and period of `hours` hours, from `since_hour` to `until_hour`, both included."""
    rows = db.execute(_HEALTH, {"hours": hours, **_hours(since_hour, until_hour)})
    return [struct_of(Health, row) for row in rows]


def last_errors(db: SqlConnection, since_hour: int, until_hour: int | None = None) -> Mapping[str, LastError]:
    """Return the last error of each provider."""
    return {name: LastError(code=code, at=at) for name, code, at in db.execute(_LAST_ERROR, _hours(since_hour, until_hour))}


def moves(db: SqlConnection, since_hour: int, until_hour: int | None = None) -> list[Move]:
    """Return the moves, the most frequent first."""
    return [struct_of(Move, row) for row in db.execute(_MOVES, _hours(since_hour, until_hour))]


def _hours(since: int, until: int | None) -> dict[str, int]:
    return {"since": since, "until": 2**62 if until is None else until}
