"""Leases of one gateway, against the policy of the bank on a virtual clock: partitions, the end of a day, short waits."""

from __future__ import annotations

import pytest
import trio

from gw.errors import BankUnreachable
from gw.policy.lease_account import LeaseAccounts
from gw.relay.leases import LeasedBucket, Leases


class PolicyBank:
    """The policy of the bank without a server; `away` makes it unreachable."""

    def __init__(self):
        self.accounts = LeaseAccounts(0.0)
        self.away = False
        self.exchanges = 0

    def _reach(self):
        if self.away:
            raise BankUnreachable(address="bank", why="away")

    async def join(self, member):
        self._reach()
        return self.accounts.join(member)

    async def exchange(self, member, run, number, asks):
        await trio.lowlevel.checkpoint()
        self._reach()
        self.exchanges += 1
        return self.accounts.exchange(member, run, number, list(asks), trio.current_time())

    async def leave(self, member, run):
        self._reach()
        self.accounts.leave(member, run)


def account(bank, name):
    return bank.accounts._accounts[name]


@pytest.fixture
def bank(autojump_clock):
    return PolicyBank()


async def take_all(bucket, leases):
    """Take calls until one is refused; return how many were taken."""
    taken = 0
    while True:
        if (wait := leases.wait(bucket.lease, 1)) is not None:
            await wait
        if bucket.take(trio.current_time()):
            return taken
        taken += 1


async def test_a_short_loss_of_the_bank_gives_no_extra_calls(bank, nursery):
    leases = Leases(bank, "a")
    await nursery.start(leases.run)
    bucket = LeasedBucket(leases, "rate:p", 60)
    assert await take_all(bucket, leases) == 60
    bank.away = True
    await trio.sleep(1.2)
    assert leases.is_alone
    assert await take_all(bucket, leases) <= 1
    nursery.cancel_scope.cancel()


async def test_calls_taken_alone_are_counted_by_the_bank_afterwards(bank, nursery):
    leases = Leases(bank, "a")
    await nursery.start(leases.run)
    bucket = LeasedBucket(leases, "rate:p", 600)
    await take_all(bucket, leases)
    bank.away = True
    await trio.sleep(30)
    alone = await take_all(bucket, leases)
    assert alone > 100
    bank.away = False
    await trio.sleep(2)
    assert not leases.is_alone
    assert account(bank, "rate:p").used == 600 + alone
    assert await take_all(bucket, leases) <= 40
    nursery.cancel_scope.cancel()


async def test_a_retired_lease_goes_once_its_last_request_has_ended(bank, nursery):
    leases = Leases(bank, "a")
    await nursery.start(leases.run)
    lease = leases.lease("budget:1:p", "budget", 1_000)
    await leases.wait(lease, 100)
    lease.reserve(100)
    leases.retire([lease])
    await trio.sleep(20)
    assert leases.lease("budget:1:p", "budget", 1_000) is lease
    lease.settle(100, 70)
    await trio.sleep(20)
    assert leases.lease("budget:1:p", "budget", 1_000) is not lease
    assert (account(bank, "budget:1:p").used, account(bank, "budget:1:p").open) == (70, 0)
    nursery.cancel_scope.cancel()


async def test_a_request_that_left_costs_no_exchange(bank, nursery):
    leases = Leases(bank, "a")
    await nursery.start(leases.run)
    await trio.sleep(0.1)
    before = bank.exchanges
    leases._wake.set()
    await trio.sleep(0.1)
    assert bank.exchanges == before
    nursery.cancel_scope.cancel()
