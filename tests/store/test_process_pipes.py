from __future__ import annotations

import fcntl
import subprocess
import sys

import pytest
import trio

from gw.store.process_pipes import LARGE_BYTES, make_room, receive_from, send_to

ECHO = """
import sys
from gw.store.pipe_messages import framed, read_message
for _ in range(2):
    message = read_message(sys.stdin.buffer)
    sys.stdout.buffer.write(framed(message) + framed(len(message)))
    sys.stdout.buffer.flush()
"""


async def test_messages_go_both_ways_until_the_process_ends():
    received = bytearray()
    process = await trio.lowlevel.open_process([sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with trio.fail_after(30):
        for message in ("a" * 300_000, "b"):  # the first is longer than a pipe holds
            await send_to(process, message)
            assert await receive_from(process, received) == message
            assert await receive_from(process, received) == len(message)
        assert await receive_from(process, received) is None
        await process.wait()
    await process.stdin.aclose()
    await process.stdout.aclose()


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="the size of a pipe can be set on Linux alone")
async def test_a_large_message_takes_one_write_after_room_was_made():
    process = await trio.lowlevel.open_process([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    before = fcntl.fcntl(process.stdin.fileno(), fcntl.F_GETPIPE_SZ)
    make_room(process)
    assert before < fcntl.fcntl(process.stdin.fileno(), fcntl.F_GETPIPE_SZ) == LARGE_BYTES
    await process.stdin.aclose()
    with trio.fail_after(30):
        await process.wait()
