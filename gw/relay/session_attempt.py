"""One provider's part of a live session, and the tasks that run for it."""

from __future__ import annotations

import math
from typing import Generic, TypeVar

import trio

from gw.errors import ProviderError
from gw.relay.attempt import Attempt
from gw.relay.prepared_call import PreparedCall
from gw.types.compiled import mypyc_attr
from gw.types.usage import Usage

S = TypeVar("S")


@mypyc_attr(allow_interpreted_subclasses=True)
class SessionAttempt(Generic[S]):
    """One provider's part of a session."""

    __slots__ = (
        "_all_ended", "_tasks", "attempt", "call", "ended", "error", "failure", "last_event_at", "live", "reported", "sending_since",
        "session", "using",
    )  # fmt: skip

    def __init__(self, call: PreparedCall[S], attempt: Attempt) -> None:
        self.call = call
        self.attempt = attempt
        self.session: S | None = None
        self.live = False  # the provider has all input from before: new input goes to it directly
        self.sending_since = math.inf
        self.last_event_at = 0.0
        self.error: ProviderError | None = None  # a failure that another task than the provider's reader has seen
        self.failure: ProviderError | None = None  # the one that has ended the attempt
        self.ended = False
        self.reported: Usage | None = None
        self.using = trio.CancelScope()  # around its use
        self._tasks: list[trio.CancelScope] = []
        self._all_ended: trio.Event | None = None  # made by who waits

    def fail(self, error: ProviderError) -> None:
        """End the attempt, from another task than the one that reads it."""
        if not self.ended:  # else a flush, perhaps, came too late for a provider that has said all
            self.failure = self.failure or error
            self.using.cancel()

    def task_begins(self, scope: trio.CancelScope) -> None:
        """Have `end_tasks` end a task, which runs in `scope`."""
        self._tasks.append(scope)

    def task_ended(self, scope: trio.CancelScope) -> None:
        self._tasks.remove(scope)
        if not self._tasks and self._all_ended is not None:
            self._all_ended.set()

    async def end_tasks(self) -> None:
        """Cancel the attempt's tasks, and wait until they have ended: none runs beside another attempt."""
        for scope in self._tasks:
            scope.cancel()
        if self._tasks:
            self._all_ended = trio.Event()
            with trio.CancelScope(shield=True):
                await self._all_ended.wait()

    def note(self, error: ProviderError) -> None:
        """Note a failure: who watches ends the attempt."""
        self.error = self.error or error

    def stop_sending(self, error: ProviderError) -> None:
        """Note that the provider takes no more input; the next one gets it from the buffer."""
        self.note(error)
        self.live = False
