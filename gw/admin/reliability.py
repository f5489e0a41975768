"""How providers hold up: their calls over time, their gates now, and where requests went when they failed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

import msgspec

from gw.admin.reports import LATENCY_PERIODS, Json, since_day
from gw.registry.catalog import Catalog, Provider
from gw.store import queries
from gw.store.attempt_rollups import Health, LastError
from gw.store.queries import Attempts
from gw.store.store import Reader
from gw.telemetry.clock import utc_hour

OUTCOMES = ("ok", "failed", "rate_limited", "skipped", "cancelled")
_STEP_HOURS: Mapping[str, int] = {"today": 1, "week": 1, "month": 24}


class Gate(Protocol):
    """What stands before a provider now: its breaker and its token bucket (`limit` a minute, None = no limit)."""

    @property
    def provider(self) -> str: ...
    @property
    def breaker(self) -> str: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def limit(self) -> int | None: ...
    @property
    def remaining(self) -> int | None: ...
    @property
    def reset_s(self) -> float | None: ...


async def reliability(
    store: Reader, catalog: Catalog, now: float, *, gates: Mapping[str, Gate], period: str = "today"
) -> Json:
    """Bars per UTC hour (month: per day). `gates`: by provider id; with a project's own key `<provider> (<project>)`."""
    since = 24 * (since_day(period, now, LATENCY_PERIODS) or 0)
    step = _STEP_HOURS[period]
    hours = range(since, utc_hour(now) + 1, step)
    known = tuple(catalog.providers)
    calls, moves = await store.show(partial(_calls, known=known, hours=hours), queries.attempted, since, step)
    return {
        "period": period,
        "grain": "hour" if step == 1 else "day",
        "times": [hour * 3_600 for hour in hours],
        "providers": [
            {"provider": name, **_entry(catalog.providers.get(name)), **_gates(name, gates), **called}
            for name, called in calls.items()
        ],
        "fallbacks": moves,
    }


def _calls(found: Attempts, known: tuple[str, ...], hours: range) -> tuple[dict[str, Json], msgspec.Raw]:
    """By provider, those that are `known` first, what became of its calls; and where requests went on, encoded."""
    bars: dict[str, dict[int, Health]] = {}
    for health in found.health:
        bars.setdefault(health.provider, {})[health.hour] = health
    names = [*known, *sorted(set(bars) - set(known))]
    moves = [
        {"from": move.model_id, "to": move.next_model_id, "reason": move.reason, "count": move.count}
        for move in found.moves
    ]
    calls = {name: _provider(found.last_errors.get(name), bars.get(name, {}), hours) for name in names}
    return calls, msgspec.Raw(msgspec.json.encode(moves))


def _provider(error: LastError | None, bars: Mapping[int, Health], hours: range) -> Json:
    """`availability`: answered calls among those that were made and not given up by their caller; null without any."""
    counts = {what: [getattr(bars[hour], what) if hour in bars else 0 for hour in hours] for what in OUTCOMES}
    totals = {what: sum(values) for what, values in counts.items()}
    made = totals["ok"] + totals["failed"] + totals["rate_limited"]
    return {
        "last_error": None if error is None else {"code": error.code, "timestamp": error.at},
        "availability": round(totals["ok"] / made, 6) if made else None,
        "totals": totals,
        "bars": msgspec.Raw(msgspec.json.encode(counts)),
    }


def _gates(name: str, gates: Mapping[str, Gate]) -> Json:
    """The provider's own gate, and those that stand before a project's own key."""
    others = {label: _gate(gate) for label, gate in gates.items() if gate.provider == name and label != name}
    return {**_gate(gates.get(name)), "project_gates": others}


def _entry(provider: Provider | None) -> Json:
    """None: one that is gone."""
    return {
        "configured": provider is not None and provider.configured,
        "enabled": provider is not None and provider.enabled,
    }


def _gate(gate: Gate | None) -> Json:
    """A provider that has not been called yet has none."""
    bucket = None
    if gate is not None and gate.limit is not None:
        bucket = {"limit": gate.limit, "remaining": gate.remaining, "reset_s": gate.reset_s}
    return {
        "breaker": "closed" if gate is None else gate.breaker,
        "in_flight": 0 if gate is None else gate.in_flight,
        "bucket": bucket,
    }
