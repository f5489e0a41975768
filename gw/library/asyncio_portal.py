"""Coroutines of asyncio cross into the trio thread of a `Portal`, and answers come back.

    asyncio's thread                                   trio's thread
    call or stream ──task, Portal.spawn──────────────▶ a task of its own, in a cancel scope
                   ◀─result, pieces, end: call_soon_threadsafe──
                   ──cancel, credit: run_sync_soon────▶

Each side changes only what belongs to it, so there are no locks. A coroutine that is cancelled cancels the task's scope and waits for
the task's end, as it would in trio: when the CancelledError comes out, the upstream is closed and the record is made. A task that ends
because the gateway closes raises RuntimeError in the coroutine. Pieces of an answer are bounded by credit, which returns as they are
read; without credit the task waits, and then the provider does.

Calls belong to the loop that makes them, so any number of loops, in any threads, may share one gateway.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import trio

from gw.library.asynchronous import AsyncGateway
from gw.library.portal import CLOSED, Portal, Work
from gw.library.responses import AsyncStream

A = TypeVar("A", bound=AsyncStream[Any, Any])
P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")
X = TypeVar("X")
PIECES = 64
"""Pieces of an answer that may wait for a slow coroutine; then the provider waits too."""


def refuse_other_loops() -> asyncio.AbstractEventLoop:
    """Return the running loop of asyncio. Raises RuntimeError outside asyncio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        alternatives = "in trio use gw.open_gateway(), in plain threads gw.Gateway()"
        raise RuntimeError(f"gw.asyncio.open_gateway() is for a running asyncio program: {alternatives}") from None


async def _ended(outcome: asyncio.Future[T], cancel: Callable[[], object]) -> T:
    """Wait for the outcome of a task of the other thread. If cancelled: cancel the task, wait for its end, then raise CancelledError."""
    try:
        await asyncio.wait([outcome])
    except asyncio.CancelledError:
        cancel()
        await _done(outcome)
        raise
    return outcome.result()


async def _done(outcome: asyncio.Future[Any]) -> None:
    """Wait until the outcome is known, however often the caller is cancelled: the other side has been, and ends soon."""
    while not outcome.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([outcome])
    outcome.exception()  # seen, so that asyncio does not report it


def _set(outcome: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(value)


class AsyncioPortal:
    """A `Portal` for coroutines of any asyncio loop."""

    def __init__(self, portal: Portal) -> None:
        self.portal = portal

    async def open(self) -> AsyncGateway:
        """Start the trio thread and wait until the gateway is open. Raises what opening it raises."""
        opening = self._in_thread(self.portal.start, "gw opening")
        try:
            await _ended(opening, self.portal.give_up)
        except asyncio.CancelledError:
            await _done(self._in_thread(self.portal.close, "gw closing"))
            raise
        return self.portal.gateway

    async def close(self) -> None:
        """Close the gateway and wait until everything recorded is in the database. A cancellation is raised afterwards."""
        await _ended(self._in_thread(self.portal.close, "gw closing"), lambda: None)

    def _in_thread(self, function: Callable[[], object], name: str) -> asyncio.Future[None]:
        """Run `function`, which blocks, in a thread of its own: the loop's executor may be busy, or shut down already."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[None] = loop.create_future()

        def run() -> None:
            error = None
            try:
                function()
            except Exception as raised:
                error = raised
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(_set, outcome, None, error)

        threading.Thread(target=run, name=name, daemon=True).start()
        return outcome

    async def run(self, work: Work[T]) -> T:
        """Run `work(gateway)` in the trio thread and wait for it. Raises what it raises, and RuntimeError once closed."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        scope = trio.CancelScope()

        def report(value: T | None, error: BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(_set, outcome, value, error)

        async def task(gateway: AsyncGateway) -> None:
            value: T | None = None
            error: BaseException | None = RuntimeError(CLOSED)
            try:
                with scope:
                    value, error = await work(gateway), None
            except Exception as raised:
                error = raised
            finally:
                report(value, error)

        self.portal.spawn(task, lambda: report(None, RuntimeError(CLOSED)))
        return await _ended(outcome, lambda: self.portal.run_soon(scope.cancel))


class StreamTask(Generic[A, V]):
    """A task of the trio thread that holds an answer open, and the pieces that it has sent to the loop that opened it."""

    answer: A

    def __init__(self, portal: AsyncioPortal, open_: Callable[[AsyncGateway], AbstractAsyncContextManager[A]]) -> None:
        self.portal = portal
        self._loop = asyncio.get_running_loop()
        # Of the trio thread:
        self._open = open_
        self._scope = trio.CancelScope()
        self._credit = PIECES
        self._credited = trio.Event()
        # Of asyncio's thread:
        self._begun: asyncio.Future[None] = self._loop.create_future()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._pieces: deque[V] = deque()
        self._taken = 0
        self._waiter: asyncio.Future[None] | None = None

    # ---- in the trio thread

    async def _read(self, gateway: AsyncGateway) -> None:
        """Read the answer to its end. A failure is the reader's; a cancellation from outside is the gateway's end."""
        error: BaseException | None = None
        complete = False
        try:
            with self._scope:
                async with self._open(gateway) as answer:
                    self._post(self._begin, answer)
                    async for piece in answer:
                        await self._take_credit()
                        self._post(self._arrive, piece)
                    complete = True
        except Exception as raised:
            error = raised
        finally:
            if not complete and error is None:
                error = RuntimeError("this answer was closed" if self._scope.cancel_called else CLOSED)
            self._post(self._finish, error)

    async def _take_credit(self) -> None:
        while not self._credit:
            self._credited = trio.Event()
            await self._credited.wait()
        self._credit -= 1

    def _return_credit(self, count: int) -> None:
        self._credit += count
        self._credited.set()

    def _post(self, function: Callable[..., None], argument: object) -> None:
        """Call `function(argument)` in asyncio's thread. If its loop has ended, the reader has gone, and the answer is closed."""
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            self._scope.cancel()

    # ---- in asyncio's thread

    def _begin(self, answer: A) -> None:
        self.answer = answer
        self._begun.set_result(None)

    def _arrive(self, piece: V) -> None:
        self._pieces.append(piece)
        self._wake()

    def _finish(self, error: BaseException | None) -> None:
        if not self._begun.done():
            _set(self._begun, None, error)
        _set(self._end, None, error)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _cancel(self) -> None:
        self.portal.portal.run_soon(self._scope.cancel)

    async def open(self) -> None:
        """Wait until the answer has begun. Raises what entering it raises."""
        closed = partial(self._post, self._finish, RuntimeError(CLOSED))
        self.portal.portal.spawn(self._read, closed)
        try:
            await asyncio.wait([self._begun])
            self._begun.result()
        except BaseException:
            await self.close()
            self._begun.exception()  # seen, so that asyncio does not report it
            raise

    async def close(self) -> None:
        """Close the upstream, and wait until the record is made. A cancellation is raised afterwards."""
        if not self._end.done():
            self._cancel()
        with suppress(Exception):  # raised where the answer is read
            await _ended(self._end, lambda: None)

    async def next(self) -> V:
        """Return the next piece. Raises StopAsyncIteration at the end, and what ended the answer early; a cancelled call loses none."""
        if self._waiter is not None:
            raise RuntimeError("another task is reading this answer")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("this answer belongs to another event loop")
        while not self._pieces:
            if self._end.done():
                self._end.result()
                raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._taken += 1
        if self._taken >= PIECES // 2 and not self._end.done():
            self.portal.portal.run_soon(partial(self._return_credit, self._taken))
            self._taken = 0
        return self._pieces.popleft()


class AsyncioProxy(ABC, Generic[X]):
    """An object of the trio thread, for coroutines of asyncio."""

    @abstractmethod
    async def _run(self, function: Callable[[X], Awaitable[T]]) -> T:
        """Run `function` with the object in the trio thread and wait for it."""


def crossing(method: Callable[Concatenate[X, P], Awaitable[T]]) -> Callable[Concatenate[AsyncioProxy[X], P], Awaitable[T]]:
    """Return an async method of trio as a method of a proxy, for asyncio."""

    @wraps(method)
    async def call(self: AsyncioProxy[X], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(lambda target: method(target, *args, **kwargs))

    return call
