"""Leases of budgets that several processes share: of projects and of keys, for a day, a week, a month or in total.

A request needs room in the leases of all budgets that it counts for. The bank knows what each process has used of an account since the
period began, so a budget that is set later begins with what was spent before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import msgspec
import structlog

from gw.errors import BudgetExceededError, BudgetReserved, StoreUnavailable, budget_kind
from gw.policy.budget_account import OwnerId, account_of
from gw.policy.lease import Lease
from gw.policy.spend_periods import BudgetPeriod, first_day
from gw.relay.leases import Leases
from gw.types.usage import NANO

_log = structlog.get_logger("gw.relay")


class BudgetOwner(msgspec.Struct, frozen=True):
    """A project, or a key of it, with its budgets in nano-USD."""

    project: str
    key_id: str | None
    budgets: Sequence[tuple[BudgetPeriod, int]]
    blocks: bool

    @property
    def name(self) -> str:
        return f"project {self.project!r}" if self.key_id is None else f"key {self.key_id!r} of project {self.project!r}"

    @property
    def id(self) -> OwnerId:
        return ("project", self.project) if self.key_id is None else ("key", self.key_id)


class BudgetLease(NamedTuple):
    period: BudgetPeriod
    first_day: int
    lease: Lease

    @property
    def spent(self) -> int:
        """Return the nano-USD that all processes have spent, as far as this one knows."""
        return self.lease.used + self.lease.others_used


class _Held(NamedTuple):
    budgets: Sequence[tuple[BudgetPeriod, int]]
    day: int
    leases: Sequence[BudgetLease]


_NOTHING = _Held((), 0, ())


class SharedBudgets:
    """The leases of this process."""

    def __init__(self, leases: Leases, used_here: Callable[[OwnerId, BudgetPeriod], int]) -> None:
        """`used_here` returns what this process has spent of a budget in the current period."""
        self._leases = leases
        self._used_here = used_here
        self._held: dict[OwnerId, _Held] = {}

    def of(self, owner: BudgetOwner, day: int) -> Sequence[BudgetLease]:
        """Return the leases of an owner's budgets, made with the first call of a period."""
        held = self._held.get(owner.id, _NOTHING)
        if held.day == day and (held.budgets is owner.budgets or held.budgets == owner.budgets):
            return held.leases
        leases = [self._lease(owner.id, period, limit, day) for period, limit in owner.budgets]
        self._retire(held.leases, kept=leases)
        self._held[owner.id] = _Held(owner.budgets, day, leases)
        return leases

    def held(self, owner: OwnerId, period: BudgetPeriod) -> BudgetLease | None:
        """Return the lease of one budget, if there is one."""
        return next((one for one in self._held.get(owner, _NOTHING).leases if one.period == period), None)

    def _lease(self, owner: OwnerId, period: BudgetPeriod, limit: int, day: int) -> BudgetLease:
        account = account_of(owner, period, day)
        lease = self._leases.lease(account.name, "budget", limit, self._used_here(owner, period))
        return BudgetLease(period, account.first_day, lease)

    def _retire(self, leases: Sequence[BudgetLease], kept: Sequence[BudgetLease] = ()) -> None:
        staying = {one.lease for one in kept}
        self._leases.retire(one.lease for one in leases if one.lease not in staying)

    def reserve(self, leases: Sequence[Lease], nusd: int) -> None:
        """Set an estimate aside in each lease."""
        for lease in leases:
            lease.reserve(nusd)
            self._leases.spoken_for(lease)

    def settle(self, owners: Sequence[OwnerId], leases: Sequence[Lease], reserved: int, spent: int, day: int) -> None:
        """Release what was reserved in `leases`, and count what was spent by a request of the `day` in all leases of its owners."""
        for lease in leases:
            lease.settle(reserved, spent)
        if not spent:
            return
        for owner in owners:
            for one in self._held.get(owner, _NOTHING).leases:
                if one.lease not in leases and first_day(one.period, day) == one.first_day:
                    one.lease.settle(0, spent)  # the budget was set while the request ran

    def end_day(self, day: int) -> None:
        """Drop the leases of periods that ended before `day`."""
        for owner, held in self._held.items():
            going = [one for one in held.leases if first_day(one.period, day) == one.first_day]
            self._retire(held.leases, kept=going)
            self._held[owner] = held._replace(leases=going)

    def keep(self, owners: Collection[OwnerId]) -> None:
        """Drop the leases of all but these owners."""
        for owner in self._held.keys() - owners:
            self._retire(self._held.pop(owner).leases)

    def check(self, owner: BudgetOwner, leases: Sequence[BudgetLease], estimate_nusd: int) -> None:
        """Refuse a request for which a lease has no room; an owner that only warns goes on.

        Raise BudgetExceededError, BudgetReserved or, where what is left is not known, StoreUnavailable.
        """
        need = max(1, estimate_nusd)
        for one in leases:
            if one.lease.room < need:
                self._refuse(owner, one, need)

    def _refuse(self, owner: BudgetOwner, one: BudgetLease, need: int) -> None:
        limit, spent = one.lease.limit, one.spent
        if not owner.blocks:
            if spent >= limit:
                _log.warning(
                    "budget_exceeded", project=owner.project, period=one.period, budget_usd=limit / NANO, spent_usd=spent / NANO
                )
        elif spent >= limit:
            raise BudgetExceededError(
                project=owner.project, key_id=owner.key_id, period=one.period, budget=limit / NANO, spent=spent / NANO
            )
        elif why := self._leases.why_unknown(one.lease, need):
            raise StoreUnavailable(what=f"what is left of the {budget_kind(one.period)} budget of {owner.name} is not known: {why}")
        else:
            raise BudgetReserved(
                what=f"requests in flight have reserved what is left of the {budget_kind(one.period)} budget of {owner.name}, "
                f"${limit / NANO:g} (spent ${spent / NANO:.6g} in all gateways and processes); try again when one ends"
            )
