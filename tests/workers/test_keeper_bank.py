"""One budget in the keeper's bank, used by several processes' leases on a virtual clock."""

import trio
import trio.lowlevel

from gw.relay.fleet_notices import FleetNotices
from gw.relay.leases import Leases
from gw.types.notices import GateNotice
from gw.workers.keeper_bank import KeeperBank


async def test_leases_of_several_processes_never_give_away_more_than_the_budget(autojump_clock):
    bank, limit, cost = KeeperBank(), 1_000_000, 900
    used = 0

    async def spend(leases: Leases) -> None:
        nonlocal used
        lease = leases.lease("budget:1:shop", "budget", limit)
        while True:
            if (wait := leases.wait(lease, cost)) is not None:
                await wait
            if lease.room < cost:
                return
            lease.reserve(cost)
            leases.spoken_for(lease)
            await trio.sleep(0.001)
            lease.settle(cost, cost)
            used += cost

    async with trio.open_nursery() as nursery:
        processes = [Leases(bank, f"w{number}") for number in range(3)]
        for leases in processes:
            await nursery.start(leases.run)
        async with trio.open_nursery() as spending:
            for leases in processes * 4:
                spending.start_soon(spend, leases)
        for leases in processes:
            await leases.leave()
        nursery.cancel_scope.cancel()
    assert used <= limit + 3 * cost
    assert used >= 0.9 * limit


async def test_a_process_that_leaves_gives_back_what_it_has_not_used(autojump_clock):
    bank = KeeperBank()
    first, second = Leases(bank, "w1"), Leases(bank, "w2")
    async with trio.open_nursery() as nursery:
        await nursery.start(first.run)
        lease = first.lease("slots:x", "slots", 4)
        await first.wait(lease, 4)
        assert lease.room == 4
        await first.leave()
        await nursery.start(second.run)
        other = second.lease("slots:x", "slots", 4)
        await second.wait(other, 4)
        assert other.room == 4
        nursery.cancel_scope.cancel()


async def test_a_notice_reaches_the_keeper_and_all_workers():
    bank, heeded, passed_on = KeeperBank(), [], []
    bank.follow = passed_on.append
    async with trio.open_nursery() as nursery:
        nursery.start_soon(FleetNotices(bank, "keeper").run, lambda notice, now: heeded.append(notice))
        notice = GateNotice("w1", "up", "llm:up/m", 3.0)
        await bank.publish(notice)
        await bank.publish(GateNotice("keeper", "up", ""))
        while len(passed_on) < 2:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert heeded == [notice]
    assert passed_on[0] == notice
