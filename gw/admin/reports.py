"""What the gateway says about itself and its past: JSON-ready dicts, the same for every face (HTTP, CLI, MCP).

Arguments come as the caller wrote them and are checked here; a bad one is a RequestError that names its parameter.
Money is whole nano-USD up to this module and a float of USD in what leaves it. Everything about the past is read from
rollups, so the work does not grow with the number of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from gw.errors import RequestError, UnknownNameError
from gw.registry.catalog import Catalog, Model
from gw.store import queries
from gw.store.latency import LatencyRow
from gw.store.queries import Sums
from gw.store.record_reader import Query, as_it_is, work
from gw.store.requests import seconds_and_characters
from gw.store.rollups import CostRow
from gw.store.store import Reader
from gw.telemetry.clock import utc_day
from gw.telemetry.histogram import Histogram
from gw.types.usage import NANO, UNIT_OF, AttemptRecord, RequestRecord

Json = dict[str, object]

PERIODS: Mapping[str, int | None] = {"today": 1, "week": 7, "month": 30, "all": None}
"""UTC days including today."""
LATENCY_PERIODS = ("today", "week", "month")
STATUSES = ("success", "error", "fallback", "cancelled")
LOGS_DEFAULT = 100
LOGS_MOST = 1_000


class UnknownRequestError(UnknownNameError):
    """No record has this id: it was never made, or was forgotten after `retention_days`."""

    code: ClassVar[str] = "request_not_found"
    kind: ClassVar[str] = "request"


def since_day(period: str, now: float, allowed: Iterable[str] = tuple(PERIODS)) -> int | None:
    """First UTC day of the period, None = from the beginning."""
    days = PERIODS[one_of("period", period, tuple(allowed))]
    return None if days is None else utc_day(now) - days + 1


def one_of(param: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise RequestError(what=f"{param} must be one of {', '.join(allowed)}", param=param)
    return value


def limit_of(value: str | int, most: int) -> int:
    return whole_number(value, "limit", 1, most)


def whole_number(value: str | int, param: str, least: int, most: int) -> int:
    """Decimal digits only; `least` to `most`."""
    text = str(value)
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1
    if not least <= number <= most:
        raise RequestError(what=f"{param} must be a whole number from {least} to {most}", param=param)
    return number


def known_project(catalog: Catalog, project: str | None) -> str | None:
    """Raises UnknownProjectError. An empty name means no filter."""
    return catalog.project(project).id if project else None


def models_of(catalog: Catalog, project: str | None) -> list[Model]:
    """Models of the project's default stack; without a project, or for one without a default stack, all."""
    stack = catalog.stacks.get(catalog.project(project).default_stack) if project else None
    if stack is None:
        return list(catalog.models.values())
    return [model for model in catalog.models.values() if stack.model(model.modality) == model.id]


def usd(nusd: int) -> float:
    return nusd / NANO


def health(*, now: float, started_at: float, version: str, degraded: str) -> Json:
    return {
        "status": "degraded" if degraded else "ok",
        "uptime_seconds": round(max(0.0, now - started_at), 3),
        "version": version,
    }


def ready(*, draining: bool, accepting: bool, degraded: str) -> tuple[bool, Json]:
    """Whether new work should be sent here, and why not."""
    state = "draining" if draining else "ready" if accepting else "not_ready"
    return state == "ready", {
        "status": state,
        "checks": {"records": "ok" if accepting and not degraded else "degraded", "draining": draining},
    }


async def costs(
    store: Reader, catalog: Catalog, now: float, *, period: str = "today", project: str | None = None
) -> Json:
    """Cost summary of a period, the dearest first."""
    day = since_day(period, now)
    only = known_project(catalog, project)
    return {"period": period, "project": only, **await store.show(cost_groups, queries.costs, day, only)}


def cost_groups(rows: Iterable[CostRow]) -> Json:
    rows = list(rows)
    return {
        "total": usd(sum(row.cost_nusd for row in rows)),
        "requests": sum(row.requests for row in rows),
        "unpriced_requests": sum(row.unpriced for row in rows),
        "wasted": usd(sum(row.wasted_nusd for row in rows)),
        "by_provider": _grouped(rows, lambda row: row.provider),
        "by_model": _grouped(rows, lambda row: row.model_id),
        "by_project": _grouped(rows, lambda row: row.project),
        "by_modality": _grouped(rows, lambda row: row.modality),
    }


def _grouped(rows: Iterable[CostRow], name_of: Callable[[CostRow], str]) -> dict[str, Json]:
    sums: dict[str, list[int]] = {}
    for row in rows:
        entry = sums.setdefault(name_of(row), [0, 0])
        entry[0] += row.cost_nusd
        entry[1] += row.requests
    dearest_first = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return {name: {"cost": usd(nusd), "requests": requests} for name, (nusd, requests) in dearest_first}


async def latency(
    store: Reader,
    catalog: Catalog,
    now: float,
    *,
    period: str = "today",
    project: str | None = None,
    allowed: Iterable[str] = LATENCY_PERIODS,
) -> Json:
    """By model id; `{}` when nothing was asked in the period. Times in ms."""
    day = since_day(period, now, allowed)
    return await store.show(_latency_by_model, queries.latencies, day, known_project(catalog, project))


def _latency_by_model(rows: Mapping[str, LatencyRow]) -> Json:
    return {
        model_id: {
            "avg_ttfb_ms": rounded(row.ttfb.mean_ms),
            "avg_latency_ms": rounded(row.total.mean_ms),
            "request_count": row.requests,
            "ttfb_percentiles": percentiles(row.ttfb),
            "latency_percentiles": percentiles(row.total),
        }
        for model_id, row in sorted(rows.items())
    }


def percentiles(histogram: Histogram) -> Json:
    p50, p95, p99 = histogram.quantiles(0.5, 0.95, 0.99)
    return {"p50": rounded(p50), "p95": rounded(p95), "p99": rounded(p99)}


def rounded(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms, 3)


def log_record(record: RequestRecord) -> Json:
    """One line of the log. `cost_usd` is null where no price is known."""
    return {
        "id": record.id,
        "timestamp": record.timestamp,
        "project": record.project,
        "modality": record.modality,
        "model_id": record.model_id,
        "provider": record.provider,
        "cost_usd": None if record.cost_nusd is None else usd(record.cost_nusd),
        "total_latency_ms": record.total_latency_ms,
        "ttfb_ms": record.ttfb_ms,
        "gateway_ms": record.gateway_ms,
        "status": record.status,
        **_units(record),
        "wasted_units": record.wasted_units,
        "wasted_usd": None if record.wasted_nusd is None else usd(record.wasted_nusd),
        "pricing_source": record.pricing_source,
        "fallback_from": record.fallback_from,
        "attempts": [_attempt(attempt) for attempt in record.attempts],
        "error_code": record.error_code,
        "stream": record.stream,
        "session_id": record.session_id,
        "turn_id": record.turn_id,
        "key_id": record.key_id,
    }


def _attempt(attempt: AttemptRecord) -> Json:
    return {
        "model_id": attempt.model_id,
        "outcome": attempt.outcome,
        "started_ms": attempt.started_ms,
        "duration_ms": attempt.duration_ms,
        "ttfb_ms": attempt.ttfb_ms,
        "error_code": attempt.error_code,
        "upstream_status": attempt.upstream_status,
        "cost_usd": None if attempt.cost_nusd is None else usd(attempt.cost_nusd),
    }


def _units(record: RequestRecord) -> Json:
    """What the modality is counted in. Only language models have units on both sides."""
    usage, (seconds, characters) = record.usage, seconds_and_characters(record)
    sides: tuple[float, float, float]
    match record.modality:
        case "llm":
            sides = (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens)
        case "stt":
            sides = (seconds, 0, 0)
        case "tts":
            sides = (characters, 0, 0)
    return {
        "input_units": sides[0],
        "output_units": sides[1],
        "cached_input_units": sides[2],
        "unit": UNIT_OF[record.modality],
    }


async def request_detail(store: Reader, record_id: str) -> Json:
    """One log record with what was asked for and both counts of its usage. Raises UnknownRequestError."""
    record = await store.request(record_id)
    if record is None:
        raise UnknownRequestError(name=record_id)
    return {
        **log_record(record),
        "requested_model": record.requested_model,
        "endpoint": record.endpoint,
        "usage": record.usage,
        "measured_usage": record.measured,
    }


async def overview(store: Reader, catalog: Catalog, now: float, *, project: str | None = None) -> Json:
    """The figures of the front page. For a project with a default stack, the models are those of the stack."""
    only = known_project(catalog, project)
    return overview_figures(catalog, only, await store.ask(sums_of(now, only)))


def sums_of(now: float, only: str | None) -> Query[Sums]:
    """What `overview_figures` are made of."""
    return work(as_it_is, queries.sums, utc_day(now), only)


def overview_figures(catalog: Catalog, only: str | None, found: Sums) -> Json:
    """Of a project, or of all."""
    today, ever = found.today, found.ever
    usable = {provider.id for provider in catalog.providers.values() if provider.configured}
    return {
        "total_requests": ever.requests,
        "total_cost_today": usd(today.cost_nusd),
        "total_cost_all": usd(ever.cost_nusd),
        "active_models": len({model.id for model in models_of(catalog, only) if model.provider in usable}),
        "providers_configured": len(usable),
        "requests_today": today.requests,
        "errors_today": today.errors,
        "fallbacks_today": today.fallbacks,
        "cancelled_today": today.cancelled,
        "unpriced_today": today.unpriced,
    }
