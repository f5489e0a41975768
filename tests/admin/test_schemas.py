"""Long lists of an answer: other tasks run while their rows are made."""

from __future__ import annotations

import trio

from gw.admin.schemas import ROWS_A_TURN, in_turns


async def test_rows_are_made_in_turns():
    made = []
    seen = []

    def row(number):
        made.append(number)
        return number

    async def look():
        while len(made) < 3 * ROWS_A_TURN:
            seen.append(len(made))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        rows = await in_turns(row(number) for number in range(3 * ROWS_A_TURN + 1))
    assert rows == list(range(3 * ROWS_A_TURN + 1))
    assert seen  # in a random order with the task that makes them
    assert set(seen) <= {ROWS_A_TURN, 2 * ROWS_A_TURN}


async def test_a_list_without_rows():
    assert await in_turns([]) == []
