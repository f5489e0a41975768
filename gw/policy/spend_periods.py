"""Periods of budgets, and what somebody has spent in each of them. Money is integer nano-USD, days are UTC days since 1970-01-01.

A week begins on Monday and a month on its first day, at midnight UTC; `total` never ends.
"""

from __future__ import annotations

from datetime import date
from typing import Literal, TypeAlias, get_args

BudgetPeriod: TypeAlias = Literal["day", "week", "month", "total"]
PERIODS: tuple[BudgetPeriod, ...] = get_args(BudgetPeriod)
_ORDINAL_1970 = date(1970, 1, 1).toordinal()
_THURSDAY = 3  # 1970-01-01 was one


def first_day(period: BudgetPeriod, day: int) -> int:
    """Return the first day of the period that `day` is in."""
    match period:
        case "day":
            return day
        case "week":
            return day - (day + _THURSDAY) % 7
        case "month":
            return date.fromordinal(_ORDINAL_1970 + day).replace(day=1).toordinal() - _ORDINAL_1970
        case "total":
            return -_ORDINAL_1970


class EarlierSpend:
    """Spend before the current day: in its week, in its month, and in total."""

    __slots__ = ("month", "total", "week")

    def __init__(self, week: int = 0, month: int = 0, total: int = 0) -> None:
        self.week = week
        self.month = month
        self.total = total

    def end_day(self, day: int, next_day: int, spent: int) -> None:
        """Count what was spent on `day`, which has ended; `next_day` is the current one."""
        self.week = self.week + spent if first_day("week", day) == first_day("week", next_day) else 0
        self.month = self.month + spent if first_day("month", day) == first_day("month", next_day) else 0
        self.total += spent

    def add_late(self, day: int, today: int, spent: int) -> None:
        """Count a request of an earlier `day` that has ended today."""
        if day >= first_day("week", today):
            self.week += spent
        if day >= first_day("month", today):
            self.month += spent
        self.total += spent

    def of(self, period: BudgetPeriod) -> int:
        """Return what was spent in the period before the current day."""
        match period:
            case "day":
                return 0
            case "week":
                return self.week
            case "month":
                return self.month
            case "total":
                return self.total


class PeriodSpend:
    """Spend on the current day, and before it."""

    __slots__ = ("earlier", "today")

    def __init__(self, today: int = 0, earlier: EarlierSpend | None = None) -> None:
        self.today = today
        self.earlier = EarlierSpend() if earlier is None else earlier

    def of(self, period: BudgetPeriod) -> int:
        """Return what was spent in the current period."""
        return self.today + self.earlier.of(period)

    def add(self, spent: int, day: int, today: int) -> None:
        """Count what was spent by a request that began on `day`."""
        if day == today:
            self.today += spent
        else:
            self.earlier.add_late(day, today, spent)

    def end_day(self, ended: int, day: int) -> None:
        """Begin another day."""
        self.earlier.end_day(ended, day, self.today)
        self.today = 0
