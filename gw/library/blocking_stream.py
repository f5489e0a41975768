"""An answer held open for a thread: one task of the engine enters its context manager, reads it, and leaves it.

Cancel scopes want to be left by the task that entered them, so no thread can do that piece by piece. What the task reads
goes over a bounded channel; a thread that is slow takes many pieces at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import trio

from gw.library.asynchronous import AsyncGateway
from gw.library.portal import CLOSED, Engine
from gw.library.responses import Answered

A = TypeVar("A", bound=Answered[Any])
V = TypeVar("V")


class Held(Generic[A, V]):
    """`waiting`: pieces that may wait for a thread that does not read; then the provider waits too."""

    def __init__(
        self, engine: Engine, opening: Callable[[AsyncGateway], AbstractAsyncContextManager[A]], waiting: int
    ) -> None:
        """Blocks until the answer has begun. Raises what entering it raises."""
        self.engine = engine
        self.error: BaseException | None = None
        """Why it ended before its end."""
        self._opening = opening
        self._waiting = waiting
        self.answer: A = engine.run(self._begin)

    def pieces(self) -> list[V]:
        """All that wait, at least one; none at the end."""
        return self.engine.run(self._next)

    def leave(self) -> None:
        """Close the upstream, and wait until its record is made."""
        try:
            self.engine.run(self._leave)
        except RuntimeError as error:
            if str(error) != CLOSED:
                raise

    def leave_soon(self) -> None:
        """The same without waiting, for who has forgotten it."""
        self.engine.soon(self._scope.cancel)

    async def _begin(self, gateway: AsyncGateway, nursery: trio.Nursery) -> A:
        self._scope = trio.CancelScope()
        self._over = trio.Event()
        self._send, self._receive = trio.open_memory_channel[V](self._waiting)
        answer: A = await nursery.start(self._hold, gateway)
        return answer

    async def _hold(self, gateway: AsyncGateway, task_status: trio.TaskStatus[A]) -> None:
        """Its failure is the reader's; what cancels it from outside is the engine's end."""
        started = ended = False
        try:
            with self._scope, self._send:
                async with self._opening(gateway) as answer:
                    started = True
                    task_status.started(answer)
                    async for piece in answer:
                        await self._send.send(piece)
                    ended = True
        except Exception as error:
            if not started:
                raise
            self.error = error
        finally:
            if not ended and self.error is None:
                self.error = RuntimeError("this answer was closed" if self._scope.cancel_called else CLOSED)
            self._over.set()

    async def _next(self, gateway: AsyncGateway, nursery: trio.Nursery) -> list[V]:
        pieces: list[V] = []
        try:
            pieces.append(await self._receive.receive())
            while len(pieces) < self._waiting:
                pieces.append(self._receive.receive_nowait())
        except trio.WouldBlock:
            return pieces
        except trio.EndOfChannel:
            if not pieces:
                await self._over.wait()  # then the record is made
        return pieces

    async def _leave(self, gateway: AsyncGateway, nursery: trio.Nursery) -> None:
        self._scope.cancel()
        await self._over.wait()
