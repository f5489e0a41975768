"""Stopping without cutting anybody off: one object that every connection consults.

    running ──announce()──▶ leaving ──begin()──▶ draining ──halt()──▶ halted

    leaving    `/ready` is 503 and answers carry `connection: close`, so that load balancers go elsewhere; all is still accepted
    draining   idle connections and WebSockets without a running turn are closed; no write waits past the drain's end
    halted     waiting writes end now
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Protocol

import trio

from gw.relay.places import Places

LAST_REQUEST_S = 1.0
"""For the first request of a client that has just connected when the drain begins: it cannot know, and a proxy does not repeat a
request that it has sent. A connection that is used for the second time can be lost in any moment, which clients expect."""


class DrainedSocket(Protocol):
    """A WebSocket of a client, as the drain sees it."""

    @property
    def has_turn(self) -> bool:
        """Return whether somebody waits for an answer on it."""

    async def close_for_drain(self) -> None: ...


class Drain:
    """Not thread-safe. Owned by the server; shared by all of its connections."""

    def __init__(self) -> None:
        self.leaving = False
        self.draining = False
        self.deadline = inf  # on trio's clock; infinite until `begin`
        self.in_flight = 0  # requests and sessions of the data plane now running, and those that wait for a place
        self.places: Places | None = None  # once one had to wait
        self.idle: dict[trio.CancelScope, float] = {}
        """Scopes around the wait for a next request → the deadline of that wait, on trio's clock, in the order added.

        A scope is removed before it is cancelled, so that its owner sees that no request may begin under it.
        """
        self.fresh: dict[trio.CancelScope, float] = {}
        """Scopes around the wait for the first byte of a connection → when the wait began, on trio's clock."""
        self.sockets: set[DrainedSocket] = set()
        self._writes: set[trio.CancelScope] = set()
        self.follow: Callable[[], None] | None = None
        """Called after each step, for processes that stop together with this one."""
        self._at_begin: list[Callable[[], None]] = []
        self._started = trio.Event()
        self._all_done = trio.lowlevel.ParkingLot()

    def announce(self) -> None:
        """Say that the gateway will stop, and go on as before."""
        self.leaving = True
        self._followed()

    def begin(self, within_s: float = inf) -> None:
        """Stop taking work; what runs may go on for `within_s` seconds. A second call can only shorten that."""
        self.deadline = min(self.deadline, trio.current_time() + within_s)
        self.leaving = self.draining = True
        self._started.set()
        while self._at_begin:
            self._at_begin.pop()()
        while self.idle:
            self.idle.popitem()[0].cancel()
        for scope, since in self.fresh.items():
            scope.deadline = min(scope.deadline, since + LAST_REQUEST_S, self.deadline)
        for scope in self._writes:
            scope.deadline = min(scope.deadline, self.deadline)
        self._followed()

    def _followed(self) -> None:
        if self.follow is not None:
            self.follow()

    def halt(self) -> None:
        """Give up on every write that waits for its client."""
        self.begin(-1.0)

    def at_begin(self, call: Callable[[], None]) -> None:
        """Run `call` once at the first `begin`, or now when that has passed."""
        if self.draining:
            call()
        else:
            self._at_begin.append(call)

    async def wait_begun(self) -> None:
        await self._started.wait()

    def enter(self) -> None:
        self.in_flight += 1

    def leave(self) -> None:
        self.in_flight -= 1
        if self.places is not None:
            self.places.hand_over()
        if not self.in_flight and self._all_done:
            self._all_done.unpark_all()

    def places_of(self, most: int) -> Places:
        """Return the `most` places for requests at once. Those that wait must be within `enter` and `leave`."""
        if self.places is None:
            self.places = Places(most, self._running)
        return self.places

    def _running(self) -> int:
        places = self.places
        return self.in_flight - (places.waiting + places.promised if places is not None else 0)

    async def wait_idle(self) -> None:
        """Wait until no request of the data plane runs."""
        while self.in_flight:
            await self._all_done.park()

    @contextmanager
    def writing(self, within_s: float) -> Iterator[trio.CancelScope]:
        """Bound a write that waits for its client by `within_s` and by what is left of the drain.

        The scope is `cancelled_caught` when time ran out.
        """
        deadline = min(trio.current_time() + within_s, self.deadline)
        scope = trio.CancelScope(deadline=deadline)
        self._writes.add(scope)
        try:
            with scope:
                yield scope
        finally:
            self._writes.discard(scope)
