"""May this request run at all? Decided before any upstream byte. And how a request has ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import msgspec
import structlog
import trio

from gw.errors import BudgetExceededError, CandidateSkipped, Overloaded, StoreUnavailable, leaves_of
from gw.policy import budget
from gw.providers.spec import Account
from gw.relay.ledger import Ledger, Reservation
from gw.types.ids import Modality
from gw.types.llm import Ability
from gw.types.project import Project
from gw.types.usage import NANO, Usage

S = TypeVar("S")

_NEEDS_NOTHING: frozenset[Ability] = frozenset()


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between the modalities, beside the request itself."""

    modality: Modality
    requested: str
    stream: bool
    estimate: Usage
    needs: frozenset[Ability] = _NEEDS_NOTHING


_log = structlog.get_logger("gw.relay")


def admit(ledger: Ledger, project: Project, estimate_nusd: int, *, store_accepts: bool) -> Reservation:
    """Reserve the estimate. Raises BudgetExceededError, or StoreUnavailable where a blocking budget could not be kept.

    Overloaded where the project has as many requests at once as it may.
    """
    if project.max_concurrent is not None and ledger.running(project.id) >= project.max_concurrent:
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


def caller_left(error: BaseException | None) -> bool:
    """Nothing wrong here: the dialect stopped reading, its connection broke, or it was cancelled. A defect is none of these."""
    return error is None or all(isinstance(e, (trio.Cancelled, OSError, GeneratorExit)) for e in leaves_of(error))


def offered(
    call: Callable[..., AbstractAsyncContextManager[S]] | None, account: Account
) -> Callable[..., AbstractAsyncContextManager[S]]:
    """Raises CandidateSkipped when a provider's type has no such call."""
    if call is None:
        raise CandidateSkipped(
            provider=account.provider_id, reason="missing_ability", detail="its type does not offer this"
        )
    return call
