"""The trio thread behind a `Gateway`, and how plain threads cross into it; asyncio crosses by `gw.library.asyncio_portal`.

The first call starts the thread; `close` or the end of the program stops it. Python lets no thread start during its last
steps (`atexit`), but closing a database takes threads. So a watching thread waits until no other thread is left that could
call, and closes the portals while everything still works.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, TypeVar

import structlog
import trio

from gw.errors import one_error
from gw.library.asynchronous import AsyncGateway

P = ParamSpec("P")
T = TypeVar("T")
X = TypeVar("X")
CLOSE_S = 15.0
"""For the last records and events at the end. A record that is not in the database by then is replayed at the next start."""
LEAVE_S = 2.0  # for calls that are in progress then
CLOSED = "this gateway has been closed"
Work = Callable[[AsyncGateway], Awaitable[T]]
_log = structlog.get_logger("gw.library")


def refuse_running_loop() -> None:
    """Raise RuntimeError inside asyncio and trio, whose loop a blocking call would stop."""
    running = "an event loop is already running in this thread"
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(f"{running}: in trio use `async with gw.open_gateway() as g` in place of gw.Gateway()")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{running}: in asyncio use `async with gw.asyncio.open_gateway() as g` in place of gw.Gateway()")


class Portal:
    """One gateway in one trio thread. Any thread may call the methods that are not async, at any time.

    `nursery` is for tasks that outlive a call; like `gateway`, it belongs to the trio thread.
    """

    nursery: trio.Nursery
    gateway: AsyncGateway

    def __init__(self, open_gateway: Callable[[], AbstractAsyncContextManager[AsyncGateway]]) -> None:
        self._open_gateway = open_gateway
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._closed = False
        self._process = os.getpid()
        self._calls: set[trio.CancelScope] = set()
        self._scope: trio.CancelScope | None = None

    def run(self, work: Work[T]) -> T:
        """Run `work(gateway)` in the trio thread and block until it returns; Ctrl-C cancels it.

        Raises what `work` raises, and RuntimeError once closed.
        """
        refuse_running_loop()
        self.start()
        scope = trio.CancelScope()
        try:
            return trio.from_thread.run(self._work, work, scope, trio_token=self._token)
        except trio.RunFinishedError:
            raise self._ended() from self._failure
        except BaseException:
            self.run_soon(scope.cancel)
            raise

    def spawn(self, task: Callable[[AsyncGateway], Awaitable[None]], closed: Callable[[], object]) -> None:
        """Run `task(gateway)` beside others in the trio thread, without waiting; call `closed` there if the gateway is closing.

        The task must not raise. Raises RuntimeError once closed, and in a process that was forked after the gateway was opened.
        """
        self._refuse_fork()

        def start() -> None:
            if self._stop.is_set():
                closed()
            else:
                self.nursery.start_soon(task, self.gateway)

        try:
            self._token.run_sync_soon(start)
        except trio.RunFinishedError:
            raise self._ended() from self._failure

    def _ended(self) -> RuntimeError:
        """Return the error of a call after the end of the thread's work; `_failure` is its cause."""
        if self._thread is not None:
            self._thread.join(LEAVE_S)  # it may not have noted the error yet
        return RuntimeError(CLOSED if self._failure is None else "this gateway has ended because of the error that is its cause")

    def close(self) -> None:
        """Stop the thread once everything recorded is in the database. Calls that still wait raise RuntimeError."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is None or self._process != os.getpid():
            return
        self.run_soon(self._stop.set)
        thread.join(CLOSE_S)

    def run_soon(self, function: Callable[[], object]) -> None:
        """Run `function` in the trio thread, without waiting for it."""
        with suppress(trio.RunFinishedError):  # the thread has ended, and all work with it
            self._token.run_sync_soon(function)

    def give_up(self) -> None:
        """Stop a `start` that is in progress in another thread: it raises RuntimeError, unless the gateway is open by then."""
        self._closed = True
        if self._scope is not None:
            self.run_soon(self._give_up)

    def _give_up(self) -> None:
        if not self._ready.is_set() and self._scope is not None:
            self._scope.cancel()

    def _refuse_fork(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError("this gateway was made before a fork: make one in this process, with its own db_path")

    def start(self) -> None:
        """Start the thread and block until the gateway is open.

        Raises what opening the gateway raises; then the next call tries again.
        """
        self._refuse_fork()
        with self._lock:
            if self._closed:
                raise RuntimeError(CLOSED)
            if self._thread is not None:
                return
            self._ready.clear()
            thread = threading.Thread(target=self._run_thread, name="gw", daemon=True)
            thread.start()
            self._ready.wait()
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            self._thread = thread
        _close_at_exit(self)

    def _run_thread(self) -> None:
        try:
            trio.run(self._main)
        except Exception as error:
            self._failure = error
            if self._ready.is_set():
                _log.error("gateway_ended", exc_info=True)
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._stop = trio.Event()
        self._idle = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as self._scope, one_error():
            if self._closed:
                self._scope.cancel()
            async with self._open_gateway() as gateway:
                await self._serve(gateway)
        if self._scope.cancelled_caught:
            raise RuntimeError(CLOSED)

    async def _serve(self, gateway: AsyncGateway) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self.gateway, self.nursery = gateway, nursery
                self._ready.set()
                await self._stop.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._stop.set()
            for scope in tuple(self._calls):  # so that no thread waits forever
                scope.cancel()
            if self._calls:
                with trio.move_on_after(LEAVE_S, shield=True):
                    await self._idle.wait()

    async def _work(self, work: Work[T], scope: trio.CancelScope) -> T:
        if self._stop.is_set():
            raise RuntimeError(CLOSED)
        self._calls.add(scope)
        try:
            with scope:
                result = await work(self.gateway)
        finally:
            self._calls.discard(scope)
            if self._stop.is_set() and not self._calls:
                self._idle.set()
        if scope.cancelled_caught:
            raise RuntimeError(CLOSED)
        return result


class Proxy(ABC, Generic[X]):
    """An object of the trio thread, for plain threads."""

    @abstractmethod
    def _run(self, function: Callable[[X], Awaitable[T]]) -> T:
        """Run `function` with the object in the trio thread and block until it returns."""


def blocking(method: Callable[Concatenate[X, P], Awaitable[T]]) -> Callable[Concatenate[Proxy[X], P], T]:
    """Return an async method as a method of a proxy, which blocks."""

    @wraps(method)
    def call(self: Proxy[X], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(lambda target: method(target, *args, **kwargs))

    return call


_portals: weakref.WeakSet[Portal] = weakref.WeakSet()
_watch_lock = threading.Lock()
_watching = False


def _close_at_exit(portal: Portal) -> None:
    global _watching
    with _watch_lock:
        _portals.add(portal)
        if not _watching:
            threading.Thread(target=_close_when_alone, name="gw at exit").start()
            _watching = True


def _close_when_alone() -> None:
    """Join every thread that the program waits for, the main one first; then close the portals."""
    own = threading.current_thread()
    while others := [t for t in threading.enumerate() if t.is_alive() and not t.daemon and t is not own]:
        for thread in others:
            thread.join()
    for portal in tuple(_portals):
        portal.close()
