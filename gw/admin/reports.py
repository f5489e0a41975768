"""Costs and latency, the same for HTTP, CLI and MCP: their sums, figures over time for charts, and distributions.

Money is whole nano-USD up to this package and a float of USD in its answers. Everything about the past is read from
rollups, so the work does not grow with the number of requests. Long parts are encoded in the report process and pass
the gateway as bytes. Lists over time have equal lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal

import msgspec

from gw.admin.request_models import SHORT_PERIODS, first_day, one_of, project_filter
from gw.admin.schemas import Ms, Schema, Usd, from_attributes, preencoded, usd
from gw.errors import RequestError
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.latency import LatencyRow
from gw.store.rollups import BY, CostRow, Grain, Point
from gw.store.store import Reader
from gw.telemetry.clock import DAY_S, utc_day, utc_hour
from gw.telemetry.histogram import Histogram
from gw.types.ids import Modality

ShortPeriod = Literal["today", "week", "month"]
COUNTS = ("cost", "requests", "errors")
TIMES = ("ttfb", "latency")
METRICS = (*COUNTS, *TIMES)
SPLITS = tuple(BY)


class CostGroup(Schema):
    """`requests` were answered here, or tried here last. After a failover each vendor has its own part of the `cost`."""

    cost: Usd
    requests: int


CostGroups = dict[str, CostGroup]


class VendorCharge(Schema):
    """Charges of a vendor for one model: for `calls`, also of requests that another vendor answered in the end.
    `wasted` is the part of `cost` for output nobody received; `estimated` stands in for unknown costs in budgets."""

    provider: str
    model_id: str
    modality: Modality
    calls: int
    cost: Usd
    wasted: Usd
    estimated: Usd
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    audio_seconds: float
    characters: int


class Costs(Schema, kw_only=True):
    """Groups are ordered by cost, highest first. `unpriced_requests` have no known price, or a part without: it is
    not in `total`, and counts against budgets by `unpriced_estimate`. `wasted` is the part of `total` that was paid for output
    nobody received."""

    period: Literal["today", "week", "month", "all"]
    project: str | None
    total: Usd
    requests: int
    unpriced_requests: int
    unpriced_estimate: Usd
    wasted: Usd
    by_provider: CostGroups
    by_model: CostGroups
    by_project: CostGroups | msgspec.UnsetType = msgspec.UNSET
    """Omitted from the dashboard's answer about a single project."""
    by_modality: CostGroups
    charges: list[VendorCharge]


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


class CountLine(Schema):
    """For `cost` (USD), `requests` and `errors`."""

    name: str
    total: float
    values: list[float]


class TimeLine(Schema):
    """For `ttfb` and `latency`, in ms; null where nothing was measured. `count` is the number of measurements."""

    name: str
    count: list[int]
    p50: list[float | None]
    p95: list[float | None]
    p99: list[float | None]


class _Series(Schema):
    metric: Literal["cost", "requests", "errors", "ttfb", "latency"]
    period: ShortPeriod
    by: str
    project: str | None
    model: str | None
    grain: Grain
    times: list[int]


class CountSeries(_Series):
    """The line with the largest total comes first. `times` are Unix seconds, one per point."""

    series: list[CountLine]


class TimeSeries(_Series):
    """`times` are Unix seconds, one per point."""

    series: list[TimeLine]


class HistogramBucket(Schema):
    """`from_ms` <= time < `to_ms`. Every model has the same edges."""

    from_ms: Ms
    to_ms: Ms
    count: int


class Spread(Schema):
    count: int
    avg_ms: Ms | None
    percentiles: Percentiles
    buckets: list[HistogramBucket]


class ModelHistogram(Schema):
    model: str
    period: ShortPeriod
    project: str | None
    ttfb: Spread
    latency: Spread


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
        unpriced_estimate=usd(sum(row.estimated_nusd for row in rows)),
        wasted=usd(sum(row.wasted_nusd for row in rows)),
        by_provider=_grouped(rows, lambda row: row.provider),
        by_model=_grouped(rows, lambda row: row.model_id),
        by_project=_grouped(rows, lambda row: row.project),
        by_modality=_grouped(rows, lambda row: row.modality),
        charges=_charges(rows),
    )


def _charges(rows: Iterable[CostRow]) -> list[VendorCharge]:
    """Add up the projects. Models that no vendor charges for are left out."""
    sums: dict[tuple[str, str, Modality], CostRow] = {}
    for row in rows:
        key = (row.provider, row.model_id, row.modality)
        sums[key] = sums[key] + row if key in sums else row
    charges = [
        from_attributes(
            VendorCharge, row, cost=usd(row.cost_nusd), wasted=usd(row.wasted_nusd), estimated=usd(row.estimated_nusd)
        )
        for row in sums.values()
        if row.calls
    ]
    return sorted(charges, key=lambda charge: (-charge.cost, charge.model_id, charge.provider))


def _grouped(rows: Iterable[CostRow], name_of: Callable[[CostRow], str]) -> CostGroups:
    sums: dict[str, list[int]] = {}
    for row in rows:
        entry = sums.setdefault(name_of(row), [0, 0])
        entry[0] += row.cost_nusd
        entry[1] += row.requests
    by_cost = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return {name: CostGroup(cost=usd(nusd), requests=requests) for name, (nusd, requests) in by_cost}


async def latency(
    store: Reader, catalog: Catalog, now: float, *, period: str = "today", project: str | None = None,
    allowed: Iterable[str] = SHORT_PERIODS,
) -> dict[str, ModelLatency]:  # fmt: skip
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


async def series(
    store: Reader, catalog: Catalog, now: float, *, metric: str = "requests", period: str = "today", by: str = "none",
    project: str | None = None, model: str | None = None,
) -> CountSeries | TimeSeries:  # fmt: skip
    """Return one point per UTC hour (today) or day. Raises RequestError, UnknownProjectError."""
    one_of("metric", metric, METRICS)
    one_of("by", by, SPLITS)
    first = first_day(period, now, SHORT_PERIODS) or 0
    grain: Grain = "hour" if period == "today" else "day"
    since, until = (24 * first, utc_hour(now)) if grain == "hour" else (first, utc_day(now))
    only, buckets = project_filter(catalog, project), range(since, until + 1)
    points: Any = {"by": by, "project": only, "model_id": model or None}
    times = [bucket * (3_600 if grain == "hour" else DAY_S) for bucket in buckets]
    shared: Any = {"metric": metric, "period": period, "by": by, "project": only, "model": model or None}
    shared |= {"grain": grain, "times": times}
    if metric in COUNTS:
        counted = partial(_count_lines, metric=metric, buckets=buckets)
        return CountSeries(**shared, series=await store.read_as(counted, queries.points, grain, since, until, **points))
    timed = partial(_time_lines, metric=metric, buckets=buckets)
    lines = await store.read_as(timed, queries.latency_points, grain, since, until, **points)
    return TimeSeries(**shared, series=lines)


def _count_lines(points: list[Point], metric: str, buckets: range) -> list[CountLine]:
    by_name: dict[str, dict[int, int]] = {}
    for point in points:
        by_name.setdefault(point.name, {})[point.bucket] = getattr(point, "cost_nusd" if metric == "cost" else metric)
    unit = usd if metric == "cost" else int
    largest_first = sorted(by_name.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    lines = [
        CountLine(name=name, total=unit(sum(sums.values())), values=[unit(sums.get(bucket, 0)) for bucket in buckets])
        for name, sums in largest_first
    ]
    return preencoded(lines)


def _time_lines(rows: Mapping[tuple[int, str], LatencyRow], metric: str, buckets: range) -> list[TimeLine]:
    lines: list[TimeLine] = []
    histograms = {key: row.ttfb if metric == "ttfb" else row.total for key, row in rows.items()}
    for name in sorted({name for _, name in histograms}):
        points = [histograms.get((bucket, name)) for bucket in buckets]
        quantiles = [h.quantiles(0.5, 0.95, 0.99) if h else [None] * 3 for h in points]
        p50, p95, p99 = ([rounded(values[n]) for values in quantiles] for n in range(3))
        lines.append(TimeLine(name=name, count=[h.count if h else 0 for h in points], p50=p50, p95=p95, p99=p99))
    return preencoded(lines)


async def histogram(
    store: Reader, catalog: Catalog, now: float, *, model: str | None, period: str = "today", project: str | None = None
) -> ModelHistogram:
    """Return the distribution of one model's times. Raises RequestError, UnknownProjectError."""
    if not model:
        raise RequestError(what="model is needed", param="model")
    day = first_day(period, now, SHORT_PERIODS) or 0
    only = project_filter(catalog, project)
    ttfb, total = await store.read_as(
        _spreads, queries.latency_points, "day", day, utc_day(now), by="none", project=only, model_id=model
    )
    return ModelHistogram(model=model, period=period, project=only, ttfb=ttfb, latency=total)  # type: ignore[arg-type]


def _spreads(rows: Mapping[tuple[int, str], LatencyRow]) -> tuple[Spread, Spread]:
    ttfb, total = Histogram(), Histogram()
    for row in rows.values():
        ttfb.merge(row.ttfb)
        total.merge(row.total)
    return preencoded(_spread(ttfb)), preencoded(_spread(total))


def _spread(histogram: Histogram) -> Spread:
    return Spread(
        count=histogram.count,
        avg_ms=rounded(histogram.mean_ms),
        percentiles=percentiles(histogram),
        buckets=[
            HistogramBucket(from_ms=round(low, 3), to_ms=round(high, 3), count=count)
            for low, high, count in histogram.buckets()
        ],
    )
