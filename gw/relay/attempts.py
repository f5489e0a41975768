"""Attempts at answering a request: try candidates until one is ready, and hold that one open for the caller.

States of one attempt (`AttemptScope`); what raises goes to `try_in_turn`, which tries the next candidate:

    state     begins with                     ends with
    ───────   ─────────────────────────────   ─────────────────────────────────────────────────────────────────────
    checked   the attempt is noted            gate entered → calling; disabled, at a limit, … → raises CandidateSkipped
    calling   the intent is in the journal    content (a live session: its handshake) → ready; ProviderError → raises;
                                              `first_event_s` is over → raises UpstreamSlow; `InFlight.stop` → Stopping
    ready     content goes to the caller      left by the caller, ended, silent for `idle_s`, `InFlight.stop`
    closed    the upstream is closed          gate left, outcome noted

An attempt is an async context manager: entering it means "content has come", leaving it closes the upstream. Without
hedging everything runs in the request's own task: a task per attempt costs a fifth of the throughput.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, TypeVar, cast

import trio

from gw.errors import ProviderError, ProviderRefused, Stopping, UpstreamSlow, one_error
from gw.providers.spec import Abortable
from gw.registry.catalog import Model
from gw.relay.attempt import Attempt
from gw.relay.prepared_call import PreparedCall
from gw.relay.request_context import RefusedAttempt, RequestContext
from gw.types.compiled import mypyc_attr
from gw.types.pending import Pending

S = TypeVar("S")
E = TypeVar("E")


class OpenAttempt(Generic[S, E]):
    """The attempt that answers: its open stream, and the events up to and including its first content."""

    __slots__ = ("attempt", "call", "events", "has_content", "scope", "stream")

    def __init__(
        self, call: PreparedCall[S], attempt: Attempt, stream: S, events: list[E], scope: AttemptScope[S, E] | None = None
    ) -> None:
        self.call = call
        self.attempt = attempt
        self.stream = stream
        self.events: list[E] | None = events
        self.has_content = bool(events)
        self.scope = scope

    def take_events(self) -> list[E]:
        """Return the first events, to pass them on; they are not kept here for as long as the answer takes."""
        events, self.events = self.events, None
        return events or []


class Overtaken(Exception):
    """Another candidate has answered the request first.

    That is no failure of this one: it had until `first_event_s`. Its attempt is `cancelled`, and its breaker learns nothing.
    """


@mypyc_attr(allow_interpreted_subclasses=True)
class AttemptScope(AbstractAsyncContextManager["OpenAttempt[S, E]"], Generic[S, E]):
    """One attempt. Entering raises what `prepare` and `first_content` raise, and UpstreamSlow for late content.

    A class and not a generator, like everything between a request and its upstream: each generator costs three hops per
    wake-up. A cancel scope stays open until the attempt is left, so a provider may hold a nursery inside it.
    """

    __slots__ = (
        "_abortable", "_attempt", "_call", "_handle", "_hedges", "_idle_s", "_model", "_open", "_overtaken", "_request", "_scope",
        "_upstream", "aborted", "is_waiting",
    )  # fmt: skip

    def __init__(self, request: RequestContext[S, E], model: Model, *, hedges: bool = False) -> None:
        """`hedges`: it starts beside another one that is slow."""
        self._request = request
        self._model = model
        self._open: OpenAttempt[S, E] | None = None
        self._scope: trio.CancelScope | None = None
        self._abortable: Abortable[S] | None = None
        self._handle: Callable[[list[E]], Pending] | None = None
        self._idle_s = 0.0
        self.aborted = False
        self.is_waiting = False
        """The next events are awaited: all events before have been sent on."""
        self._overtaken = False
        self._hedges = hedges

    def expire(self) -> None:
        """End the call: its deadline has passed, or the gateway stops."""
        self.aborted = True
        self._request.in_flight.keeper.deadlines[self] = math.inf
        if self._abortable is not None:
            self._abortable.abort()

    def narrow(self) -> None:
        """End the cancel scope with the opening, where the upstream holds none inside it: the user has one of its own.

        Only in the task that has entered, and not for `receive`.
        """
        if (scope := self._scope) is not None and getattr(self._upstream, "holds_no_scope", False):
            self._request.in_flight.scopes.discard(scope)
            _leave_scope(scope, None)
            self._scope = None

    def overtake(self) -> None:
        """End the call, as another candidate has answered first: entering it raises Overtaken."""
        self._overtaken = True
        if self._scope is not None:
            self._scope.cancel()
        else:
            self.expire()

    async def __aenter__(self) -> OpenAttempt[S, E]:
        request, meter, model = self._request, self._request.meter, self._model
        now = meter.accounting.monotonic() if meter.attempts else meter.started  # nothing was waited for before the first
        self._attempt = attempt = meter.begin_attempt(model, now)
        attempt.hedges = self._hedges
        try:
            if (free_call := request.lease_call(model, now)) is not None:
                await free_call
            self._call = call = request.prepare(model, now)
            attempt.ignored_settings, attempt.voice, attempt.cache = call.ignored_settings, call.voice, call.cache
            attempt.respelled = call.respelled
        except ProviderError as skipped:
            attempt.ended, attempt.error = now, skipped
            raise
        try:
            meter.calling(attempt, model)
            self._upstream = upstream = call.begin()
            self._watch(upstream, request.first_event_due(now))
            stream = await upstream.__aenter__()
            try:
                try:
                    events = await request.first_content(stream, call.provider.id)
                except ProviderRefused as refused:
                    events = self._refusal(stream, refused)
                if self._scope is not None and self._scope.cancel_called:  # content and deadline at once: it was late
                    await trio.lowlevel.checkpoint()
                if self.aborted:
                    raise self._late()
                self._set_deadline(math.inf)
                request.note_speed(model, meter.accounting.monotonic() - attempt.started)
            except BaseException:
                await upstream.__aexit__(*sys.exc_info())
                raise
        except BaseException as error:
            attempt.called = getattr(getattr(self, "_upstream", None), "began", True)
            self._leave(error)
            raise
        self._open = opened = OpenAttempt(call, attempt, stream, events, self)
        return opened

    def _refusal(self, stream: S, refused: ProviderRefused) -> list[E]:
        """Return the events of a refusal that is the last candidate's answer. Raise it for any other candidate."""
        request, events = self._request, cast("list[E]", list(refused.events))
        if events:
            self._attempt.refused = True
            if self._model is request.candidates.models[-1] and not request.racing:
                return events
            request.refusal = RefusedAttempt(self._call, self._attempt, stream, events)
        raise refused

    async def receive(self, receive: Callable[[], Awaitable[list[E]]], idle_s: float) -> list[E]:
        """Return the next events. Raise what `receive` raises, and UpstreamSlow after `idle_s` of silence."""
        meter, self.is_waiting = self._request.meter, True
        if self._scope is None:  # a third of a cancel scope's price, and an answer has many pieces
            deadlines = self._request.in_flight.keeper.deadlines
            deadlines[self] = meter.accounting.monotonic() + idle_s
            try:
                events = await receive()
            except ProviderError:
                if not self.aborted:
                    raise
            else:
                deadlines[self] = math.inf
                self.is_waiting, meter.last_event_at = False, meter.accounting.monotonic()
                return events
        else:
            scopes = self._request.in_flight.scopes  # the reader's task may be another one than the attempt's
            with trio.move_on_after(idle_s) as reading:
                scopes.add(reading)
                try:
                    events = await receive()
                finally:
                    scopes.discard(reading)
                self.is_waiting, meter.last_event_at = False, meter.accounting.monotonic()
                return events
            if self._request.in_flight.stopping:
                raise Stopping
        raise self._silent(idle_s)

    @property
    def is_kept(self) -> bool:
        """Return whether the keeper has its deadline, and no scope."""
        return self._scope is None

    def handle_by(self, handle: Callable[[list[E]], Pending] | None, idle_s: float = math.inf) -> None:
        """Have `pass_on` call `handle`, and the call end after `idle_s` without events; None: events are no longer awaited.

        For a stream that calls back, which a coroutine of this scope's would make larger by what it holds. Only while `is_kept`.
        """
        until = math.inf
        if handle is not None:
            self._idle_s, self.is_waiting = idle_s, True
            until = self._request.meter.accounting.monotonic() + idle_s
        self._handle = handle
        self._request.in_flight.keeper.deadlines[self] = until

    def pass_on(self, events: list[E]) -> Pending:
        """Call the handler with events, and await the next ones unless it must be waited for."""
        assert self._handle is not None
        self.is_waiting = False
        self._request.meter.last_event_at = now = self._request.meter.accounting.monotonic()
        if (pending := self._handle(events)) is None:
            self.is_waiting = True
            self._request.in_flight.keeper.deadlines[self] = now + self._idle_s
        return pending

    def check_silence(self) -> None:
        """Raise UpstreamSlow if the call was ended because no events came."""
        if self.aborted:
            raise self._silent(self._idle_s)

    def _silent(self, idle_s: float) -> UpstreamSlow:
        detail = f"silent for {idle_s:g} s in the middle of its answer"
        return UpstreamSlow(provider=self._call.provider.id, after_s=idle_s, detail=detail)

    def await_first_event(self, now: float) -> None:
        """Start the time within which the first content is due."""
        self._set_deadline(self._request.first_event_due(now))

    def _set_deadline(self, deadline: float) -> None:
        if self._scope is not None:
            self._scope.deadline = deadline
        else:
            self._request.in_flight.keeper.deadlines[self] = deadline

    def _watch(self, upstream: AbstractAsyncContextManager[S], deadline: float) -> None:
        """Arrange the deadline: with the keeper where one runs and the call can be aborted, else with a scope."""
        in_flight = self._request.in_flight
        if in_flight.keeper.running and deadline != math.inf:  # infinite: what is awaited is our caller, not only the connection
            # isinstance would cost three calls more
            self._abortable = cast("Abortable[S]", upstream) if getattr(upstream, "abort", None) is not None else None
        if self._abortable is None:
            self._scope = scope = trio.CancelScope()
            in_flight.scopes.add(scope)
            scope.__enter__()
        self._set_deadline(deadline)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._upstream.__aexit__(kind, error, trace)
        except BaseException as raised:
            self._leave(raised)
            raise
        self._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        """Leave scope and gate, and note the outcome.

        Raise the error that a cancelled scope or an aborted call stands for; otherwise `error` is left to the caller.
        """
        in_flight, opened, scope = self._request.in_flight, self._open, self._scope
        self._open = self._abortable = None  # else a reference cycle
        replacement: BaseException | None = None
        if scope is None:
            in_flight.keeper.deadlines.pop(self, None)
            ended = self.aborted and (opened is None or in_flight.stopping) and isinstance(error, ProviderError)
        else:
            in_flight.scopes.discard(scope)
            remaining = _leave_scope(scope, error)
            ended = scope.cancelled_caught and remaining is None
            if remaining is not error:
                replacement = remaining
        if ended:
            late = Overtaken() if self._overtaken else self._late()
            self._request.note_wait(self._model, self._request.meter.accounting.monotonic() - self._attempt.started)
            replacement = Stopping() if in_flight.stopping else late
        outcome = replacement or error
        now = self._request.meter.accounting.monotonic()
        fault = outcome if isinstance(outcome, ProviderError) else None
        answered = opened is not None and (opened.has_content or self._attempt.ready_at is not None)
        self._call.leave(now, self._request.fault_of_vendor(fault), answered=answered)
        self._attempt.ended, self._attempt.error = now, fault
        if replacement is not None:
            raise replacement from None

    def _late(self) -> UpstreamSlow:
        within, awaited = self._request.first_event_s, self._request.first_event
        return UpstreamSlow(provider=self._call.provider.id, after_s=within, detail=f"no {awaited} within {within:g} s")


def _leave_scope(scope: trio.CancelScope, error: BaseException | None) -> BaseException | None:
    """Leave `scope` with `error`, and return what is left of it: None where it was the scope's own cancellation.

    A task may fail in the moment in which another cancels the scope; a group of one such failure is unwrapped.
    """
    try:
        with one_error():
            caught = scope.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
    except BaseException as remaining:  # noqa: ASYNC103  the caller raises what is returned
        return remaining  # noqa: ASYNC104
    return None if caught else error
