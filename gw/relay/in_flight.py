"""The running requests, and the deadlines of their attempts."""

from __future__ import annotations

import math
from typing import Final, Protocol

import trio

from gw.relay.large_requests import LargeRequests
from gw.relay.silence_watch import SilenceWatch

UPLOADS_BYTES: Final = 64_000_000


class _Expiring(Protocol):
    def expire(self) -> None: ...


class DeadlineKeeper:
    """One task that ends the attempts whose deadline has passed, in place of a cancel scope for each."""

    def __init__(self) -> None:
        self.deadlines: dict[_Expiring, float] = {}
        """Attempts, each with the time at which its next events are due; infinity: nothing is awaited."""
        self.running = False
        self.nursery: trio.Nursery | None = None
        """For the tasks of hedged requests."""
        self._shortest_s = math.inf
        self._shorter = trio.Event()

    def set_shortest(self, shortest_s: float) -> None:
        """Promise that no deadline will be nearer than this when it is set."""
        self._shortest_s = shortest_s
        self._shorter.set()

    async def run(self) -> None:
        self.running = True
        try:
            async with trio.open_nursery() as self.nursery:
                while True:
                    self._shorter = trio.Event()
                    now = trio.current_time()
                    for attempt in [attempt for attempt, deadline in self.deadlines.items() if deadline <= now]:
                        attempt.expire()
                    with trio.move_on_at(min([now + self._shortest_s, *self.deadlines.values()])):
                        await self._shorter.wait()
        finally:
            self.running, self.nursery = False, None


class UploadMemory:
    """Memory that uploads of more than a megabyte share; what does not fit goes to files."""

    def __init__(self, most_bytes: int = UPLOADS_BYTES) -> None:
        self._most_bytes = most_bytes
        self.taken = 0

    def take(self, size: int) -> bool:
        """Take `size` bytes, if they are free."""
        if self.taken + size > self._most_bytes:
            return False
        self.taken += size
        return True

    def give_back(self, size: int) -> None:
        self.taken -= size


class InFlight:
    """The running requests. `stop` ends them all: each raises Stopping where it waits for its upstream."""

    def __init__(self) -> None:
        self.requests = 0
        self.keeper = DeadlineKeeper()
        self.silence = SilenceWatch()
        self.scopes: set[trio.CancelScope] = set()  # cancel scopes of the attempts that cannot be aborted
        self.large = LargeRequests()
        self.upload_memory = UploadMemory()
        self.stopping = False

    def stop(self) -> None:
        self.stopping = True
        for scope in tuple(self.scopes):
            scope.cancel()
        for attempt in tuple(self.keeper.deadlines):
            attempt.expire()
