"""Leases of one gateway, against the policy of the bank on a virtual clock: partitions, the end of a day, short waits."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import trio

from gw.config.settings import BreakerSettings
from gw.errors import BankUnreachable
from gw.policy.lease_account import LeaseAccounts
from gw.registry.catalog import Model, Provider
from gw.relay.leased_limits import LeasedBucket, LeasedSlots
from gw.relay.leases import WAIT_S, Leases
from gw.relay.limits import ProviderLimits


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


async def test_a_report_returns_whether_the_bank_knows(bank, nursery):
    leases = Leases(bank, "a")
    await nursery.start(leases.run)
    lease = leases.lease("budget:b", "budget", 1_000)
    lease.settle(0, 70)
    assert await leases.report()
    assert account(bank, "budget:b").used == 70
    bank.away = True
    lease.settle(0, 5)
    assert not await leases.report()
    assert account(bank, "budget:b").used == 70
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


class LateBank(PolicyBank):
    """Is `late_s()` seconds away, in each direction: a network, and processes that get little of a busy machine."""

    def __init__(self, late_s: Callable[[], float]) -> None:
        super().__init__()
        self.late_s = late_s

    async def exchange(self, member, run, number, asks):
        await trio.sleep(self.late_s())
        answer = await super().exchange(member, run, number, asks)
        await trio.sleep(self.late_s())
        return answer


@pytest.mark.parametrize("late", [0.0, 0.1])
async def test_a_rate_that_is_used_up_is_shared_evenly_by_few_exchanges(autojump_clock, nursery, late):
    """Two callers in each of four processes, who call again at once after an answer, and soon after a refusal."""
    chance = random.Random(7)
    bank = LateBank(lambda: chance.uniform(0.0003, 0.002) + (chance.random() < late) * chance.uniform(0, 0.4))
    taken: dict[str, list[float]] = {name: [] for name in "abcd"}

    async def call(bucket: LeasedBucket, times: list[float]) -> None:
        while True:
            if (wait := bucket.leases.wait(bucket.lease, 1)) is not None:
                await wait
            if bucket.take(now := trio.current_time()):
                await trio.sleep(0.05)
                continue
            times.append(now)
            await trio.sleep(0.003)

    for name, times in taken.items():
        leases = Leases(bank, name)
        await nursery.start(leases.run)
        bucket = LeasedBucket(leases, "rate:p", 600)
        for _ in range(2):
            nursery.start_soon(call, bucket, times)
    await trio.sleep(5)  # the first minute's calls are used up
    began, exchanges = trio.current_time(), bank.exchanges
    await trio.sleep(30)
    nursery.cancel_scope.cancel()
    counts = [sum(at >= began for at in times) for times in taken.values()]
    assert sum(counts) == pytest.approx(300, rel=0.03)
    assert min(counts) > 0.8 * max(counts)
    assert (bank.exchanges - exchanges) / 4 / 30 < 2.2


async def test_a_retired_lease_goes_once_its_last_request_has_ended(bank, nursery):
    leases = Leases(bank, "a")
    await nursery.start(leases.run)
    lease = leases.lease("budget:1:p", "budget", 1_000)
    await leases.wait(lease, 100)
    lease.reserve(100)
    leases.retire([lease])
    await trio.sleep(20)
    assert lease.account in leases._leases
    lease.settle(100, 70)
    await trio.sleep(20)
    assert lease.account not in leases._leases
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


class HeldBank(PolicyBank):
    """Answers when `release` is set."""

    def __init__(self):
        super().__init__()
        self.release = trio.Event()
        self.release.set()

    async def exchange(self, member, run, number, asks):
        answer = await super().exchange(member, run, number, asks)
        await self.release.wait()
        return answer


@pytest.fixture
async def held(mock_clock, nursery):
    """Yield a bank that does not answer any more, and the room that a request which waits for it finds in the end."""
    bank, rooms = HeldBank(), []
    leases = Leases(bank, "a")
    await nursery.start(leases.run)
    lease = leases.lease("budget:1:p", "budget", 1_000)
    bank.release = trio.Event()

    async def request():
        await leases.wait(lease, 100)
        rooms.append(lease.room)

    nursery.start_soon(request)
    await trio.testing.wait_all_tasks_blocked()
    yield bank, rooms
    nursery.cancel_scope.cancel()


async def test_a_process_that_was_busy_while_the_answer_came_reads_it_before_it_refuses(held, mock_clock):
    bank, rooms = held
    mock_clock.jump(0.3)  # the loop was busy for so long; it meets both at once: the answer, and that the time is over
    bank.release.set()
    await trio.testing.wait_all_tasks_blocked()
    assert rooms == [100]


async def test_an_answer_that_does_not_come_is_waited_for_once(held, mock_clock):
    _, rooms = held
    mock_clock.jump(WAIT_S)
    await trio.testing.wait_all_tasks_blocked()
    assert rooms == [0]


class Calls:
    """Calls at once of one gateway, as a gate of a provider counts them."""

    def __init__(self, leases, limit):
        self.running = 0
        self._granted = trio.Event()
        self.slots = LeasedSlots(leases, "slots:p", limit, lambda: self.running, lambda: self._granted.set())

    async def place(self):
        with trio.move_on_after(5):
            await self._granted.wait()
        return self._granted.is_set()

    async def begin(self):
        """Return whether a call may run, after a short wait."""
        if (wait := self.slots.wait()) is not None:
            await wait
        if self.running >= self.slots.most:
            return False
        self.running += 1
        self.slots.enter()
        return True

    def end(self):
        self.running -= 1
        self.slots.leave()


@pytest.fixture
async def two(bank, nursery):
    members = [Leases(bank, name) for name in "ab"]
    for leases in members:
        await nursery.start(leases.run)
    await trio.sleep(1.5)
    yield [Calls(leases, 6) for leases in members]
    nursery.cancel_scope.cancel()


async def test_calls_at_once_are_shared(two):
    first, second = two
    began = [await calls.begin() for _ in range(5) for calls in two]
    assert sum(began) == 6
    assert (first.running, second.running) == (3, 3)


async def test_a_call_that_ends_makes_room_at_the_other_gateway_for_one_that_waits(two):
    first, second = two
    while await first.begin():
        pass
    assert (first.running, await second.begin()) == (6, False)
    first.end()

    before = trio.current_time()
    assert await second.slots.queue(second.place())
    assert trio.current_time() - before < 0.8
    assert await second.begin()


async def test_alone_each_gateway_keeps_what_it_runs_or_has_its_share(two, bank):
    first, second = two
    while await first.begin():
        pass
    bank.away = True
    await trio.sleep(2)
    assert (first.slots.most, second.slots.most) == (6, 3)


async def test_a_limit_that_is_taken_away_returns_its_slots(two, bank):
    first, _ = two
    while await first.begin():
        pass
    first.slots.end()
    await trio.sleep(15)
    assert account(bank, "slots:p").open == 0
    assert "slots:p" not in first.slots.leases._leases


async def test_a_provider_that_is_deleted_gives_back_what_it_had_leased(bank, nursery):
    leases = Leases(bank, "a")
    await nursery.start(leases.run)
    limits = ProviderLimits(BreakerSettings(), leases)
    provider = Provider(id="p", type="openai", location="cloud", requests_per_minute=60, max_concurrent=6)
    gate = limits.gate(provider, Model(id="p/m", modality="llm", provider="p", name="m"), trio.current_time())
    for lease in (gate.shared.slots.lease, gate.bucket.lease):
        await leases.wait(lease, 1)
    gate.enter(trio.current_time())
    assert account(bank, "slots:provider:p").open == 1
    gate.leave(trio.current_time(), None, answered=True)
    limits.keep((), ())
    await trio.sleep(15)
    assert (account(bank, "slots:provider:p").open, account(bank, "rate:p").open) == (0, 0)
    assert leases._leases == {}
    nursery.cancel_scope.cancel()
