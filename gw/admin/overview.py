"""The dashboard's first page: today beside yesterday until the same time, the last 24 hours, and every budget."""

from __future__ import annotations

from functools import partial

from gw.admin import reports
from gw.admin.listings import Spent
from gw.admin.reports import Json, known_project, rounded, usd
from gw.policy import budget
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.day_summary import Days, Figures
from gw.store.record_reader import work
from gw.store.rollups import Point
from gw.store.store import Reader
from gw.telemetry.clock import utc_hour
from gw.telemetry.histogram import Histogram
from gw.types.ids import MODALITIES
from gw.types.project import Project

HOURS = 24
MOVERS = 5


async def overview(
    store: Reader, catalog: Catalog, now: float, *, spent: Spent, active: int, project: str | None = None
) -> Json:
    """The figures of `reports.overview` and what the page draws. `active`: requests that run now, of all projects.

    `yesterday` ends a day before now, to the second (that of `movers` with the hour), unless its records are forgotten
    already (`retention_days: 1`).
    """
    only = known_project(catalog, project)
    hour = utc_hour(now)
    midnight = hour - hour % HOURS
    movers = work(
        partial(_movers, midnight=midnight, last=hour),
        queries.points, "hour", midnight - HOURS, hour, by="model", project=only, model_id=None,
    )  # fmt: skip
    days = work(partial(_days, last=hour), queries.days, now, HOURS, only)
    sums, shown_days, shown_movers = await store.together(reports.sums_of(now, only), days, movers)
    projects = [catalog.project(only)] if only else list(catalog.projects.values())
    return {
        **reports.overview_figures(catalog, only, sums),
        "active_requests": active,
        **shown_days,
        "movers": shown_movers,
        "budgets": [_budget(entry, spent(entry.id)) for entry in projects],
    }


def _days(days: Days, last: int) -> Json:
    return {"today": _figures(days.today), "yesterday": _figures(days.yesterday), "hours": _hours(days, last)}


def _movers(points: list[Point], midnight: int, last: int) -> list[Json]:
    """The models whose cost differs most from yesterday's same hours; the running hour counts whole on both days."""
    found: dict[str, list[tuple[int, int]]] = {}
    for point in points:
        day = found.setdefault(point.name, [(0, 0), (0, 0)])
        if point.bucket >= midnight or point.bucket <= last - HOURS:
            index = int(point.bucket < midnight)
            cost, requests = day[index]
            day[index] = (cost + point.cost_nusd, requests + point.requests)
    largest_first = sorted(found.items(), key=lambda item: (-abs(item[1][0][0] - item[1][1][0]), item[0]))
    return [
        {
            "model": name,
            "cost": usd(today[0]),
            "cost_yesterday": usd(yesterday[0]),
            "requests": today[1],
            "requests_yesterday": yesterday[1],
        }
        for name, (today, yesterday) in largest_first[:MOVERS]
        if today != yesterday
    ]


def _figures(figures: Figures) -> Json:
    totals = figures.totals
    return {
        "requests": totals.requests,
        "errors": totals.errors,
        "fallbacks": totals.fallbacks,
        "cancelled": totals.cancelled,
        "cost": usd(totals.cost_nusd),
        "wasted": usd(totals.wasted_nusd),
        "ttfb": _two(figures.ttfb[""]),
        "ttfb_by_modality": {name: _two(figures.ttfb[name]) for name in MODALITIES if name in figures.ttfb},
    }


def _two(histogram: Histogram) -> Json:
    p50, p95 = histogram.quantiles(0.5, 0.95)
    return {"p50": rounded(p50), "p95": rounded(p95)}


def _hours(days: Days, last: int) -> Json:
    """Lists of equal length, one entry an hour, the newest last. `times`: Unix seconds of the hours' beginnings."""
    hours = range(last - HOURS + 1, last + 1)
    found = [days.hours.get(hour) for hour in hours]
    return {
        "times": [hour * 3_600 for hour in hours],
        "requests": [one[0].requests if one else 0 for one in found],
        "errors": [one[0].errors if one else 0 for one in found],
        "cost": [usd(one[0].cost_nusd) if one else 0.0 for one in found],
        "ttfb_p50": [rounded(one[1].quantile(0.5)) if one else None for one in found],
    }


def _budget(project: Project, spent_nusd: int) -> Json:
    """`share` of the budget that is spent; null without one."""
    limit = project.daily_budget_nusd
    return {
        "project": project.id,
        "name": project.name or project.id,
        "accent": project.accent,
        "spent": usd(spent_nusd),
        "daily_budget": usd(limit),
        "budget_action": project.budget_action,
        "budget_status": budget.status(spent_nusd, limit),
        "share": round(spent_nusd / limit, 6) if limit else None,
    }
