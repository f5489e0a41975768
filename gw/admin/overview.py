"""The dashboard's first page: today compared with yesterday at this time, the last 24 hours, and every budget."""

from __future__ import annotations

from functools import partial
from typing import Any

from gw.admin.budget_use import budget_share
from gw.admin.comparison import Comparison, comparison
from gw.admin.listings import Spent, models_of
from gw.admin.periods import BOUNDED, read_period
from gw.admin.reports import rounded
from gw.admin.request_models import project_filter
from gw.admin.schemas import Ms, Schema, Usd, from_attributes, usd
from gw.policy import budget
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.queries import Days, Figures
from gw.store.record_reader import query_as, unconverted
from gw.store.rollups import Point
from gw.store.store import Reader
from gw.telemetry.clock import utc_day, utc_hour
from gw.telemetry.histogram import Histogram
from gw.types.entities import BudgetAction, BudgetStatus, Project
from gw.types.ids import MODALITIES, Modality

HOURS = 24
MOVERS = 5


class MedianAndTail(Schema):
    p50: Ms | None
    p95: Ms | None


class DayFigures(Schema):
    requests: int
    errors: int
    refused: int
    fallbacks: int
    cancelled: int
    cost: Usd
    wasted: Usd
    saved: Usd
    ttfb: MedianAndTail
    ttfb_by_modality: dict[Modality, MedianAndTail]


class HourLists(Schema):
    """24 entries each, the current UTC hour last. `times` are the Unix seconds at which the hours begin."""

    times: list[int]
    requests: list[int]
    errors: list[int]
    cost: list[float]
    ttfb_p50: list[float | None]


class Mover(Schema):
    """A model's cost today and in the same UTC hours of yesterday; the current hour counts completely on both days."""

    model: str
    cost: Usd
    cost_yesterday: Usd
    requests: int
    requests_yesterday: int


class BudgetState(Schema):
    """`share` is the part of the daily budget that is spent; null without a budget."""

    project: str
    name: str
    accent: str
    spent: Usd
    daily_budget: Usd
    budget_action: BudgetAction
    budget_status: BudgetStatus
    share: float | None


class Overview(Schema):
    """`yesterday` ends at the same time of day as `today`. `active_requests` counts all projects. `compared`: the chosen period."""

    total_requests: int
    total_cost_today: Usd
    total_cost_all: Usd
    active_models: int
    providers_configured: int
    requests_today: int
    errors_today: int
    refused_today: int
    fallbacks_today: int
    cancelled_today: int
    unpriced_today: int
    active_requests: int
    today: DayFigures
    yesterday: DayFigures
    hours: HourLists
    movers: list[Mover]
    budgets: list[BudgetState]
    compared: Comparison


async def overview(
    store: Reader, catalog: Catalog, now: float, *, spent: Spent, active: int, project: str | None = None,
    **query: Any,
) -> Overview:  # fmt: skip
    """Return the figures of the first page. For a project with a default stack, its models are those of the stack.

    `active` is the number of requests in flight, of all projects. `yesterday` ends a day before now, to the second (that
    of `movers` at the full hour), unless its records have been deleted (`retention_days: 1`).
    """
    only, period = project_filter(catalog, project), read_period(now, **query, allowed=BOUNDED)
    hour = utc_hour(now)
    midnight = hour - hour % HOURS
    movers_query = query_as(
        partial(_movers, midnight=midnight, last=hour),
        queries.points, "hour", midnight - HOURS, hour, by="model", project=only, model_id=None,
    )  # fmt: skip
    days_query = query_as(partial(_days, last=hour), queries.days, now, HOURS, only)
    sums_query = query_as(unconverted, queries.sums, utc_day(now), only)
    sums, (day, yesterday, hours), movers = await store.read_together(sums_query, days_query, movers_query)
    usable = {provider.id for provider in catalog.providers.values() if provider.configured}
    projects = [catalog.project(only)] if only else catalog.projects.values()
    return Overview(
        total_requests=sums.ever.requests,
        total_cost_today=usd(sums.today.cost_nusd),
        total_cost_all=usd(sums.ever.cost_nusd),
        active_models=len({model.id for model in models_of(catalog, only) if model.provider in usable}),
        providers_configured=len(usable),
        requests_today=sums.today.requests,
        errors_today=sums.today.errors,
        refused_today=sums.today.refused,
        fallbacks_today=sums.today.fallbacks,
        cancelled_today=sums.today.cancelled,
        unpriced_today=sums.today.unpriced,
        active_requests=active,
        today=day,
        yesterday=yesterday,
        hours=hours,
        movers=movers,
        budgets=[_budget(entry, spent(entry.id)) for entry in projects],
        compared=await comparison(store, period, only),
    )


def _movers(points: list[Point], midnight: int, last: int) -> list[Mover]:
    """Return the models whose cost differs most from the same hours of yesterday."""
    by_model: dict[str, list[tuple[int, int]]] = {}
    for point in points:
        days = by_model.setdefault(point.name, [(0, 0), (0, 0)])
        if point.bucket >= midnight or point.bucket <= last - HOURS:
            index = int(point.bucket < midnight)
            cost, requests = days[index]
            days[index] = (cost + point.cost_nusd, requests + point.requests)
    largest_first = sorted(by_model.items(), key=lambda item: (-abs(item[1][0][0] - item[1][1][0]), item[0]))
    return [
        Mover(model=name, cost=usd(cost), cost_yesterday=usd(before), requests=count, requests_yesterday=count_before)
        for name, ((cost, count), (before, count_before)) in largest_first[:MOVERS]
        if (cost, count) != (before, count_before)
    ]


def _days(days: Days, last: int) -> tuple[DayFigures, DayFigures, HourLists]:
    hours = range(last - HOURS + 1, last + 1)
    entries = [days.hours.get(hour) for hour in hours]
    lists = HourLists(
        times=[hour * 3_600 for hour in hours],
        requests=[entry[0].requests if entry else 0 for entry in entries],
        errors=[entry[0].errors if entry else 0 for entry in entries],
        cost=[usd(entry[0].cost_nusd) if entry else 0.0 for entry in entries],
        ttfb_p50=[rounded(entry[1].quantile(0.5)) if entry else None for entry in entries],
    )
    return _figures(days.today), _figures(days.yesterday), lists


def _figures(figures: Figures) -> DayFigures:
    totals = figures.totals
    return from_attributes(
        DayFigures,
        totals,
        cost=usd(totals.cost_nusd),
        wasted=usd(totals.wasted_nusd),
        saved=usd(totals.saved_nusd),
        ttfb=_median_and_tail(figures.ttfb[""]),
        ttfb_by_modality={name: _median_and_tail(figures.ttfb[name]) for name in MODALITIES if name in figures.ttfb},
    )


def _median_and_tail(histogram: Histogram) -> MedianAndTail:
    p50, p95 = map(rounded, histogram.quantiles(0.5, 0.95))
    return MedianAndTail(p50=p50, p95=p95)


def _budget(project: Project, spent_nusd: int) -> BudgetState:
    limit = project.daily_budget_nusd
    return from_attributes(
        BudgetState,
        project,
        project=project.id,
        name=project.name or project.id,
        spent=usd(spent_nusd),
        daily_budget=usd(limit),
        budget_status=budget.status(spent_nusd, limit),
        share=budget_share(spent_nusd, limit),
    )
