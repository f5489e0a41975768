from math import inf

import trio
import trio.testing

from gw.web.drain import Drain


async def test_begin_cancels_idle_scopes_and_shortens_waiting_writes(autojump_clock):
    drain = Drain()
    idle = trio.CancelScope()
    drain.idle[idle] = trio.current_time() + 75
    ended_at = []

    async def write():
        with drain.writing(100) as scope:
            await trio.sleep_forever()
        ended_at.append((trio.current_time(), scope.cancelled_caught))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        drain.begin(5)
        assert idle.cancel_called
        assert drain.draining
        await drain.wait_begun()
    assert ended_at == [(began + 5, True)]


async def test_a_second_begin_only_brings_the_end_nearer():
    drain = Drain()
    assert drain.deadline == inf
    drain.begin(10)
    first = drain.deadline
    drain.begin(100)
    assert drain.deadline == first
    drain.begin(1)
    assert drain.deadline < first


async def test_wait_idle_returns_when_the_last_request_ends():
    drain = Drain()
    await drain.wait_idle()
    drain.enter()
    drain.enter()
    order = []

    async def wait():
        await drain.wait_idle()
        order.append("idle")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        drain.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert order == []
        drain.leave()
    assert order == ["idle"]


async def test_who_asked_is_called_once_when_the_drain_begins():
    drain, calls = Drain(), []
    drain.at_begin(lambda: calls.append("early"))
    drain.begin(5)
    drain.begin(1)
    assert calls == ["early"]
    drain.at_begin(lambda: calls.append("late"))
    assert calls == ["early", "late"]
