"""Limits beside the daily budget of a project: its other budgets, and all limits of the caller's key.

All are decided in memory, before any upstream byte. `KeyUse` is what the ledger knows of a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import structlog

from gw.errors import BudgetExceededError, BudgetReserved, ForbiddenError, KeyRateLimited, TooManyAtOnce, budget_kind
from gw.policy.bucket import Bucket
from gw.policy.spend_periods import BudgetPeriod, EarlierSpend
from gw.types.entities import Project
from gw.types.ids import KeyLimits
from gw.types.usage import NANO

if TYPE_CHECKING:
    from gw.registry.catalog import Model

_ACTIONS = {"stt": "transcribe speech", "llm": "use language models", "tts": "make speech"}
_log = structlog.get_logger("gw.relay")


class KeyUse:
    """Spend of a key, and its requests in flight. Money is nano-USD."""

    __slots__ = ("_bucket", "earlier", "in_flight", "reserved", "today")

    def __init__(self, today: int, earlier: EarlierSpend) -> None:
        self.today = today
        self.earlier = earlier
        self.reserved = 0
        self.in_flight = 0
        self._bucket: Bucket | None = None

    def settle(self, reserved: int, spent: int, day: int, today: int) -> None:
        """Release what a request had reserved and add what it cost, which belongs to the `day` it began on."""
        self.in_flight -= 1
        self.reserved -= reserved
        self.add(spent, day, today)

    def add(self, spent: int, day: int, today: int) -> None:
        """Add what a request cost."""
        if day == today:
            self.today += spent
        else:
            self.earlier.add_late(day, today, spent)

    def wait_s(self, per_minute: int, now: float) -> float:
        """Count a request; return the seconds until the next may be made if it is one too many, else 0. `now` is monotonic."""
        if self._bucket is None or self._bucket.per_minute != per_minute:
            self._bucket = Bucket(per_minute, now)
        return self._bucket.take(now)


class BudgetOwner(msgspec.Struct, frozen=True):
    """A project, or a key of it, with its budgets in nano-USD."""

    project: str
    key_id: str | None
    budgets: Sequence[tuple[BudgetPeriod, int]]
    blocks: bool

    @property
    def name(self) -> str:
        return f"project {self.project!r}" if self.key_id is None else f"key {self.key_id!r} of project {self.project!r}"


def budgets_of(owner: Project | KeyLimits) -> tuple[tuple[BudgetPeriod, int], ...]:
    """Return the budgets that are set, with the shortest period first."""
    budgets: tuple[tuple[BudgetPeriod, int], ...] = (
        ("day", owner.daily_budget_nusd), ("week", owner.weekly_budget_nusd),
        ("month", owner.monthly_budget_nusd), ("total", owner.total_budget_nusd),
    )  # fmt: skip
    return tuple([(period, nusd) for period, nusd in budgets if nusd])


def longer_budgets(project: Project) -> BudgetOwner | None:
    """Return the budgets of a project for more than a day; None without any."""
    budgets = [each for each in budgets_of(project) if each[0] != "day"]
    return BudgetOwner(project.id, None, budgets, project.budget_action == "block") if budgets else None


def check_budgets(owner: BudgetOwner, *, today: int, earlier: EarlierSpend, reserved: int) -> None:
    """Refuse a request of an owner with a spent budget; one that only warns is logged.

    Raise BudgetExceededError, or BudgetReserved while only reservations fill the budget. As with the daily budget of a project, a
    request is admitted while anything is left.
    """
    for period, limit in owner.budgets:
        spent = today + earlier.of(period)
        if spent + reserved < limit:
            continue
        if not owner.blocks:
            if spent >= limit:
                _log.warning(
                    "budget_exceeded", project=owner.project, period=period, budget_usd=limit / NANO, spent_usd=spent / NANO
                )
        elif spent >= limit:
            raise BudgetExceededError(
                project=owner.project, key_id=owner.key_id, period=period, budget=limit / NANO, spent=spent / NANO
            )
        else:
            raise BudgetReserved(
                what=f"the requests in flight of {owner.name} have reserved what is left of its {budget_kind(period)} budget of "
                f"${limit / NANO:g} (spent ${spent / NANO:.6g}, reserved ${reserved / NANO:.6g}); try again when one ends"
            )


def check_key(use: KeyUse, limits: KeyLimits, project: str, key_id: str, now: float) -> None:
    """Refuse a request of a key that is at a limit, and count one that is not. `now` is monotonic.

    Raise TooManyAtOnce, KeyRateLimited and what `check_budgets` raises.
    """
    if limits.max_concurrent is not None and use.in_flight >= limits.max_concurrent:
        what = f"the key {key_id!r} has {limits.max_concurrent} requests and sessions at once, its limit"
        raise TooManyAtOnce(what=what)
    if budgets := budgets_of(limits):
        owner = BudgetOwner(project, key_id, budgets, True)
        check_budgets(owner, today=use.today, earlier=use.earlier, reserved=use.reserved)
    if limits.requests_per_minute is not None and (wait_s := use.wait_s(limits.requests_per_minute, now)):
        what = f"the key {key_id!r} has made {limits.requests_per_minute} requests in a minute, its limit"
        raise KeyRateLimited(what=what, retry_after_s=wait_s)


def allowed(models: tuple[Model, ...], limits: KeyLimits) -> tuple[Model, ...]:
    """Return the candidates that a key may use. Raise ForbiddenError if it may not use the first, which was requested."""
    requested = models[0]
    if limits.modalities and requested.modality not in limits.modalities:
        what = f"this key may not {_ACTIONS[requested.modality]}; it is for {', '.join(limits.modalities)}"
        raise ForbiddenError(what=what)
    if not limits.models:
        return models
    if not limits.includes(requested.provider, requested.id):
        what = f"this key may not use the model {requested.id!r}; it may use {', '.join(limits.models)}"
        raise ForbiddenError(what=what)
    return tuple([model for model in models if limits.includes(model.provider, model.id)])
