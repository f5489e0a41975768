"""Processes that have ended, taken out of the bank of a fleet, also where it cannot be reached at first: nothing counts twice."""

from __future__ import annotations

import pytest
import trio

from gw.errors import BankUnreachable
from gw.policy.lease_account import LeaseAccounts
from gw.relay.dead_members import TRY_S, take_out, take_out_workers
from gw.types.bank import AccountStatus, Ask, BankStatus, MemberStatus, ShareStatus

LIMIT = 10_000


def used(n: int) -> Ask:
    return Ask("b", "budget", LIMIT, n, 0, 0, 0, 0)


class FailingBank:
    """The policy of the bank, which cannot be reached by its next `fails` calls, each of which takes a tenth of a second."""

    def __init__(self, fails: int) -> None:
        self.accounts, self.fails = LeaseAccounts(0.0), fails
        self.shares = {"gw": 700, "gw/1": 400, "gw/2": 300, "gw-2/1": 50}
        for member, spent in self.shares.items():
            self.accounts.exchange(member, self.accounts.join(member), 1, [used(spent)], 0.0)

    async def _reach(self) -> None:
        await trio.sleep(0.1)
        if self.fails:
            self.fails -= 1
            raise BankUnreachable(address="bank", why="no answer within 0.1 s")

    async def join(self, member: str) -> str:
        await self._reach()
        return self.accounts.join(member)

    async def exchange(self, member, run, number, asks):
        await self._reach()
        return self.accounts.exchange(member, run, number, list(asks), 0.0)

    async def leave(self, member: str, run: str) -> None:
        await self._reach()
        self.accounts.leave(member, run)

    async def status(self) -> BankStatus:
        await self._reach()
        shares = tuple(ShareStatus(member, spent, 0) for member, spent in self.shares.items())
        return BankStatus([MemberStatus(member, "1", 0.0) for member in self.shares], [AccountStatus("b", "budget", LIMIT, 0, 0, shares)])

    def all_used(self) -> int:
        """Return what the bank has as used by all."""
        return self.accounts.exchange("m", "1", 1, [used(0)], 0.0).grants[0].used


@pytest.mark.parametrize("fails", range(6))
async def test_workers_of_an_earlier_run_count_once_also_where_the_bank_fails_in_between(autojump_clock, fails):
    bank = FailingBank(fails)
    await take_out_workers(bank, "gw")
    assert bank.all_used() == 700 + 50  # of the gateway, whose records have its workers' spend, and of another one's worker


async def test_a_start_waits_no_longer_for_a_bank_that_stays_away(autojump_clock):
    bank = FailingBank(1_000)
    began = trio.current_time()
    await take_out_workers(bank, "gw")
    assert trio.current_time() - began == pytest.approx(TRY_S)


async def test_whether_a_member_is_out_is_returned(autojump_clock):
    bank = FailingBank(1)
    assert not await take_out(bank, "gw/1", [used(400)])
    assert await take_out(bank, "gw/1", [used(400)])
    assert bank.all_used() == 700 + 300 + 50
