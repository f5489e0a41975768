"""What the month will have cost: each coming day as its weekday usually was, beside what the daily budgets allow."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from statistics import fmean

import attrs

from gw.admin.reports import Json, known_project, usd
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.rollups import Point
from gw.store.store import Reader
from gw.telemetry.clock import DAY_S, utc_day

WEEKS = 4
"""Whole weeks before today that are looked at."""
_Z_80 = 1.2816
"""Standard deviations on each side that hold 80 % of a normal distribution."""


@attrs.frozen(kw_only=True)
class Estimate:
    """Of a whole month, in nano-USD: 80 % of months like this end between `low` and `high`."""

    spent: int
    expected: int
    low: int
    high: int


def estimate(spend: Mapping[int, int], today: int, elapsed: float, first: int, last: int) -> Estimate:
    """`spend`: nano-USD per UTC day; `elapsed`: share of today that is over; `first`, `last`: the month's days.

    A day is expected to be the mean of the same weekdays of the last WEEKS weeks, as far back as there was any spend;
    without such days, the mean of all days there are; on the first day ever, today's pace. The band grows with the
    square root of the days to come: what was off on one day says nothing about the next.
    """
    spent = sum(nusd for day, nusd in spend.items() if first <= day <= today)
    begun = min((day for day, nusd in spend.items() if nusd), default=today)
    past = {day: spend.get(day, 0) for day in range(max(begun, today - 7 * WEEKS), today)}
    pace = spend.get(today, 0) / elapsed if elapsed > 0 else 0.0
    usual = fmean(past.values()) if past else pace

    def expected(day: int) -> float:
        same = [nusd for other, nusd in past.items() if (other - day) % 7 == 0]
        return fmean(same) if same else usual

    rest = (1 - elapsed) * expected(today) + sum(expected(day) for day in range(today + 1, last + 1))
    off = fmean([(nusd - expected(day)) ** 2 for day, nusd in past.items()]) ** 0.5 if past else 0.0
    band = _Z_80 * off * (1 - elapsed + last - today) ** 0.5
    return Estimate(
        spent=spent,
        expected=round(spent + rest),
        low=round(spent + max(0.0, rest - band)),
        high=round(spent + rest + band),
    )


@attrs.frozen(kw_only=True)
class _Month:
    """The month of `now`, its UTC days, and each project's daily budget in nano-USD."""

    name: str
    first: int
    last: int
    today: int
    elapsed: float
    project: str | None
    budgets: Mapping[str, int]


async def forecast(store: Reader, catalog: Catalog, now: float, *, project: str | None = None) -> Json:
    """The UTC month of `now`, for each project and in all. Projects that are gone count in the sum.

    Budgets are compared with the spend of those who have one: `budgeted` is of these projects together, null where there
    are none; the `total` has a budget only where whoever spends has one.
    """
    only = known_project(catalog, project)
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
        budgets={one.id: one.daily_budget_nusd for one in catalog.projects.values() if only in (None, one.id)},
    )
    return await store.show(
        partial(_of_month, month=month),
        queries.points, "day", min(first, today - 7 * WEEKS), today, by="project", project=only, model_id=None,
    )  # fmt: skip


def _of_month(points: Iterable[Point], month: _Month) -> Json:
    spend: dict[str, dict[int, int]] = {}
    for point in points:
        if point.cost_nusd:
            spend.setdefault(point.name, {})[point.bucket] = point.cost_nusd
    days, budgets = month.last - month.first + 1, month.budgets
    limited = {name for name, nusd in budgets.items() if nusd}
    allowed = sum(budgets.values())

    def shown(names: Collection[str], budget_nusd: int) -> Json:
        found = estimate(_together(spend, names), month.today, month.elapsed, month.first, month.last)
        return _shown(found, budget_nusd, days)

    return {
        "month": month.name,
        "days": days,
        "day": month.today - month.first + 1,
        "project": month.project,
        "total": shown(spend, allowed if limited.issuperset(spend) else 0),
        "budgeted": shown(limited, allowed) if limited else None,
        "projects": {name: shown([name], budgets.get(name, 0)) for name in sorted({*spend, *budgets})},
    }


def _together(spend: Mapping[str, Mapping[int, int]], names: Collection[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for name in names:
        for day, nusd in spend.get(name, {}).items():
            found[day] = found.get(day, 0) + nusd
    return found


def _shown(estimate: Estimate, daily_budget_nusd: int, days: int) -> Json:
    """`budget`: daily budget × days of the month, null without one."""
    budget = daily_budget_nusd * days
    return {
        "spent": usd(estimate.spent),
        "expected": usd(estimate.expected),
        "low": usd(estimate.low),
        "high": usd(estimate.high),
        "budget": usd(budget) if budget else None,
        "over_budget": bool(budget) and estimate.expected > budget,
    }
