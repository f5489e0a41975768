"""Figures over time, for charts: lists of equal length, and the shape of a model's latency.

The long parts are encoded where they are made, and pass the gateway as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from gw.admin.reports import LATENCY_PERIODS, Json, known_project, one_of, percentiles, rounded, since_day, usd
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.latency import LatencyRow
from gw.store.rollup_versions import Grain
from gw.store.rollups import BY, Point
from gw.store.store import Reader
from gw.telemetry.clock import DAY_S, utc_day, utc_hour
from gw.telemetry.histogram import Histogram

COUNTS = ("cost", "requests", "errors")
TIMES = ("ttfb", "latency")
METRICS = (*COUNTS, *TIMES)
SPLITS = tuple(BY)


async def series(
    store: Reader,
    catalog: Catalog,
    now: float,
    *,
    metric: str = "requests",
    period: str = "today",
    by: str = "none",
    project: str | None = None,
    model: str | None = None,
) -> Json:
    """One point per UTC hour (today) or day. Counts have `values`, times `p50`, `p95`, `p99` (null = nothing measured)."""
    one_of("metric", metric, METRICS)
    one_of("by", by, SPLITS)
    first = since_day(period, now, LATENCY_PERIODS) or 0
    grain: Grain = "hour" if period == "today" else "day"
    since, until = (24 * first, utc_hour(now)) if grain == "hour" else (first, utc_day(now))
    only = known_project(catalog, project)
    buckets = range(since, until + 1)
    model_id = model or None
    if metric in COUNTS:
        lines = await store.show(
            partial(_counts, metric=metric, buckets=buckets),
            queries.points, grain, since, until, by=by, project=only, model_id=model_id,
        )  # fmt: skip
    else:
        lines = await store.show(
            partial(_times, metric=metric, buckets=buckets),
            queries.latency_points, grain, since, until, by=by, project=only, model_id=model_id,
        )  # fmt: skip
    return {
        "metric": metric,
        "period": period,
        "by": by,
        "project": only,
        "model": model or None,
        "grain": grain,
        "times": [bucket * (3_600 if grain == "hour" else DAY_S) for bucket in buckets],
        "series": lines,
    }


def _counts(points: list[Point], metric: str, buckets: range) -> msgspec.Raw:
    """The largest first."""
    found: dict[str, dict[int, int]] = {}
    for point in points:
        value = {"cost": point.cost_nusd, "requests": point.requests, "errors": point.errors}[metric]
        found.setdefault(point.name, {})[point.bucket] = value
    largest_first = sorted(found.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return _encoded(
        {
            "name": name,
            "total": usd(sum(values.values())) if metric == "cost" else sum(values.values()),
            "values": [usd(values.get(bucket, 0)) if metric == "cost" else values.get(bucket, 0) for bucket in buckets],
        }
        for name, values in largest_first
    )


def _times(rows: Mapping[tuple[int, str], LatencyRow], metric: str, buckets: range) -> msgspec.Raw:
    lines: list[Json] = []
    histograms = {key: row.ttfb if metric == "ttfb" else row.total for key, row in rows.items()}
    for name in sorted({name for _, name in histograms}):
        found = [histograms.get((bucket, name)) for bucket in buckets]
        quantiles = [h.quantiles(0.5, 0.95, 0.99) if h else [None] * 3 for h in found]
        lines.append(
            {
                "name": name,
                "count": [h.count if h else 0 for h in found],
                **{
                    label: [rounded(values[n]) for values in quantiles] for n, label in enumerate(("p50", "p95", "p99"))
                },
            }
        )
    return _encoded(lines)


def _encoded(value: Iterable[Json] | Json) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value if isinstance(value, dict) else list(value)))


async def histogram(
    store: Reader, catalog: Catalog, now: float, *, model: str, period: str = "today", project: str | None = None
) -> Json:
    """How one model's times are spread. Buckets have the same edges for every model, so two can be laid over each other."""
    day = since_day(period, now, LATENCY_PERIODS) or 0
    only = known_project(catalog, project)
    spread = await store.show(
        _spreads, queries.latency_points, "day", day, utc_day(now), by="none", project=only, model_id=model
    )
    return {"model": model, "period": period, "project": only, **spread}


def _spreads(rows: Mapping[tuple[int, str], LatencyRow]) -> Json:
    ttfb, total = Histogram(), Histogram()
    for row in rows.values():
        ttfb.merge(row.ttfb)
        total.merge(row.total)
    return {"ttfb": _encoded(_spread(ttfb)), "latency": _encoded(_spread(total))}


def _spread(histogram: Histogram) -> Json:
    return {
        "count": histogram.count,
        "avg_ms": rounded(histogram.mean_ms),
        "percentiles": percentiles(histogram),
        "buckets": [
            {"from_ms": round(low, 3), "to_ms": round(high, 3), "count": count}
            for low, high, count in histogram.buckets()
        ],
    }
