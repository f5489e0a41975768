"""Standard input as the stdio transport reads it, line by line, given up the moment nobody waits for it.

The library reads in a thread, which stands in `read` until the client says something: Ctrl-C and SIGTERM would have to wait
for that. Here the event loop waits, so the descriptor stays as it is: it may be a terminal that others share, which must not
be made non-blocking.
"""

from __future__ import annotations

import os
import sys

import anyio
import trio

_READ_BYTES = 65_536


class Stdin(anyio.AsyncFile[str]):
    """`readline` gives UTF-8 text with its line end, "" at the end of the input. One reader at a time."""

    def __init__(self, fd: int = 0) -> None:
        super().__init__(sys.stdin)
        self._fd = fd
        self._held = bytearray()
        self._ended = False

    async def readline(self) -> str:
        searched = 0
        while (end := self._held.find(b"\n", searched) + 1) == 0 and not self._ended:
            searched = len(self._held)
            data = await self._more()
            self._held += data
            self._ended = not data
        line = self._held[: end or len(self._held)]
        del self._held[: len(line)]
        return line.decode("utf-8", "replace")

    async def _more(self) -> bytes:
        try:
            await trio.lowlevel.wait_readable(self._fd)
        except PermissionError:  # a file, which can always be read
            await trio.lowlevel.checkpoint()
        return os.read(self._fd, _READ_BYTES)
