"""Parse each head once for all connections of a server.

An app opens many connections and sends the same head on all of them, except for its content-length. What is made out of a head (its
route, its caller) is kept with it, so a new connection has no more work than one that repeats its last head.
"""

from __future__ import annotations

from typing import Final

from gw.web.http_server_head import Head, parse_head, without_length

MOST_HEADS: Final = 64
MOST_BYTES: Final = 4_096
"""A longer head is parsed each time: cookies that differ for everyone, mostly."""


class KnownHeads:
    """The heads that were sent last, in the order of their use."""

    def __init__(self) -> None:
        self._heads: dict[tuple[bytes, bytes], Head] = {}

    def parse(self, data: bytes) -> Head:
        """Return a head of its own for each call. Raises Refused."""
        before, length, after = without_length(data)
        key = before, after
        known = self._heads.pop(key, None)
        if known is not None:
            self._heads[key] = known  # the last one used
            head = known.copy()
            if head.again(data):
                return head
        head = parse_head(data)
        if not head.upgrade and not head.body.chunked:
            head.remember(before, length, after)
            if len(data) <= MOST_BYTES:
                self._heads[key] = head.copy()
                if len(self._heads) > MOST_HEADS:
                    del self._heads[next(iter(self._heads))]
        return head
