"""Costs and latency, the same for HTTP, CLI and MCP: their sums, figures over time for charts, and distributions.

Money is whole nano-USD up to this package and a float of USD in its answers. Everything about the past is read from
rollups, so the work does not grow with the number of requests. Long parts are encoded in the report process and pass
the gateway as bytes. Lists over time have equal lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import msgspec

from gw.admin.periods import BOUNDED, Period, PeriodField, PeriodName, Unit, read_period, unit
from gw.admin.request_models import one_of, project_filter
from gw.admin.schemas import Ms, Schema, UnixSeconds, Usd, from_attributes, preencoded, usd
from gw.errors import RequestError
from gw.registry.catalog import Catalog
from gw.store import windows
from gw.store.latency import LatencyRow, TimeMetric
from gw.store.rollups import BY, CostRow
from gw.store.store import Reader
from gw.store.windows import Metric, WindowPoint
from gw.telemetry.histogram import Histogram
from gw.types.ids import Modality

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


class Costs(Schema, kw_only=True, rename={"since": "from", "until": "to"}):
    """Groups are ordered by cost, highest first. `unpriced_requests` have no known price, or a part without: it is
    not in `total`, and counts against budgets by `unpriced_estimate`. `wasted` is the part of `total` that was paid for output
    nobody received. `saved` is what vendors would have charged for speech that the phrase cache had; it is no part of `total`."""

    period: PeriodField
    since: UnixSeconds | None
    until: UnixSeconds
    project: str | None
    total: Usd
    requests: int
    unpriced_requests: int
    unpriced_estimate: Usd
    wasted: Usd
    saved: Usd
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


class _Series(Schema, rename={"since": "from", "until": "to"}):
    metric: Literal["cost", "requests", "errors", "ttfb", "latency"]
    period: PeriodName
    since: UnixSeconds | None
    until: UnixSeconds
    by: str
    project: str | None
    model: str | None
    grain: Unit
    step_s: int
    times: list[int]


class CountSeries(_Series):
    """The line with the largest total comes first. `times` are Unix seconds, one per point, `step_s` apart: the first point
    counts from `from` on, the last one until `to`."""

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


Spreads: TypeAlias = tuple[Spread, Spread]
"""Distributions of times to the first byte, and of total times."""


class ModelHistogram(Schema):
    model: str
    period: PeriodName
    project: str | None
    ttfb: Spread
    latency: Spread


async def costs(store: Reader, catalog: Catalog, now: float, *, project: str | None = None, **query: Any) -> Costs:
    """Sum up the costs of a period. `query`: see `read_period`. Raises RequestError, UnknownProjectError."""
    return await costs_of(store, read_period(now, **query), project_filter(catalog, project))


async def costs_of(store: Reader, period: Period, project: str | None) -> Costs:
    totals = await store.read_as(cost_groups, windows.costs, period.window, project)
    return msgspec.structs.replace(totals, period=period.name, since=period.since, until=period.until, project=project)


def cost_groups(rows: Iterable[CostRow]) -> Costs:
    """Sum up and group `rows`, for all periods and projects: the caller replaces these fields."""
    rows = list(rows)
    return Costs(
        period="all",
        since=None,
        until=0.0,
        project=None,
        total=usd(sum(row.cost_nusd for row in rows)),
        requests=sum(row.requests for row in rows),
        unpriced_requests=sum(row.unpriced for row in rows),
        unpriced_estimate=usd(sum(row.estimated_nusd for row in rows)),
        wasted=usd(sum(row.wasted_nusd for row in rows)),
        saved=usd(sum(row.saved_nusd for row in rows)),
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
    store: Reader, catalog: Catalog, now: float, *, project: str | None = None, allowed: tuple[str, ...] = BOUNDED,
    **query: Any,
) -> dict[str, ModelLatency]:  # fmt: skip
    """Return times in ms by model id; empty when the period has no requests."""
    return await latency_of(store, read_period(now, **query, allowed=allowed), project_filter(catalog, project))


async def latency_of(store: Reader, period: Period, project: str | None, *, apart: bool = False) -> dict[str, ModelLatency]:
    """Return times by model id. `apart`: modalities of one id are entries of their own, see `windows.latencies_apart`."""
    query = windows.latencies_apart if apart else windows.latencies
    return await store.read_as(_latency_by_model, query, period.window, project)


async def latency_and_histograms(
    store: Reader, catalog: Catalog, now: float, models: Sequence[str], *, project: str | None = None, **query: Any
) -> tuple[dict[str, ModelLatency], list[ModelHistogram]]:
    """Return times by model id, with modalities apart, and what `histogram` returns for `models`, reading the rows once.

    Without `models` it is the one with the most requests.
    """
    period, only = read_period(now, **query, allowed=BOUNDED), project_filter(catalog, project)
    shaped = partial(_latency_and_spreads, models=models)
    by_model, known = await store.read_as(shaped, windows.latencies_apart, period.window, only)
    histograms = [
        _model_histogram(name, period, only, known[name])
        if name in known
        else await histogram(store, catalog, now, model=name, project=project, **query)
        for name in models or known
    ]
    return by_model, histograms


def _latency_and_spreads(
    rows: Mapping[str, LatencyRow], models: Sequence[str]
) -> tuple[dict[str, ModelLatency], dict[str, Spreads]]:
    most_used = sorted(rows, key=lambda name: (-rows[name].requests, name))[:1]
    return _latency_by_model(rows), {name: _spreads(rows, name) for name in models or most_used if name in rows}


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
    store: Reader, catalog: Catalog, now: float, *, metric: str = "requests", by: str = "none", project: str | None = None,
    model: str | None = None, step: str | int | None = None, **query: Any,
) -> CountSeries | TimeSeries:  # fmt: skip
    """Return points over a period. Of times, `model` can be a name of `latencies_apart`. Raises RequestError, UnknownProjectError."""
    one_of("metric", metric, METRICS)
    one_of("by", by, SPLITS)
    period = read_period(now, **query, allowed=BOUNDED)
    only, step_s = project_filter(catalog, project), period.step(step, split=by != "none" or metric in COUNTS)
    buckets = period.buckets(step_s)
    points: Any = {"by": by, "project": only, "model_id": model or None}
    shared: Any = {"metric": metric, "period": period.name, "by": by, "project": only, "model": model or None}
    shared |= {"since": period.since, "until": period.until, "grain": unit(step_s), "step_s": step_s}
    shared["times"] = [bucket * step_s for bucket in buckets]
    if metric in COUNTS:
        counted = partial(_count_lines, metric=metric, buckets=buckets)
        lines = await store.read_as(counted, windows.points, period.window, step_s, cast("Metric", metric), **points)
        return CountSeries(**shared, series=lines)
    if model and (whole := windows.model_of(model)) != model:
        points |= {"by": "model and modality", "model_id": whole}
    timed = partial(_time_lines, metric=cast("TimeMetric", metric), buckets=buckets, apart=model if points["by"] != by else None)
    return TimeSeries(
        **shared, series=await store.read_as(timed, windows.latency_points, period.window, step_s, **points)
    )


def _count_lines(points: list[WindowPoint], metric: str, buckets: range) -> list[CountLine]:
    by_name: dict[str, dict[int, int]] = {}
    for point in points:
        by_name.setdefault(point.name, {})[point.bucket] = point.value
    unit = usd if metric == "cost" else int
    largest_first = sorted(by_name.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    lines = [
        CountLine(name=name, total=unit(sum(sums.values())), values=[unit(sums.get(bucket, 0)) for bucket in buckets])
        for name, sums in largest_first
    ]
    return preencoded(lines)


def _time_lines(
    rows: Mapping[tuple[int, str], LatencyRow], metric: TimeMetric, buckets: range, apart: str | None
) -> list[TimeLine]:
    """`apart`: only this name, one of a model and a modality."""
    lines: list[TimeLine] = []
    for name in sorted({name for _, name in rows if apart in (None, name)}):
        result = [rows.get((bucket, name)) for bucket in buckets]
        points = [row.quantiles(metric, 0.5, 0.95, 0.99) if row else (0, [None] * 3) for row in result]
        p50, p95, p99 = ([rounded(values[n]) for _, values in points] for n in range(3))
        lines.append(TimeLine(name=name, count=[count for count, _ in points], p50=p50, p95=p95, p99=p99))
    return preencoded(lines)


async def histogram(
    store: Reader, catalog: Catalog, now: float, *, model: str | None, project: str | None = None, **query: Any
) -> ModelHistogram:
    """Return the distribution of one model's times. Raises RequestError, UnknownProjectError."""
    if not model:
        raise RequestError(what="model is needed", param="model")
    period, only = read_period(now, **query, allowed=BOUNDED), project_filter(catalog, project)
    rows = windows.latencies if windows.model_of(model) == model else windows.latencies_apart
    return _model_histogram(model, period, only, await store.read_as(partial(_spreads, model=model), rows, period.window, only))


def _model_histogram(model: str, period: Period, project: str | None, spreads: Spreads) -> ModelHistogram:
    ttfb, total = spreads
    return ModelHistogram(model=model, period=period.name, project=project, ttfb=ttfb, latency=total)


def _spreads(rows: Mapping[str, LatencyRow], model: str) -> Spreads:
    row = rows.get(model, LatencyRow())
    return preencoded(_spread(row.ttfb)), preencoded(_spread(row.total))


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
