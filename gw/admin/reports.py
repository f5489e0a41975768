"""Costs and latency, the same for HTTP, CLI and MCP.

Money is whole nano-USD up to this package and a float of USD in its answers. Everything about the past is read from
rollups, so the work does not grow with the number of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from gw.admin.arguments import SHORT_PERIODS, first_day, project_filter
from gw.admin.schemas import Ms, Schema, Usd, usd
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.latency import LatencyRow
from gw.store.rollups import CostRow
from gw.store.store import Reader
from gw.telemetry.histogram import Histogram


class CostGroup(Schema):
    cost: Usd
    requests: int


CostGroups = dict[str, CostGroup]


class Costs(Schema, kw_only=True):
    """Groups are ordered by cost, highest first. `unpriced_requests` have no known price and count 0 in `total`.
    `wasted` is the part of `total` that was paid for output nobody received."""

    period: Literal["today", "week", "month", "all"]
    project: str | None
    total: Usd
    requests: int
    unpriced_requests: int
    wasted: Usd
    by_provider: CostGroups
    by_model: CostGroups
    by_project: CostGroups | msgspec.UnsetType = msgspec.UNSET
    """Omitted from the dashboard's answer about a single project."""
    by_modality: CostGroups


class Percentiles(Schema):
    p50: Ms | None
    p95: Ms | None
    p99: Ms | None


class ModelLatency(Schema):
    avg_ttfb_ms: float | None
    avg_latency_ms: float | None
    request_count: int
    ttfb_percentiles: Percentiles
    latency_percentiles: Percentiles


async def costs(
    store: Reader, catalog: Catalog, now: float, *, period: str = "today", project: str | None = None
) -> Costs:
    """Sum up the costs of a period. Raises RequestError, UnknownProjectError."""
    day, only = first_day(period, now), project_filter(catalog, project)
    totals = await store.read_as(cost_groups, queries.costs, day, only)
    return msgspec.structs.replace(totals, period=period, project=only)


def cost_groups(rows: Iterable[CostRow]) -> Costs:
    """Sum up and group `rows`, for all periods and projects: the caller replaces both fields."""
    rows = list(rows)
    return Costs(
        period="all",
        project=None,
        total=usd(sum(row.cost_nusd for row in rows)),
        requests=sum(row.requests for row in rows),
        unpriced_requests=sum(row.unpriced for row in rows),
        wasted=usd(sum(row.wasted_nusd for row in rows)),
        by_provider=_grouped(rows, lambda row: row.provider),
        by_model=_grouped(rows, lambda row: row.model_id),
        by_project=_grouped(rows, lambda row: row.project),
        by_modality=_grouped(rows, lambda row: row.modality),
    )


def _grouped(rows: Iterable[CostRow], name_of: Callable[[CostRow], str]) -> CostGroups:
    sums: dict[str, list[int]] = {}
    for row in rows:
        entry = sums.setdefault(name_of(row), [0, 0])
        entry[0] += row.cost_nusd
        entry[1] += row.requests
    by_cost = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return {name: CostGroup(cost=usd(nusd), requests=requests) for name, (nusd, requests) in by_cost}


async def latency(
    store: Reader,
    catalog: Catalog,
    now: float,
    *,
    period: str = "today",
    project: str | None = None,
    allowed: Iterable[str] = SHORT_PERIODS,
) -> dict[str, ModelLatency]:
    """Return times in ms by model id; empty when the period has no requests."""
    day = first_day(period, now, allowed)
    return await store.read_as(_latency_by_model, queries.latencies, day, project_filter(catalog, project))


def _latency_by_model(rows: Mapping[str, LatencyRow]) -> dict[str, ModelLatency]:
    return {
        model_id: ModelLatency(
            avg_ttfb_ms=rounded(row.ttfb.mean_ms),
            avg_latency_ms=rounded(row.total.mean_ms),
            request_count=row.requests,
            ttfb_percentiles=percentiles(row.ttfb),
            latency_percentiles=percentiles(row.total),
        )
        for model_id, row in sorted(rows.items())
    }


def percentiles(histogram: Histogram) -> Percentiles:
    p50, p95, p99 = map(rounded, histogram.quantiles(0.5, 0.95, 0.99))
    return Percentiles(p50=p50, p95=p95, p99=p99)


def rounded(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms, 3)
