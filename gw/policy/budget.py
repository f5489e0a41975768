"""Daily budgets: decisions on requests, and the status of a project. Money is integer nano-USD.

A request in flight counts as if it had already cost what it reserved. So a burst of concurrent requests is admitted
exactly as far as the same requests would be one after the other: spending ends above the budget by at most the last
request's reservation (plus what requests cost beyond their reservations), and an over-careful estimate never refuses a
request of a project that has money left and nothing else in flight.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from gw.types.entities import BudgetAction, BudgetStatus

Decision: TypeAlias = Literal["ok", "warn", "block"]


def decide(*, committed_nusd: int, estimate_nusd: int, budget_nusd: int, action: BudgetAction) -> Decision:
    """Decide on a request. `committed_nusd`: settled today or reserved in flight. Budget 0 = unlimited.

    block: the budget is used up and the action is block. warn: it is used up and the action is warn, or this request
    may take the project beyond it.
    """
    if budget_nusd <= 0:
        return "ok"
    if committed_nusd >= budget_nusd:
        return "block" if action == "block" else "warn"
    return "warn" if committed_nusd + estimate_nusd > budget_nusd else "ok"


def status(spent_nusd: int, budget_nusd: int) -> BudgetStatus:
    """Return warning from 80 %, exceeded from 100 %. Budget 0 = unlimited."""
    if budget_nusd <= 0 or spent_nusd * 5 < budget_nusd * 4:
        return "ok"
    return "exceeded" if spent_nusd >= budget_nusd else "warning"
