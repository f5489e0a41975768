"""Events of a live session that wait for its caller. trio's memory channel takes 2 kB where this takes 150 bytes while it is empty."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import trio

E = TypeVar("E")

MOST: Final = 64
"""Lists of events that wait for a caller that does not read; then the provider waits too."""


class EventQueue(Generic[E]):
    """Lists of events, in order. Any number of tasks may put, one takes."""

    __slots__ = ("_changed", "_lists", "is_closed")

    def __init__(self) -> None:
        self._lists: list[list[E]] = []
        self._changed: trio.Event | None = None  # made by whoever waits
        self.is_closed = False
        """Nothing more will be put."""

    async def put(self, events: list[E]) -> None:
        """Add a list; then wait while there are more than MOST."""
        await trio.lowlevel.checkpoint()
        self._lists.append(events)
        self._wake()
        while len(self._lists) > MOST:
            await self._wait()

    async def take(self) -> list[E]:
        """Remove and return the first list, waiting for it. Raises trio.EndOfChannel if the queue is closed and empty."""
        await trio.lowlevel.checkpoint()
        while not self._lists:
            if self.is_closed:
                raise trio.EndOfChannel
            await self._wait()
        return self._take()

    def close(self) -> None:
        """Note that nothing more will be put; what is there can still be taken."""
        self.is_closed = True
        self._wake()

    def _take(self) -> list[E]:
        events = self._lists.pop(0)
        self._wake()
        return events

    async def _wait(self) -> None:
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None
