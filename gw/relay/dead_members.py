"""Processes that are gone, taken out of the bank: what they have spent is in the records of their gateway, which reports it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import structlog
import trio

from gw.errors import BankUnreachable
from gw.types.bank import Ask, Bank, BankReader

TRY_S = 5.0
AGAIN_S = 0.5
"""Between two attempts to take members out."""

_log = structlog.get_logger("gw.relay")


class ReadableBank(Bank, BankReader, Protocol):
    """The server of a fleet."""


async def take_out(bank: Bank, member: str, budgets: Iterable[Ask]) -> bool:
    """Have nothing used or leased by a member that has ended; return whether the bank could be reached for that.

    `budgets`: those of which it had something.
    """
    try:
        run = await bank.join(member)
        nothing = [Ask(ask.account, ask.kind, ask.limit, 0, 0, 0, 0, 0) for ask in budgets]
        await bank.exchange(member, run, 1, nothing)
        await bank.leave(member, run)
    except BankUnreachable as error:
        _log.warning("worker_not_taken_out", worker=member, why=error.message)
        return False
    return True


async def take_out_workers(bank: ReadableBank, gateway: str) -> None:
    """Take out the workers that an earlier run of a gateway has left in the bank of a fleet, where the gateway was killed.

    The gateway must have reported what it has spent, with what they have. Tries again, for TRY_S at most: what the bank has of a worker
    that is left in it counts twice. Never raises.
    """
    with trio.move_on_after(TRY_S):
        while True:
            if await _take_out_all(bank, gateway):
                return
            await trio.sleep(AGAIN_S)
    _log.error("workers_not_taken_out", gateway=gateway)


async def _take_out_all(bank: ReadableBank, gateway: str) -> bool:
    """Take out the workers of a gateway; return whether all of them are out."""
    try:
        status = await bank.status()
    except BankUnreachable as error:
        _log.warning("worker_not_taken_out", worker=f"{gateway}/…", why=error.message)
        return False
    are_out = True
    for member in status.members:
        if member.instance.startswith(f"{gateway}/"):
            budgets = [
                Ask(one.account, one.kind, one.limit, 0, 0, 0, 0, 0)
                for one in status.accounts
                if one.kind == "budget" and any(share.instance == member.instance and (share.used or share.open) for share in one.shares)
            ]
            if budgets or member.seen_s is not None:
                are_out = await take_out(bank, member.instance, budgets) and are_out
    return are_out
