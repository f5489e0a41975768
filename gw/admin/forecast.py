"""What the month will have cost: each coming day as its weekday usually was, beside what the daily budgets allow."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from statistics import fmean

import attrs

from gw.admin.reports import Json, known_project, usd
from gw.registry.catalog import Catalog
from gw.store import queries
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


async def forecast(store: Reader, catalog: Catalog, now: float, *, project: str | None = None) -> Json:
    """The UTC month of `now`, for each project and in all. Projects that are gone count in the sum."""
    only = known_project(catalog, project)
    today = utc_day(now)
    begin = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    days = monthrange(begin.year, begin.month)[1]
    first, last = utc_day(begin.timestamp()), utc_day((begin + timedelta(days=days)).timestamp()) - 1
    spend: dict[str, dict[int, int]] = {}
    everything: dict[int, int] = {}
    since = min(first, today - 7 * WEEKS)
    for point in await store.read(queries.points, "day", since, today, by="project", project=only, model_id=None):
        spend.setdefault(point.name, {})[point.bucket] = point.cost_nusd
        everything[point.bucket] = everything.get(point.bucket, 0) + point.cost_nusd
    elapsed = now % DAY_S / DAY_S
    budgets = {entry.id: entry.daily_budget_nusd for entry in catalog.projects.values() if only in (None, entry.id)}
    return {
        "month": f"{begin.year:04}-{begin.month:02}",
        "days": days,
        "day": today - first + 1,
        "project": only,
        "total": _shown(estimate(everything, today, elapsed, first, last), sum(budgets.values()), days),
        "projects": {
            name: _shown(estimate(spend.get(name, {}), today, elapsed, first, last), budgets.get(name, 0), days)
            for name in sorted({*spend, *budgets})
        },
    }


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
