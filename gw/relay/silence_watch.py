"""The times at which live sessions are looked at for a provider that has failed silently: one task for all of them.

A task for each would take 4 kB of every session, and several passes through the scheduler for each look.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol

import trio

from gw.net.wakeup import Wakeup

APART_S: Final = 0.02  # between two rounds of looks that are due by the time: thousands of sessions must not wake the task for each


class Watched(Protocol):
    """Made with both times infinite. Only the watch changes them, but who leaves it sets `look_at` to infinity."""

    look_at: float
    """When it is to be looked at next; infinite: never, unless it says so before."""
    queued_at: float
    """Time of its next entry in the watch's queue, which is at `look_at` or before."""

    def look(self, now: float) -> None:
        """Look, and say when to look again. Raises nothing, and does not wait."""


class SilenceWatch:
    def __init__(self) -> None:
        self.running = False
        self._queue: list[tuple[float, int, Watched]] = []
        """A heap. Entries of what was looked at earlier, or is to be later, stay until their time has come."""
        self._numbers = count()
        self._changed = Wakeup()

    def set_time(self, watched: Watched, at: float) -> None:
        """Have something looked at at a time, in place of the time before; now or earlier: as soon as this task can."""
        watched.look_at = at
        if at < watched.queued_at:
            watched.queued_at = at
            heappush(self._queue, (at, next(self._numbers), watched))
            if self._queue[0][2] is watched:
                self._changed.wake()

    async def watch_sessions(self) -> None:
        """Look at what is due, until cancelled."""
        self.running = True
        try:
            while True:
                self._look(now := trio.current_time())
                at = self._queue[0][0] if self._queue else math.inf
                with trio.move_on_at(max(at, now + APART_S)):
                    await self._changed.wait()
        finally:
            self.running = False

    def _look(self, now: float) -> None:
        queue = self._queue
        while queue and queue[0][0] <= now:
            at, _, watched = heappop(queue)
            if at != watched.queued_at:
                continue
            watched.queued_at = math.inf
            if watched.look_at <= now:
                watched.look(now)
            elif watched.look_at < math.inf:
                self.set_time(watched, watched.look_at)
