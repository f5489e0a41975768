"""A period of the dashboard's first page beside the period before: sums, times to the first byte, and figures over time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from gw.admin.first_audio_reports import FirstAudio, summary
from gw.admin.periods import Period, PeriodName, Unit, unit
from gw.admin.reports import rounded
from gw.admin.schemas import Ms, Schema, UnixSeconds, Usd, usd
from gw.store import first_audio, windows
from gw.store.latency import LatencyRow, QueryContext
from gw.store.store import Reader
from gw.store.window_pieces import TimeWindow
from gw.store.windows import Trend, WindowFigures
from gw.telemetry.histogram import Histogram
from gw.types.ids import MODALITIES, Modality


class Quantiles(Schema):
    p50: Ms | None
    p95: Ms | None
    p99: Ms | None


class PeriodFigures(Schema, rename={"since": "from", "until": "to"}):
    """Requests that began from `from` on and before `to`. `unpriced` of them have no known cost, or a part without.

    `refused`: by a budget or a limit, or because the request was wrong; these are not `errors`. `fallbacks` were answered by a
    later candidate, also where the caller left then. `first_audio` is of turns: from the caller's last word to the first sound.
    """

    since: UnixSeconds | None
    until: UnixSeconds
    requests: int
    errors: int
    refused: int
    fallbacks: int
    cancelled: int
    unpriced: int
    cost: Usd
    wasted: Usd
    saved: Usd
    ttfb: Quantiles
    ttfb_by_modality: dict[Modality, Quantiles]
    first_audio: FirstAudio


class Course(Schema):
    """Figures over time, of equal length: one per step of `step_s` seconds, which begins at `times` (Unix seconds)."""

    grain: Unit
    step_s: int
    times: list[int]
    requests: list[int]
    errors: list[int]
    cost: list[float]
    ttfb_p50: list[float | None]
    first_audio_p50: list[float | None]


class Comparison(Schema):
    """`before` is the period before, as far as this one has come."""

    period: PeriodName
    current: PeriodFigures
    before: PeriodFigures
    course: Course


async def comparison(store: Reader, period: Period, project: str | None) -> Comparison:
    """Compare a period, which has a beginning, with the one before it."""
    before = cast("Period", period.before)
    step_s = period.step(None, split=True)
    shaped = partial(_compared, period=period, before=before, step_s=step_s)
    return await store.read_as(shaped, _read, period.window, before.window, step_s, project)


_Audio = Mapping[Any, Histogram]
_Found = tuple[WindowFigures, WindowFigures, Trend, _Audio, _Audio, _Audio]


def _read(context: QueryContext, window: TimeWindow, before: TimeWindow, step_s: int, project: str | None) -> _Found:
    return (
        windows.figures(context, window, project),
        windows.figures(context, before, project),
        windows.trend(context, window, step_s, project),
        first_audio.by_name(context, window, "none", project),
        first_audio.by_name(context, before, "none", project),
        first_audio.by_step(context, window, step_s, project),
    )


def _compared(read: _Found, period: Period, before: Period, step_s: int) -> Comparison:
    current, previous, trend, audio, audio_before, audio_steps = read
    return Comparison(
        period=period.name,
        current=_figures(period, current, audio),
        before=_figures(before, previous, audio_before),
        course=_course(trend, audio_steps, period, step_s),
    )


def _figures(period: Period, figures: WindowFigures, audio: _Audio) -> PeriodFigures:
    sums, times = figures.totals, figures.latency
    return PeriodFigures(
        since=period.since,
        until=period.until,
        requests=sums.requests,
        errors=sums.errors,
        refused=sums.refused,
        fallbacks=sums.fallbacks,
        cancelled=sums.cancelled,
        unpriced=sums.unpriced,
        cost=usd(sums.cost_nusd),
        wasted=usd(sums.wasted_nusd),
        saved=usd(sums.saved_nusd),
        ttfb=_quantiles(times[""]),
        ttfb_by_modality={name: _quantiles(times[name]) for name in MODALITIES if name in times},
        first_audio=summary(audio.get("")),
    )


def _quantiles(row: LatencyRow) -> Quantiles:
    _, values = row.quantiles("ttfb", 0.5, 0.95, 0.99)
    p50, p95, p99 = map(rounded, values)
    return Quantiles(p50=p50, p95=p95, p99=p99)


def _course(trend: Trend, audio: _Audio, period: Period, step_s: int) -> Course:
    buckets = period.buckets(step_s)
    counts: Any = {metric: [sums.get(bucket, 0) for bucket in buckets] for metric, sums in trend.counts.items()}
    rows = [trend.latency.get(bucket) for bucket in buckets]
    return Course(
        grain=unit(step_s),
        step_s=step_s,
        times=[bucket * step_s for bucket in buckets],
        requests=counts["requests"],
        errors=counts["errors"],
        cost=[usd(nusd) for nusd in counts["cost"]],
        ttfb_p50=[rounded(row.quantiles("ttfb", 0.5)[1][0]) if row else None for row in rows],
        first_audio_p50=[summary(audio.get(bucket)).p50 for bucket in buckets],
    )
