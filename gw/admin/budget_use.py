"""Budgets of projects and keys, and how much of each is spent: the members of bodies and answers that both have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from gw.admin.schemas import Schema, Usd, usd
from gw.errors import RequestError
from gw.policy import budget
from gw.policy.spend_periods import BudgetPeriod
from gw.types.entities import BudgetStatus, Project, nano_usd
from gw.types.ids import KeyLimits

SpentIn: TypeAlias = Callable[[str, BudgetPeriod], int]
"""Id of a project or key, and a period → nano-USD that were spent in it, as the budget counts them."""

MOST_USD = 1e9  # highest budget: more is a mistake, and would not fit a 64-bit count of nano-USD
BUDGETS: tuple[tuple[BudgetPeriod, str], ...] = (
    ("day", "daily_budget"), ("week", "weekly_budget"), ("month", "monthly_budget"), ("total", "total_budget"),
)  # fmt: skip
"""Periods, and the members of bodies and answers with their budgets."""


class BudgetUse(Schema):
    """One budget that is set. A day, a week (from Monday) and a month are those of the calendar, in UTC; `total` never resets."""

    period: BudgetPeriod
    budget: Usd
    spent: Usd
    budget_status: BudgetStatus
    share: float


def budget_share(spent_nusd: int, limit_nusd: int) -> float | None:
    return round(spent_nusd / limit_nusd, 6) if limit_nusd else None


def budgets_in_use(owner: Project | KeyLimits, id_: str, spent_in: SpentIn) -> list[BudgetUse]:
    """Return the budgets of a project or a key that are set, the shortest period first."""
    uses: list[BudgetUse] = []
    for period, name in BUDGETS:
        limit: int = getattr(owner, f"{name}_nusd")
        if limit:
            spent = spent_in(id_, period)
            share = budget_share(spent, limit) or 0.0
            status = budget.status(spent, limit)
            uses.append(BudgetUse(period=period, budget=usd(limit), spent=usd(spent), budget_status=status, share=share))
    return uses


def checked_budget(value: float | None, param: str = "daily_budget") -> int:
    """Convert USD to nano-USD; 0 = no budget."""
    if value is None:
        return 0
    if not math.isfinite(value) or not 0 <= value <= MOST_USD:
        raise RequestError(what=f"{param} must be a number from 0 to {MOST_USD:g}", param=param)
    return nano_usd(value)


def in_nusd(values: dict[str, object]) -> dict[str, object]:
    """Return checked values with their budgets under the names of the stored attributes."""
    names = {name for _, name in BUDGETS}
    return {f"{name}_nusd" if name in names else name: value for name, value in values.items()}
