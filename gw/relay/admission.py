"""Admission: may this request run at all? Decided before any upstream byte."""

from __future__ import annotations

import msgspec
import structlog

from gw.errors import BudgetExceededError, Overloaded, StoreUnavailable
from gw.policy import budget
from gw.relay.ledger import Ledger, Reservation
from gw.types.entities import Project
from gw.types.ids import Modality
from gw.types.llm import Ability
from gw.types.usage import NANO, Usage

_NO_ABILITIES: frozenset[Ability] = frozenset()
_log = structlog.get_logger("gw.relay")


class RequestSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a request for routing, admission and accounting, the same for every modality."""

    modality: Modality
    requested: str
    """The model's name as the caller wrote it."""
    stream: bool
    estimate: Usage
    """Reserved against the budget while the request runs."""
    needs: frozenset[Ability] = _NO_ABILITIES


def admit(ledger: Ledger, project: Project, estimate_nusd: int, *, store_accepts: bool) -> Reservation:
    """Reserve the estimate.

    Raise Overloaded where the project has as many requests at once as it may, BudgetExceededError, or StoreUnavailable
    where a blocking budget could not be enforced.
    """
    if project.max_concurrent is not None and ledger.in_flight(project.id) >= project.max_concurrent:
        raise Overloaded(what=f"the project {project.id!r} has {project.max_concurrent} requests at once, its limit")
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
    daily_budget = project.daily_budget_nusd / NANO
    if verdict == "block":
        raise BudgetExceededError(project=project.id, daily_budget=daily_budget, spent=(spent + reserved) / NANO)
    if verdict == "warn" and spent + reserved >= project.daily_budget_nusd:
        _log.warning("budget_exceeded", project=project.id, daily_budget_usd=daily_budget, spent_usd=spent / NANO)
    return ledger.reserve(project.id, estimate_nusd)
