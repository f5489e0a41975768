"""The gateway's end of the pipes to a child process of its own, for the messages of `pipe_messages`.

A module apart: the children import that one and do without trio.
"""

from __future__ import annotations

from typing import Any, Final

import trio

from gw.store.pipe_messages import framed, take_message

_PIECE_BYTES: Final = 65_536


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
