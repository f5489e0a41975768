"""Forecast of the month's cost: each coming day as its weekday usually was, compared with the daily budgets."""

from __future__ import annotations

from calendar import monthrange
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial

import msgspec

from gw.admin.request_models import project_filter
from gw.admin.schemas import Schema, Usd, usd
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.rollups import Point
from gw.store.store import Reader
from gw.telemetry.clock import DAY_S, utc_day

WEEKS = 4  # weeks before today that are taken into account
_Z_80 = 1.2816  # 80 % of a normal distribution lie within so many standard deviations of its mean


class MonthEstimate(Schema):
    """`budget` is the daily budget times the days of the month, null without one. Four months of five end between `low`
    and `high`."""

    spent: Usd
    expected: Usd
    low: Usd
    high: Usd
    budget: Usd | None
    over_budget: bool


class Forecast(Schema):
    """The current UTC month (`YYYY-MM`); `day` is today's number in it. `budgeted` sums up the projects with a budget and is
    null without any; `total` has a budget if every project that spends has one."""

    month: str
    days: int
    day: int
    project: str | None
    total: MonthEstimate
    budgeted: MonthEstimate | None
    projects: dict[str, MonthEstimate]


class _Month(msgspec.Struct, frozen=True, kw_only=True):
    """The current UTC month: its days, the elapsed share of today, and each project's daily budget in nano-USD."""

    name: str
    first: int
    last: int
    today: int
    elapsed: float
    project: str | None
    budgets: Mapping[str, int]


def _estimate(spend: Mapping[int, int], daily_budget_nusd: int, month: _Month) -> MonthEstimate:
    """Estimate a month from `spend`: nano-USD per UTC day.

    A day is expected to cost the mean of the same weekdays of the last WEEKS weeks, as far back as there was any spend;
    without such days, the mean of all past days; on the first day ever, today's pace. The band grows with the square
    root of the remaining days, because errors of single days are independent.
    """
    from statistics import fmean  # with all it loads, when the first estimate is made

    first, last, today, elapsed = month.first, month.last, month.today, month.elapsed
    spent = sum(nusd for day, nusd in spend.items() if first <= day <= today)
    first_spend = min((day for day, nusd in spend.items() if nusd), default=today)
    past = {day: spend.get(day, 0) for day in range(max(first_spend, today - 7 * WEEKS), today)}
    pace = spend.get(today, 0) / elapsed if elapsed > 0 else 0.0
    usual = fmean(past.values()) if past else pace

    def expected(day: int) -> float:
        same = [nusd for other, nusd in past.items() if (other - day) % 7 == 0]
        return fmean(same) if same else usual

    remaining = (1 - elapsed) * expected(today) + sum(expected(day) for day in range(today + 1, last + 1))
    deviation = fmean([(nusd - expected(day)) ** 2 for day, nusd in past.items()]) ** 0.5 if past else 0.0
    band = _Z_80 * deviation * (1 - elapsed + last - today) ** 0.5
    budget = daily_budget_nusd * (last - first + 1)
    return MonthEstimate(
        spent=usd(spent),
        expected=usd(round(spent + remaining)),
        low=usd(round(spent + max(0.0, remaining - band))),
        high=usd(round(spent + remaining + band)),
        budget=usd(budget) if budget else None,
        over_budget=0 < budget < round(spent + remaining),
    )


async def forecast(store: Reader, catalog: Catalog, now: float, *, project: str | None = None) -> Forecast:
    """Estimate the UTC month of `now`, per project and in total. Deleted projects count in the total.

    Budgets are compared with the spend of the projects that have one. Raises UnknownProjectError.
    """
    only = project_filter(catalog, project)
    today = utc_day(now)
    begin = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    first = utc_day(begin.timestamp())
    month = _Month(
        name=f"{begin.year:04}-{begin.month:02}",
        first=first,
        last=first + monthrange(begin.year, begin.month)[1] - 1,
        today=today,
        elapsed=now % DAY_S / DAY_S,
        project=only,
        budgets={entry.id: entry.daily_budget_nusd for entry in catalog.projects.values() if only in (None, entry.id)},
    )
    return await store.read_as(
        partial(_forecast, month=month),
        queries.points, "day", min(first, today - 7 * WEEKS), today, by="project", project=only, model_id=None,
    )  # fmt: skip


def _forecast(points: Iterable[Point], month: _Month) -> Forecast:
    spend: dict[str, dict[int, int]] = {}
    for point in points:
        if point.cost_nusd:
            spend.setdefault(point.name, {})[point.bucket] = point.cost_nusd
    budgets = month.budgets
    limited = {name for name, nusd in budgets.items() if nusd}
    total_budget = sum(budgets.values())

    def estimated(names: Collection[str], daily_budget_nusd: int) -> MonthEstimate:
        days: Counter[int] = Counter()
        for name in names:
            days.update(spend.get(name, {}))
        return _estimate(days, daily_budget_nusd, month)

    return Forecast(
        month=month.name,
        days=month.last - month.first + 1,
        day=month.today - month.first + 1,
        project=month.project,
        total=estimated(spend, total_budget if limited.issuperset(spend) else 0),
        budgeted=estimated(limited, total_budget) if limited else None,
        projects={name: estimated([name], budgets.get(name, 0)) for name in sorted({*spend, *budgets})},
    )
