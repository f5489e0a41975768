"""Budgets that two processes share, on a virtual clock: ends of periods, late requests, budgets set later, a process that dies."""

from __future__ import annotations

import pytest
import trio

from gw.errors import BudgetExceededError, BudgetReserved, StoreUnavailable
from gw.policy.lease_account import LeaseAccounts
from gw.policy.spend_periods import EarlierSpend, PeriodSpend
from gw.relay.admission import Ledger, admit
from gw.relay.key_limits import KeyUse, key_budgets, project_budgets
from gw.relay.leases import Leases
from gw.types.entities import Project
from gw.types.ids import KeyLimits
from gw.workers.keeper_bank import KeeperBank

FRIDAY = 20_756  # 2026-10-30


class DayClock:
    def __init__(self):
        self.day = FRIDAY

    def now(self):
        return self.day * 86_400 + 43_200


class Process:
    """A ledger with leases of its own."""

    def __init__(self, bank, name, clock, **before):
        self.leases = Leases(bank, name)
        self.ledger = Ledger(clock, {}, leases=self.leases, **before)

    async def spend(self, project, nusd):
        """Admit a request and settle it; raises as `admit`."""
        owner = project_budgets(project)
        for one in self.ledger.budget_leases(owner):
            if (room := self.leases.wait(one.lease, nusd)) is not None:
                await room
        held = admit(self.ledger, project, nusd, store_accepts=True, budgets=owner)
        self.ledger.settle(held, nusd)
        return held

    def of(self, owner):
        return {one.period: one for one in self.ledger.budget_leases(owner)}


@pytest.fixture
async def both(autojump_clock, nursery):
    """Yield the clock and two processes."""
    bank, clock = KeeperBank(), DayClock()
    processes = [Process(bank, name, clock) for name in ("one", "other")]
    for process in processes:
        await nursery.start(process.leases.run)
    yield clock, *processes
    nursery.cancel_scope.cancel()


class YoungBank:
    """The bank of a fleet that has just begun: it grants no budget for `settle_s`."""

    def __init__(self, settle_s):
        self._accounts = LeaseAccounts(trio.current_time(), settle_s=settle_s)

    async def join(self, member):
        return self._accounts.join(member)

    async def exchange(self, member, run, number, asks):
        await trio.lowlevel.checkpoint()
        return self._accounts.exchange(member, run, number, list(asks), trio.current_time())


async def test_a_fleet_that_has_just_begun_says_so_and_opens_budgets_on_time(autojump_clock, nursery):
    began = trio.current_time()
    process, shop = Process(YoungBank(2.5), "one", DayClock()), Project(id="shop", daily_budget_nusd=1_000, budget_action="block")
    await nursery.start(process.leases.run)
    await trio.sleep(2.3)
    with pytest.raises(StoreUnavailable, match=r"not known: the fleet's count has just begun; budgets are open in 0\.2 s"):
        await process.spend(shop, 100)
    await trio.sleep_until(began + 2.5)
    await process.spend(shop, 100)
    nursery.cancel_scope.cancel()


async def refused_period(process, project):
    with trio.fail_after(60):
        while True:
            try:
                await process.spend(project, 100)
            except BudgetReserved:  # the other process gives back what it does not use
                await trio.sleep(1)
            except BudgetExceededError as refusal:
                return refusal.period


async def test_each_budget_refuses_until_its_period_ends(both):
    clock, one, other = both
    shop = Project(id="shop", daily_budget_nusd=1_000, weekly_budget_nusd=1_500, total_budget_nusd=2_000, budget_action="block")
    assert await refused_period(one, shop) == await refused_period(other, shop) == "day"
    clock.day += 1  # Saturday
    await trio.sleep(1.5)
    assert await refused_period(other, shop) == await refused_period(one, shop) == "week"
    clock.day += 2  # Monday
    await trio.sleep(1.5)
    assert await refused_period(one, shop) == await refused_period(other, shop) == "total"
    spent = [process.ledger.spent("shop") + process.ledger.earlier("shop").total for process in (one, other)]
    assert sum(spent) == 2_000


async def test_a_request_that_ends_on_the_next_day_counts_for_its_own_day_and_for_its_week(both):
    clock, one, _ = both
    owner = project_budgets(shop := Project(id="shop", daily_budget_nusd=1_000, weekly_budget_nusd=5_000))
    for lease in one.ledger.budget_leases(owner):
        await one.leases.wait(lease.lease, 300)
    held = admit(one.ledger, shop, 300, store_accepts=True, budgets=owner)
    clock.day += 1
    today = one.of(owner)["day"]
    one.ledger.settle(held, 250)
    assert (today.lease.used, one.of(owner)["week"].lease.used) == (0, 250)
    assert one.ledger.spent_in("shop", "week") == 250


async def test_a_budget_that_is_set_while_a_request_runs_counts_it(both):
    _, one, _ = both
    held = one.ledger.reserve("shop", 300)
    owner = project_budgets(Project(id="shop", monthly_budget_nusd=5_000))
    assert one.of(owner)["month"].lease.used == 0
    one.ledger.settle(held, 250)
    assert one.of(owner)["month"].lease.used == 250


async def test_what_a_dead_process_has_spent_with_a_key_is_taken_over(both):
    clock, keeper, worker = both
    limits = KeyLimits(monthly_budget_nusd=5_000)
    owner = key_budgets(limits, "shop", "till")
    worker.ledger.charge_key(held := worker.ledger.reserve("shop", 300), "till", ())
    worker.ledger.settle(held, 250)
    keeper.ledger.count_key_elsewhere("till", FRIDAY, 250)
    assert (worker.of(owner)["month"].lease.used, keeper.of(owner)["month"].lease.used) == (250, 0)
    assert keeper.ledger.key_spent("till", "month") == 250
    clock.day += 1
    keeper.ledger.take_over_key("till", FRIDAY, 250)
    assert keeper.of(owner)["month"].lease.used == 250
    assert keeper.ledger.key_spent("till", "month") == 250


async def test_a_process_that_starts_says_what_was_spent_before(autojump_clock, nursery):
    limits = KeyLimits(weekly_budget_nusd=1_000, models=("sim/echo",))
    before = {"till": KeyUse(PeriodSpend(100, EarlierSpend(week=200, month=300, total=400)))}
    bank, clock = KeeperBank(), DayClock()
    one, other = Process(bank, "one", clock, keys=before), Process(bank, "other", clock)
    owner = key_budgets(limits, "shop", "till")
    for process in (one, other):
        await nursery.start(process.leases.run)
        process.ledger.share([owner], {"till": limits}, only_used=True)
    assert other.ledger.shared.held(owner.id, "week") is None
    await one.leases.report()
    [lease] = other.ledger.budget_leases(owner)
    await trio.sleep(1.5)
    assert (lease.spent, other.ledger.key_spent("till", "week")) == (300, 300)
    one.ledger.share([], {}, only_used=True)
    await trio.sleep(15)
    assert one.leases._leases == {}
    nursery.cancel_scope.cancel()
