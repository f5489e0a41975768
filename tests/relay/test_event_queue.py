from __future__ import annotations

import pytest
import trio
import trio.testing

from gw.relay.event_queue import MOST, EventQueue


async def test_lists_come_in_order_and_then_the_end():
    queue: EventQueue[int] = EventQueue()
    await queue.put([1, 2])
    await queue.put([3])
    queue.close()
    assert [await queue.take(), await queue.take()] == [[1, 2], [3]]
    with pytest.raises(trio.EndOfChannel):
        await queue.take()


async def test_a_taker_waits_for_a_list_and_for_the_end(nursery):
    queue: EventQueue[int] = EventQueue()
    taken: list[list[int]] = []

    async def take_all() -> None:
        while True:
            try:
                taken.append(await queue.take())
            except trio.EndOfChannel:
                break
        taken.append([])

    nursery.start_soon(take_all)
    await trio.testing.wait_all_tasks_blocked()
    await queue.put([1])
    await trio.testing.wait_all_tasks_blocked()
    assert taken == [[1]]
    queue.close()
    await trio.testing.wait_all_tasks_blocked()
    assert taken == [[1], []]


async def test_those_who_put_wait_while_it_is_full(nursery):
    queue: EventQueue[int] = EventQueue()
    done: list[int] = []

    async def put(number: int) -> None:
        await queue.put([number])
        done.append(number)

    for number in range(MOST + 2):
        nursery.start_soon(put, number)
        await trio.testing.wait_all_tasks_blocked()
    assert done == list(range(MOST))
    assert await queue.take() == [0]
    await trio.testing.wait_all_tasks_blocked()
    assert len(done) == MOST
    rest = [await queue.take() for _ in range(MOST + 1)]
    assert rest == [[number] for number in range(1, MOST + 2)]
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(done) == list(range(MOST + 2))
    queue.close()
    with pytest.raises(trio.EndOfChannel):
        await queue.take()


async def test_a_cancelled_put_adds_nothing_and_a_cancelled_take_loses_nothing():
    queue: EventQueue[int] = EventQueue()
    with trio.CancelScope() as scope:
        scope.cancel()
        await queue.put([1])
    await queue.put([2])
    with trio.CancelScope() as scope:
        scope.cancel()
        await queue.take()
    assert await queue.take() == [2]
