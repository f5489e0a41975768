"""Names of the accounts in which processes that share a budget count: one for each owner, kind of period, and period."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, cast

from gw.policy.spend_periods import BudgetPeriod, first_day

OwnerKind: TypeAlias = Literal["project", "key"]
OwnerId: TypeAlias = tuple[OwnerKind, str]

_PREFIX = "budget"


class BudgetAccount(NamedTuple):
    kind: OwnerKind
    period: BudgetPeriod
    first_day: int
    """First UTC day of the period."""
    id: str

    @property
    def name(self) -> str:
        return f"{_PREFIX}:{self.kind}:{self.period}:{self.first_day}:{self.id}"

    def is_current(self, day: int) -> bool:
        return first_day(self.period, day) == self.first_day


def account_of(owner: OwnerId, period: BudgetPeriod, day: int) -> BudgetAccount:
    """Return the account of a budget in the period that a UTC day is in."""
    kind, id_ = owner
    return BudgetAccount(kind, period, first_day(period, day), id_)


def parse_account(name: str) -> BudgetAccount | None:
    """Return the account that has this name; None for one that is no budget's."""
    prefix, _, rest = name.partition(":")
    if prefix != _PREFIX:
        return None
    kind, period, first, id_ = rest.split(":", 3)
    return BudgetAccount(cast("OwnerKind", kind), cast("BudgetPeriod", period), int(first), id_)
