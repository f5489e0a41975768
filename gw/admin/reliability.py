"""Reliability of providers: how their calls ended, their gates now, and where requests went on when they failed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from gw.admin.gateway_status import ModelSlots, slots_of
from gw.admin.periods import BOUNDED, PeriodName, read_period
from gw.admin.schemas import Schema, UnixSeconds, from_attributes, preencoded
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.attempt_rollups import Health
from gw.store.queries import Attempts
from gw.store.rollups import Grain
from gw.store.store import Reader
from gw.telemetry.clock import utc_hour
from gw.types.gate_view import BreakerState, GateView

_Calls = dict[str, object]
"""The recorded fields of ProviderReliability."""
_MOST_HOURS = 8 * 24
"""Longest period with a bar per hour."""


class BucketState(Schema):
    """A provider's `requests_per_minute` and what is left of it."""

    limit: int
    remaining: int | None
    reset_s: float | None


class GateState(Schema):
    """`models` are those whose own breaker is not closed, as `<modality>:<model id>`; `slots` what their vendor allows, as far as known."""

    breaker: BreakerState
    models: dict[str, BreakerState]
    in_flight: int
    bucket: BucketState | None
    slots: list[ModelSlots]


class LatestError(Schema):
    code: str
    timestamp: UnixSeconds


class OutcomeTotals(Schema):
    ok: int
    failed: int
    rate_limited: int
    skipped: int
    cancelled: int


class OutcomeBars(Schema):
    ok: list[int]
    failed: list[int]
    rate_limited: list[int]
    skipped: list[int]
    cancelled: list[int]


class ProviderReliability(Schema):
    """`availability` is the share of calls that were answered. `project_gates` are those of the projects' own keys."""

    provider: str
    configured: bool
    enabled: bool
    breaker: BreakerState
    models: dict[str, BreakerState]
    in_flight: int
    bucket: BucketState | None
    slots: list[ModelSlots]
    project_gates: dict[str, GateState]
    last_error: LatestError | None
    availability: float | None
    totals: OutcomeTotals
    bars: OutcomeBars


class FallbackMove(Schema, rename={"origin": "from"}):
    """`reason` is the outcome of the call of `from`."""

    origin: str
    to: str
    reason: str
    count: int


class Reliability(Schema):
    """Counts are of complete UTC hours: from the one in which the period begins to the one in which it ends."""

    period: PeriodName
    grain: Grain
    times: list[int]
    providers: list[ProviderReliability]
    fallbacks: list[FallbackMove]


async def reliability(
    store: Reader, catalog: Catalog, now: float, *, gates: Mapping[str, GateView], **query: Any
) -> Reliability:
    """Return one bar per UTC hour, or per day. `gates` by provider id; with a project's own key `<provider> (<project>)`."""
    period = read_period(now, **query, allowed=BOUNDED)
    since, until = utc_hour(period.since or 0.0), utc_hour(period.until)
    if not period.open and until * 3_600 == period.until:
        until -= 1
    step = 1 if until - since <= _MOST_HOURS else 24
    hours = range(since // step * step, until + 1, step)
    known = tuple(catalog.providers)
    calls, moves = await store.read_as(
        partial(_calls, known=known, hours=hours), queries.attempted, since, step, None if period.open else until
    )
    return Reliability(
        period=period.name,
        grain="hour" if step == 1 else "day",
        times=[hour * 3_600 for hour in hours],
        providers=[_provider(name, catalog, gates, recorded) for name, recorded in calls.items()],
        fallbacks=moves,
    )


def _provider(name: str, catalog: Catalog, gates: Mapping[str, GateView], calls: _Calls) -> ProviderReliability:
    """Combine a provider's calls with its gates now. A deleted provider is neither configured nor enabled."""
    provider = catalog.providers.get(name)
    return from_attributes(
        ProviderReliability,
        _gate(gates.get(name)),
        **calls,
        provider=name,
        configured=provider is not None and provider.configured,
        enabled=provider is not None and provider.enabled,
        project_gates={label: _gate(other) for label, other in gates.items() if other.provider == name and label != name},
    )


def _gate(gate: GateView | None) -> GateState:
    """Return the gate's state; a provider that has not been called yet has no gate."""
    if gate is None:
        return GateState(breaker="closed", models={}, in_flight=0, bucket=None, slots=[])
    bucket = None if gate.limit is None else from_attributes(BucketState, gate)
    slots = [slots_of(gate.provider, key, view) for key, view in gate.slots.items()]
    return from_attributes(GateState, gate, bucket=bucket, slots=slots)


def _calls(attempts: Attempts, known: tuple[str, ...], hours: range) -> tuple[dict[str, _Calls], list[FallbackMove]]:
    """Return each provider's calls, the `known` ones first, and the fallbacks."""
    bars: dict[str, dict[int, Health]] = {}
    for health in attempts.health:
        bars.setdefault(health.provider, {})[health.hour] = health
    errors = {name: LatestError(code=error.code, timestamp=error.at) for name, error in attempts.last_errors.items()}
    names = [*known, *sorted(set(bars) - set(known))]
    moves = [
        FallbackMove(origin=move.model_id, to=move.next_model_id, reason=move.reason, count=move.count)
        for move in attempts.moves
    ]
    return {name: _outcomes(errors.get(name), bars.get(name, {}), hours) for name in names}, preencoded(moves)


def _outcomes(error: LatestError | None, bars: Mapping[int, Health], hours: range) -> _Calls:
    """Count outcomes. `availability`: answered calls among those that were neither skipped nor cancelled; None without any."""
    counts = {
        outcome: [getattr(bars[hour], outcome) if hour in bars else 0 for hour in hours]
        for outcome in OutcomeBars.__struct_fields__
    }
    totals = OutcomeTotals(**{outcome: sum(values) for outcome, values in counts.items()})
    completed = totals.ok + totals.failed + totals.rate_limited
    availability = round(totals.ok / completed, 6) if completed else None
    encoded_bars = preencoded(OutcomeBars(**counts))
    return {"last_error": error, "availability": availability, "totals": totals, "bars": encoded_bars}
