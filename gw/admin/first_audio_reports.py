"""First audio: how long callers wait from their last word to the first sound of the answer, over turns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from gw.admin.periods import BOUNDED, Period, PeriodName, Unit, read_period, unit
from gw.admin.reports import rounded
from gw.admin.request_models import project_filter
from gw.admin.schemas import Ms, Schema, UnixSeconds
from gw.errors import StoreError
from gw.registry.catalog import Catalog
from gw.store import first_audio
from gw.store.latency import QueryContext
from gw.store.store import Reader
from gw.store.window_pieces import TimeWindow
from gw.telemetry.clock import DAY_S
from gw.telemetry.histogram import Histogram


class FirstAudio(Schema):
    """`count` turns with sound; percentiles of their first audio, within 3 %."""

    count: int
    p50: Ms | None
    p95: Ms | None
    p99: Ms | None


class FirstAudioCourse(Schema):
    """One entry per step of `step_s` seconds, which begins at `times` (Unix seconds)."""

    grain: Unit
    step_s: int
    times: list[int]
    count: list[int]
    p50: list[float | None]
    p95: list[float | None]
    p99: list[float | None]


class FirstAudioReport(Schema, rename={"since": "from", "until": "to"}):
    """`by_stack`: by the models of the stages, as `stt / llm / tts`; the most turns first. `before`: the period before."""

    period: PeriodName
    since: UnixSeconds | None
    until: UnixSeconds
    project: str | None
    all: FirstAudio
    before: FirstAudio
    by_stack: dict[str, FirstAudio]
    by_project: dict[str, FirstAudio]
    course: FirstAudioCourse


def summary(histogram: Histogram | None) -> FirstAudio:
    if histogram is None:
        return FirstAudio(count=0, p50=None, p95=None, p99=None)
    p50, p95, p99 = map(rounded, histogram.quantiles(0.5, 0.95, 0.99))
    return FirstAudio(count=histogram.count, p50=p50, p95=p95, p99=p99)


async def report(
    store: Reader, catalog: Catalog, now: float, *, project: str | None = None, step: str | None = None, **query: Any
) -> FirstAudioReport:
    """Return first audio of the turns that began in a period. Raises RequestError, UnknownProjectError."""
    period, only = read_period(now, **query, allowed=BOUNDED), project_filter(catalog, project)
    step_s = period.step(step, split=False)
    shaped = partial(_report, period=period, only=only, step_s=step_s)
    before = period.before
    return await store.read_as(shaped, _read, period.window, None if before is None else before.window, step_s, only)


async def of_today(store: Reader, now: float) -> Mapping[str, Histogram]:
    """Return the first audio of the current UTC day by project; of none while the records cannot be read."""
    try:
        return await store.read_as(dict, _today, TimeWindow(now // DAY_S * DAY_S))
    except StoreError:
        return {}


def _today(context: QueryContext, window: TimeWindow) -> dict[str, Histogram]:
    return first_audio.by_name(context, window, "project", None)


_Names = Mapping[str, Histogram]
_Found = tuple[_Names, _Names, _Names, Mapping[int, Histogram]]


def _read(context: QueryContext, window: TimeWindow, before: TimeWindow | None, step_s: int, project: str | None) -> _Found:
    earlier = {} if before is None else first_audio.by_name(context, before, "none", project)
    by_stack, by_project = first_audio.by_stack_and_project(context, window, project)
    return by_stack, by_project, earlier, first_audio.by_step(context, window, step_s, project)


def _report(found: _Found, period: Period, only: str | None, step_s: int) -> FirstAudioReport:
    by_stack, by_project, earlier, steps = found
    everything = Histogram()
    for histogram in by_project.values():
        everything.merge(histogram)
    return FirstAudioReport(
        period=period.name, since=period.since, until=period.until, project=only,
        all=summary(everything), before=summary(earlier.get("")),
        by_stack=_groups(by_stack), by_project=_groups(by_project), course=_course(steps, period, step_s),
    )  # fmt: skip


def _groups(names: _Names) -> dict[str, FirstAudio]:
    most_first = sorted(names.items(), key=lambda item: (-item[1].count, item[0]))
    return {name: summary(histogram) for name, histogram in most_first}


def _course(steps: Mapping[int, Histogram], period: Period, step_s: int) -> FirstAudioCourse:
    buckets = period.buckets(step_s)
    entries = [summary(steps.get(bucket)) for bucket in buckets]
    return FirstAudioCourse(
        grain=unit(step_s), step_s=step_s, times=[bucket * step_s for bucket in buckets], count=[entry.count for entry in entries],
        p50=[entry.p50 for entry in entries], p95=[entry.p95 for entry in entries], p99=[entry.p99 for entry in entries],
    )  # fmt: skip
