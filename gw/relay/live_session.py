"""What live sessions share: one provider after the other behind one session, each part of it a leg.

Tasks, all inside the caller's block: the driver, which holds one provider after the other, and what a leg needs beside
it. The driver's failure is what the session's `receive` raises.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import trio

from gw.errors import AllCandidatesFailed, Failure, GwError, ProviderError, Stopping, UpstreamSlow, one_error
from gw.registry.catalog import Model
from gw.relay.attempts import InFlight, PreparedCall
from gw.relay.meter import Attempt, Meter
from gw.types.usage import Usage

S = TypeVar("S")
E = TypeVar("E")
L = TypeVar("L", bound="SessionAttempt[Any]")

EVENTS = 64
"""Lists of events that wait for a caller that does not read; then the provider waits too."""
WATCH_S = 0.25
BLOCKED_S = 2.0
"""A provider that takes nothing for so long has failed."""


class SessionAttempt(Generic[S]):
    """One provider's part of a session."""

    def __init__(self, call: PreparedCall[S], mark: Attempt) -> None:
        self.call = call
        self.mark = mark
        self.session: S | None = None
        self.live = False
        """It has all there was before it: what comes now goes to it directly."""
        self.sending_since = math.inf
        self.last_event_at = 0.0
        self.fault: ProviderError | None = None
        """Known to another task than its reader."""
        self.ended = False
        self.reported: Usage | None = None


class SessionPlan(Generic[S]):
    """How a session's providers are chosen and opened; made by `gw.relay.open_session`."""

    def __init__(
        self,
        models: Sequence[Model],
        meter: Meter,
        running: InFlight,
        prepare: Callable[[Model, float], PreparedCall[S]],
        *,
        open_s: float,
        idle_s: float,
    ) -> None:
        """`open_s` bounds a provider's handshake, `idle_s` its silence when it owes something."""
        self.models = models
        self.meter = meter
        self.running = running
        self.prepare = prepare
        self.open_s = open_s
        self.idle_s = idle_s


class LiveSession(ABC, Generic[S, E, L]):
    """The session a dialect holds. One task sends, another receives. `finish` makes its record."""

    def __init__(
        self, settled: SessionPlan[S], finish: Callable[[GwError | None, bool], None]
    ) -> None:
        self.done = False
        self.meter = settled.meter
        self.legs: list[L] = []
        self._settled = settled
        self._finish = finish
        self._leg: L | None = None
        self._finishing = False
        self._failure: GwError | None = None
        self._out, self._events = trio.open_memory_channel[list[E]](EVENTS)

    @property
    def call(self) -> PreparedCall[S] | None:
        """Of the provider in use now."""
        return self._leg.call if self._leg is not None else None

    async def receive(self) -> list[E]:
        """The next events; the last list ends the session. Raises the last failure when no candidate is left."""
        try:
            events = await self._events.receive()
        except trio.EndOfChannel:
            assert self._failure is not None
            raise self._failure from None
        self._going_out(events)
        return events

    def _going_out(self, events: list[E]) -> None:
        if self._is_last(events[-1]):
            self.done = True
            self._finish(None, False)

    def close(self, error: GwError | None, *, cancelled: bool) -> None:
        """The caller has left, or the session failed: make the record, unless there is one."""
        if self.meter.record is None:
            self._finish(error, cancelled)

    async def drive(self) -> None:
        """One candidate after the other. A provider's failure ends in `receive`; any other one ends the session."""
        failures: list[Failure] = []
        models = self._settled.models
        with self._out:
            for model in models:
                try:
                    await self._hold(model)
                    return
                except ProviderError as error:
                    failures.append(Failure(model_id=model.id, error=error))
                    if not error.retryable or not self._can_move:
                        self._failure = error
                        return
                except Stopping as stopping:
                    self._failure = stopping
                    return
            only = failures[0].error if len(failures) == 1 else None
            self._failure = only or AllCandidatesFailed(model=models[0].id, failures=tuple(failures))

    # ------------------------------------------------------------------ of each kind of session

    @abstractmethod
    def _is_last(self, event: E) -> bool: ...

    @property
    @abstractmethod
    def _can_move(self) -> bool:
        """Whether another provider can take over what is left."""

    @abstractmethod
    def _begin(self, call: PreparedCall[S], mark: Attempt) -> L: ...

    @abstractmethod
    async def _use(self, leg: L, session: S, scope: trio.CancelScope) -> None:
        """Until the leg has ended. Raises ProviderError; another task sets `leg.fault` and cancels `scope`."""

    # ------------------------------------------------------------------ one candidate

    async def _hold(self, model: Model) -> None:
        """Open a provider and read it to its end. Raises ProviderError, Stopping."""
        meter, now = self.meter, trio.current_time()
        mark = meter.attempt(model, now)
        try:
            call = self._settled.prepare(model, now)
        except ProviderError as skipped:
            meter.ended(mark, skipped, now)
            raise
        leg = self._begin(call, mark)
        self.legs.append(leg)
        error: ProviderError | None = None
        try:
            with one_error():
                await self._open(leg)
        except ProviderError as failure:
            error = failure
            raise
        finally:
            leg.live = False
            now = trio.current_time()
            call.gate.leave(now, error, answered=mark.ready_at is not None)
            meter.ended(mark, error, now)

    async def _open(self, leg: L) -> None:
        running, open_s = self._settled.running, self._settled.open_s
        scope = trio.CancelScope(deadline=trio.current_time() + open_s)
        running.scopes.add(scope)
        try:
            with scope:
                self.meter.calling(leg.mark, leg.call.model)
                async with leg.call.open() as opened:
                    session: S = opened
                    scope.deadline = math.inf
                    leg.session = session
                    leg.last_event_at = trio.current_time()
                    self._leg = leg
                    await self._use(leg, session, scope)
        finally:
            running.scopes.discard(scope)
        if scope.cancelled_caught:
            if running.stopping:
                raise Stopping()
            provider = leg.call.provider.id
            raise leg.fault or UpstreamSlow(
                provider=provider, after_s=open_s, detail=f"no session within {open_s:g} s"
            )

    def _answered(self, leg: L) -> None:
        """Events of this leg go to the caller."""
        if self.meter.answering is not leg.mark:
            self.meter.answered_by(leg.mark)
        self.meter.last_event_at = leg.last_event_at
