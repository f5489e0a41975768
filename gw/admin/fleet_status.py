"""The gateways of a fleet, when each last spoke to the server that counts, and what each has used or leased."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gw.admin.schemas import Schema
from gw.errors import BankUnreachable, budget_kind
from gw.policy.budget_account import BudgetAccount, parse_account
from gw.types.bank import AccountStatus, BankReader, BankStatus, LeaseKind
from gw.types.usage import NANO

Amount = Annotated[float, Meta(description="USD of a budget, calls of a rate, calls at once of slots")]


class FleetMember(Schema):
    instance: str
    last_seen_s: float | None
    """Seconds since it last spoke to the server; null: it is gone."""


class FleetShare(Schema):
    instance: str
    used: Amount
    open: Amount
    """Leased, and not used yet."""


class FleetAccount(Schema):
    account: str
    kind: LeaseKind
    limit: Amount
    used: Amount
    open: Amount
    shares: list[FleetShare]


class FleetStatus(Schema):
    """`accounts` are budgets of periods that have not ended, and the rates and slots of the last hour."""

    members: list[FleetMember]
    accounts: list[FleetAccount]


class FleetPage(FleetStatus):
    """A fleet as one of its gateways sees it."""

    name: str
    instance: str
    """Name of this gateway."""
    problem: str
    """Why the server cannot be reached; empty: it can."""
    alone_s: float
    """Seconds since it was reached; 0: it is."""


def fleet_status(status: BankStatus, day: int) -> FleetStatus:
    """Return what the server has for people: amounts in USD, and no budgets of periods that ended before `day`."""
    budgets = {account: parse_account(account.account) for account in status.accounts}
    current = [account for account, budget in budgets.items() if budget is None or budget.is_current(day)]
    return FleetStatus(
        members=[FleetMember(instance=member.instance, last_seen_s=member.seen_s) for member in sorted(status.members)],
        accounts=[_account(account) for account in sorted(current)],
    )


async def fleet_page(bank: BankReader, day: int, *, name: str, instance: str, alone_s: float, why_alone: str) -> FleetPage:
    """Return the page of a fleet; without figures where the server cannot be reached."""
    problem, status = why_alone, FleetStatus(members=[], accounts=[])
    if not problem:
        try:
            status = fleet_status(await bank.status(), day)
        except BankUnreachable as error:
            problem = error.message
    return FleetPage(
        members=status.members, accounts=status.accounts, name=name, instance=instance, problem=problem, alone_s=alone_s
    )


def _budget_name(budget: BudgetAccount) -> str:
    kind = "budget" if budget.period == "day" else f"{budget_kind(budget.period)} budget"
    return f"{kind} {budget.id}" if budget.kind == "project" else f"{kind} of key {budget.id}"


def _account(status: AccountStatus) -> FleetAccount:
    unit = NANO if status.kind == "budget" else 1
    budget = parse_account(status.account)
    name = status.account.replace(":", " ") if budget is None else _budget_name(budget)
    return FleetAccount(
        account=name, kind=status.kind, limit=status.limit / unit, used=status.used / unit, open=status.open / unit,
        shares=[
            FleetShare(instance=share.instance, used=share.used / unit, open=share.open / unit) for share in sorted(status.shares)
        ],
    )  # fmt: skip
