"""Standard input for the stdio transport, line by line, cancellable at once.

The library reads in a thread that blocks in `read` until the client sends something, and Ctrl-C and SIGTERM would have to
wait for that. Here the event loop waits for readability. The descriptor is not made non-blocking, since it may be a
terminal that other programs share.
"""

from __future__ import annotations

import os
import sys

import anyio
import trio

_READ_BYTES = 65_536


class Stdin(anyio.AsyncFile[str]):
    """`readline` returns UTF-8 text with its line end, "" at the end of the input. One reader at a time."""

    def __init__(self, fd: int = 0) -> None:
        super().__init__(sys.stdin)
        self._fd = fd
        self._buffer = bytearray()
        self._ended = False

    async def readline(self) -> str:
        searched = 0
        while (end := self._buffer.find(b"\n", searched) + 1) == 0 and not self._ended:
            searched = len(self._buffer)
            data = await self._read_some()
            self._buffer += data
            self._ended = not data
        line = self._buffer[: end or len(self._buffer)]
        del self._buffer[: len(line)]
        return line.decode("utf-8", "replace")

    async def _read_some(self) -> bytes:
        try:
            await trio.lowlevel.wait_readable(self._fd)
        except PermissionError:  # a regular file is always readable
            await trio.lowlevel.checkpoint()
        return os.read(self._fd, _READ_BYTES)
