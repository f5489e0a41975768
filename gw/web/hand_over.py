"""Interface of a process that answers some of the requests in place of the HTTP host."""

from __future__ import annotations

from typing import Protocol

from gw.web.connection import Connection
from gw.web.http_server_head import Head


class OtherProcess(Protocol):
    """Takes over connections with the request that was just read on them, and all that follow."""

    changes: int
    """Rises when other requests than before may be answered there."""

    def answers(self, head: Head, data: bytes) -> bool:
        """Return whether a request, whose head is `data`, is answered there."""

    async def take_over(self, connection: Connection) -> bool:
        """Give the connection away with all that `connection.buffer` has; return whether it may now be closed without a reset."""
