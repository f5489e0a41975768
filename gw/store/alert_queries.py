"""Facts that the rules of alerts read from the database: the last minutes, what has no price today, and which rules are muted."""

from __future__ import annotations

from collections import Counter

import msgspec

from gw.store import alert_rows, first_audio, requests, windows
from gw.store.attempt_rollups import SKIPS
from gw.store.latency import QueryContext
from gw.store.sql_connection import SqlConnection
from gw.store.window_pieces import TimeWindow
from gw.types.alerts import AlertRule

_DAY_S = 86_400
_MOST_RECORDS = 5_000
"""Newest unusual records that are read: their attempts are decoded one by one."""
_ANSWERED = """
select provider, count(*) from requests indexed by requests_time
where timestamp >= :since and timestamp < :until and status = 'success' group by 1"""
_UNUSUAL = """
select attempts from requests indexed by requests_unusual
where status <> 'success' and timestamp >= :since and timestamp < :until order by timestamp desc limit :limit"""
_NO_FAILURE = frozenset(("ok", "rate_limited", "cancelled", *SKIPS))


class ProviderCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of a provider, how many of them failed, and how often it was passed over because all its places were taken."""

    calls: int = 0
    failed: int = 0
    busy: int = 0


class RecordFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the last minutes. `requests` are those that could succeed: neither refused nor left by their caller."""

    requests: int
    errors: int
    fallbacks: int
    providers: dict[str, ProviderCalls]
    turns: int
    """Turns with sound."""
    first_audio_p95_ms: float | None
    unpriced: list[str]
    """Models that answered today and have no price."""
    muted: list[AlertRule]


def record_facts(context: QueryContext, now: float, window_s: float) -> RecordFacts:
    """Return the figures of the `window_s` seconds before `now`, the models without a price of its UTC day, and the muted rules."""
    window = TimeWindow(now - window_s, now)
    sums = windows.totals(context, window, None)
    waits = first_audio.by_name(context, window, "none", None).get("")
    today = windows.costs(context, TimeWindow(now // _DAY_S * _DAY_S), None)
    return RecordFacts(
        requests=sums.requests - sums.refused - sums.cancelled, errors=sums.errors, fallbacks=sums.fallbacks,
        providers=_calls(context.db, window), turns=0 if waits is None else waits.count,
        first_audio_p95_ms=None if waits is None else waits.quantile(0.95),
        unpriced=sorted({row.model_id for row in today if row.unpriced}),
        muted=[mute.rule for mute in alert_rows.mutes(context.db, now)],
    )  # fmt: skip


def _calls(db: SqlConnection, window: TimeWindow) -> dict[str, ProviderCalls]:
    bounds = {"since": window.since, "until": window.until}
    calls: Counter[str] = Counter(dict(db.execute(_ANSWERED, bounds)))
    failed: Counter[str] = Counter()
    busy: Counter[str] = Counter()
    for (attempts,) in db.execute(_UNUSUAL, {**bounds, "limit": _MOST_RECORDS}):
        for attempt in requests.attempts_of(attempts):
            if attempt.outcome == "busy":
                busy[attempt.provider_id] += 1
            if attempt.outcome in SKIPS or attempt.outcome == "cancelled":
                continue
            calls[attempt.provider_id] += 1
            failed[attempt.provider_id] += attempt.outcome not in _NO_FAILURE
    return {name: ProviderCalls(calls=calls[name], failed=failed[name], busy=busy[name]) for name in calls | busy}
