"""One task waits, another wakes it."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gw.net.wakeup import Wakeup, clock_of_run


async def test_the_time_is_that_of_trio(autojump_clock):
    now = clock_of_run()
    await trio.sleep(5)
    assert now() == trio.current_time()


async def test_a_waiting_task_goes_on_when_it_is_woken():
    wakeup, events = Wakeup(), []

    async def wait():
        await wakeup.wait()
        events.append("woken")

    wakeup.wake()  # nobody waits: nothing is remembered
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert events == []
        wakeup.wake()
    assert events == ["woken"]


async def test_a_cancelled_wait_makes_room_for_the_next():
    wakeup = Wakeup()
    with trio.move_on_after(0) as scope:
        await wakeup.wait()
    assert scope.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wakeup.wait)
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await wakeup.wait()
        wakeup.wake()
