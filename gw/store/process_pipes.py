"""The gateway's end of the pipes to a child process of its own, for the messages of `pipe_messages`.

A module apart: the children import that one and do without trio.
"""

from __future__ import annotations

import fcntl
from contextlib import suppress
from typing import Any, Final

import trio

from gw.store.pipe_messages import framed, take_message

_PIECE_BYTES: Final = 65_536
LARGE_BYTES: Final = 1 << 20
"""Size of a pipe for large messages: the most that Linux gives a user who is not root (`man 7 pipe`, /proc/sys/fs/pipe-max-size)."""


def make_room(process: trio.Process) -> None:
    """Let a message of up to LARGE_BYTES to the process take one write, and not one for each 64 kB that it has read. Linux only."""
    assert process.stdin is not None
    set_size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if set_size is not None and isinstance(process.stdin, trio.lowlevel.FdStream):
        with suppress(OSError):  # the user has too many large pipes
            fcntl.fcntl(process.stdin.fileno(), set_size, LARGE_BYTES)


async def send_to(process: trio.Process, message: object) -> None:
    """Send a message to the process. Raises BrokenResourceError when it has ended."""
    assert process.stdin is not None
    await process.stdin.send_all(framed(message))


async def receive_from(process: trio.Process, received: bytearray) -> Any:
    """Return the process's next message; None when it ends. `received` keeps what came of the one after it."""
    assert process.stdout is not None
    while (message := take_message(received)) is None:
        piece = await process.stdout.receive_some(_PIECE_BYTES)
        if not piece:
            return None
        received += piece
    return message
