"""May this request run at all? Decided before any upstream byte."""

from __future__ import annotations

import structlog

from gw.errors import BudgetExceededError, StoreUnavailable
from gw.policy import budget
from gw.relay.ledger import Ledger, Reservation
from gw.types.project import Project
from gw.types.usage import NANO

_log = structlog.get_logger("gw.relay")


def admit(ledger: Ledger, project: Project, estimate_nusd: int, *, store_accepts: bool) -> Reservation:
    """Reserve the estimate. Raises BudgetExceededError, or StoreUnavailable where a blocking budget could not be kept."""
    if not project.daily_budget_nusd:
        return ledger.reserve(project.id, estimate_nusd)
    blocks = project.budget_action == "block"
    if blocks and not store_accepts:
        raise StoreUnavailable(what="usage cannot be recorded now, and this project's budget must hold")
    spent, reserved = ledger.spent(project.id), ledger.reserved(project.id)
    verdict = budget.decide(
        spent_nusd=spent,
        reserved_nusd=reserved,
        estimate_nusd=estimate_nusd,
        budget_nusd=project.daily_budget_nusd,
        action=project.budget_action,
    )
    if verdict == "block":
        raise BudgetExceededError(
            project=project.id, daily_budget=project.daily_budget_nusd / NANO, spent=(spent + reserved) / NANO
        )
    if verdict == "warn" and spent + reserved >= project.daily_budget_nusd:
        _log.warning(
            "budget_exceeded",
            project=project.id,
            daily_budget_usd=project.daily_budget_nusd / NANO,
            spent_usd=spent / NANO,
        )
    return ledger.reserve(project.id, estimate_nusd)
