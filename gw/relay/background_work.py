"""Work that goes on after its request has been answered: transcripts that are polled for, results that are called back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

import trio

from gw.errors import Overloaded

MAX_RUNNING = 1_024

Work: TypeAlias = Callable[[], Awaitable[None]]


class Occupancy(Protocol):
    """Counts what runs, for the limit of requests in flight and for the drain."""

    def enter(self) -> None: ...

    def leave(self) -> None: ...


class Background:
    """Runs work in a nursery of its own; `run` must run beside. Each piece counts like a request until it has ended."""

    def __init__(self) -> None:
        self.occupancy: Occupancy | None = None
        self.running = 0
        self._send, self._receive = trio.open_memory_channel[Work](MAX_RUNNING)

    def start(self, work: Work) -> None:
        """Start `work`, which must not raise. Raises Overloaded when there is too much of it."""
        if self.running >= MAX_RUNNING:
            raise Overloaded(what=f"{MAX_RUNNING} recordings are being transcribed already", retry_after_s=30.0)
        self.running += 1
        if self.occupancy is not None:
            self.occupancy.enter()
        self._send.send_nowait(work)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Leave out of the requests in flight, for a while, work that a stop may interrupt: no drain waits for it."""
        if self.occupancy is None:
            yield
            return
        self.occupancy.leave()
        try:
            yield
        finally:
            self.occupancy.enter()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            async for work in self._receive:
                nursery.start_soon(self._run_one, work)

    async def _run_one(self, work: Work) -> None:
        try:
            await work()
        finally:
            self.running -= 1
            if self.occupancy is not None:
                self.occupancy.leave()
