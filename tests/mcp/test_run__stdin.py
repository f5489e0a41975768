from __future__ import annotations

import os

import pytest
import trio

from gw.mcp.run import Stdin

TEXT = '{"a":1}\nschlüssel 🗝\r\n\nlast'
LINES = ['{"a":1}\n', "schlüssel 🗝\r\n", "\n", "last", ""]


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


async def lines(stdin):
    return [line async for line in stdin]


@pytest.mark.parametrize("cut", range(1, len(TEXT.encode())))
async def test_lines_however_they_come(pipe, cut):
    reading, writing = pipe
    data, stdin = TEXT.encode(), Stdin(reading)
    result: list[str] = []

    async def read() -> None:
        for _ in LINES[:-2]:
            result.append(await stdin.readline())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        os.write(writing, data[:cut])
        await trio.testing.wait_all_tasks_blocked()
        os.write(writing, data[cut:])
    assert result == LINES[:-2]


async def test_the_end_of_the_input():
    reading, writing = os.pipe()
    os.write(writing, TEXT.encode() * 1_000)
    os.close(writing)
    stdin = Stdin(reading)
    result = await lines(stdin)
    assert "".join(result) == TEXT * 1_000
    assert await stdin.readline() == ""
    os.close(reading)


async def test_a_file(tmp_path):
    path = tmp_path / "said.jsonl"
    path.write_text(TEXT, newline="")
    with path.open() as file:
        assert await lines(Stdin(file.fileno())) == LINES[:-1]


async def test_bytes_that_are_no_text(pipe):
    reading, writing = pipe
    os.write(writing, b"\xff\xfe\n")
    assert await Stdin(reading).readline() == "��\n"


async def test_waiting_is_given_up_at_once_and_nothing_is_lost(pipe):
    reading, writing = pipe
    stdin = Stdin(reading)
    os.write(writing, b"half a ")
    with trio.move_on_after(0.01) as scope:
        await stdin.readline()
    assert scope.cancelled_caught
    os.write(writing, b"line\n")
    assert await stdin.readline() == "half a line\n"
    assert os.get_blocking(reading)
