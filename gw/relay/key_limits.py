"""Limits beside the daily budget of a project: its other budgets, and all limits of the caller's key.

All are decided in memory, before any upstream byte. `KeyUse` is what the ledger knows of a key. Where several processes share limits,
`gw.relay.shared_budgets` decides on budgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from gw.errors import BudgetExceededError, BudgetReserved, ForbiddenError, KeyRateLimited, TooManyAtOnce, budget_kind
from gw.policy.bucket import Bucket
from gw.policy.spend_periods import BudgetPeriod, EarlierSpend, PeriodSpend
from gw.relay.leased_limits import why_full, why_refused
from gw.relay.shared_budgets import BudgetOwner
from gw.relay.shared_key import SharedKey
from gw.types.entities import Project
from gw.types.ids import KeyLimits
from gw.types.usage import NANO

if TYPE_CHECKING:
    from gw.registry.catalog import Model

_ACTIONS = {"stt": "transcribe speech", "llm": "use language models", "tts": "make speech"}
_log = structlog.get_logger("gw.relay")


class KeyUse:
    """Spend of a key, and its requests in flight. Money is nano-USD."""

    __slots__ = ("_bucket", "_owner", "elsewhere", "in_flight", "reserved", "shared", "spend")

    def __init__(self, spend: PeriodSpend | None = None) -> None:
        self.spend = PeriodSpend() if spend is None else spend
        self.elsewhere = PeriodSpend()
        """Part of it that other processes of this gateway, which run, have spent."""
        self.reserved = 0
        self.in_flight = 0
        self.shared: SharedKey | None = None
        """The key's part in limits that several processes share."""
        self._bucket: Bucket | None = None
        self._owner: tuple[KeyLimits, BudgetOwner | None] | None = None

    def settle(self, reserved: int, spent: int, day: int, today: int) -> None:
        """Release what a request had reserved and add what it cost, which belongs to the `day` it began on."""
        self.in_flight -= 1
        self.reserved -= reserved
        self.spend.add(spent, day, today)
        if self.shared is not None:
            self.shared.leave()

    def budgets(self, limits: KeyLimits, project: str, key_id: str) -> BudgetOwner | None:
        """Return the budgets of the key; None without any."""
        if self._owner is None or self._owner[0] is not limits:
            self._owner = limits, key_budgets(limits, project, key_id)
        return self._owner[1]

    def wait_s(self, per_minute: int, now: float) -> float:
        """Count a request; return the seconds until the next may be made if it is one too many, else 0. `now` is monotonic."""
        if self.shared is not None and self.shared.bucket is not None:
            return self.shared.bucket.take(now)
        if self._bucket is None or self._bucket.per_minute != per_minute:
            self._bucket = Bucket(per_minute, now)
        return self._bucket.take(now)


def budgets_of(owner: Project | KeyLimits) -> tuple[tuple[BudgetPeriod, int], ...]:
    """Return the budgets that are set, with the shortest period first."""
    budgets: tuple[tuple[BudgetPeriod, int], ...] = (
        ("day", owner.daily_budget_nusd), ("week", owner.weekly_budget_nusd),
        ("month", owner.monthly_budget_nusd), ("total", owner.total_budget_nusd),
    )  # fmt: skip
    return tuple([(period, nusd) for period, nusd in budgets if nusd])


def key_budgets(limits: KeyLimits, project: str, key_id: str) -> BudgetOwner | None:
    """Return the budgets of a key; None without any."""
    budgets = budgets_of(limits)
    return BudgetOwner(project, key_id, budgets, True) if budgets else None


def project_budgets(project: Project) -> BudgetOwner | None:
    """Return the budgets of a project; None without any."""
    budgets = budgets_of(project)
    return BudgetOwner(project.id, None, budgets, project.budget_action == "block") if budgets else None


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


def check_concurrency(use: KeyUse, limits: KeyLimits, key_id: str) -> None:
    """Raise TooManyAtOnce where a key has as many requests and sessions at once as it may."""
    most = limits.max_concurrent
    if most is None:
        return
    slots = None if use.shared is None else use.shared.slots
    if use.in_flight >= (most if slots is None else slots.most):
        raise TooManyAtOnce(what=why_full(slots, f"the key {key_id!r}", most, "requests and sessions"))


def check_rate(use: KeyUse, limits: KeyLimits, key_id: str, now: float) -> None:
    """Count a request of a key. Raise KeyRateLimited for one too many. `now` is monotonic."""
    if limits.requests_per_minute is not None and (wait_s := use.wait_s(limits.requests_per_minute, now)):
        limit = f"the limit of the key {key_id!r}, {limits.requests_per_minute} requests a minute,"
        what = f"the key {key_id!r} has made {limits.requests_per_minute} requests in a minute, its limit"
        bucket = None if use.shared is None else use.shared.bucket
        raise KeyRateLimited(what=why_refused(bucket, limit, what), retry_after_s=wait_s)


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
