"""Attempts at answering a request: try candidates until one is ready, and hold that one open for the caller.

States of one attempt (`AttemptScope`); what raises goes to `try_in_turn`, which tries the next candidate:

    state     begins with                     ends with
    ───────   ─────────────────────────────   ─────────────────────────────────────────────────────────────────────
    checked   the attempt is noted            gate entered → calling; disabled, at a limit, … → raises CandidateSkipped
    calling   the intent is in the journal    content (a live session: its handshake) → ready; ProviderError → raises;
                                              `first_event_s` is over → raises UpstreamSlow; `InFlight.stop` → Stopping
    ready     content goes to the caller      left by the caller, ended, `fail`, silent for `idle_s`, `InFlight.stop`
    closed    the upstream is closed          gate left, outcome noted

An attempt is an async context manager: entering it means "content has come", leaving it closes the upstream. Without
hedging everything runs in the request's own task: a task per attempt costs a fifth of the throughput.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Generic, TypeVar, cast

import msgspec
import trio

from gw.errors import (
    AllCandidatesFailed,
    Failure,
    ProviderError,
    ProviderRefused,
    StaleConnection,
    Stopping,
    UpstreamSlow,
    last_word,
    one_error,
)
from gw.providers.spec import Account, ProviderSpec
from gw.registry.catalog import Model
from gw.relay.admission import RequestSpec
from gw.relay.candidates import CandidatePlanner, Candidates, OpenCall, PreparedCall
from gw.relay.in_flight import InFlight
from gw.relay.meter import Attempt, Meter
from gw.types.ids import Caller

S = TypeVar("S")
E = TypeVar("E")
R = TypeVar("R")


class OpenAttempt(msgspec.Struct, Generic[S, E], eq=False):
    """The attempt that answers: its open stream, and the events up to and including its first content.

    `error`: a failure known to another task than the one that uses the stream.
    """

    call: PreparedCall[S]
    attempt: Attempt
    stream: S
    events: list[E]
    scope: AttemptScope[S, E] | None = None
    error: ProviderError | None = None


AttemptFactory = Callable[[Model], AbstractAsyncContextManager[OpenAttempt[S, E]]]


class RequestContext(ABC, Generic[S, E]):
    """A request that makes attempts: its candidates, its meter, and the call of a candidate."""

    __slots__ = ("candidates", "first_event_s", "idle_s", "in_flight", "meter", "planner", "racing", "refusal", "spec")

    first_event = "content"
    """Word for the thing that must be there after `first_event_s`."""
    candidates: Candidates
    meter: Meter

    def __init__(self, planner: CandidatePlanner, in_flight: InFlight, spec: RequestSpec, first_event_s: float) -> None:
        self.planner = planner
        self.in_flight = in_flight
        self.spec = spec
        self.first_event_s = first_event_s
        self.idle_s = planner.routing.idle_s
        self.racing = False
        """Candidates may be open at the same time."""
        self.refusal: OpenAttempt[S, E] | None = None
        """The attempt, closed, whose model refused last, with the events read until then."""

    def plan(self, caller: Caller) -> None:
        """Choose the candidates and start the meter. Raise what `CandidatePlanner.plan` raises."""
        spec, planner = self.spec, self.planner
        self.candidates = candidates = planner.plan(spec, caller)
        self.meter = Meter(planner.accounting, caller, spec.modality, candidates.models[0].id, stream=spec.stream)

    def prepare(self, model: Model, now: float) -> PreparedCall[S]:
        """Enter the gate. Raise ProviderError to have the model passed over."""
        return self.planner.prepare(self.spec, self.candidates, model, self.call_for, now)

    @abstractmethod
    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[S]: ...

    @abstractmethod
    def first_content(self, stream: S, provider: str, /) -> Awaitable[list[E]]:
        """Read up to the first content."""


class AttemptScope(AbstractAsyncContextManager["OpenAttempt[S, E]"], Generic[S, E]):
    """One attempt. Entering raises what `prepare` and `first_content` raise, and UpstreamSlow for late content.

    A class and not a generator, like everything between a request and its upstream: each generator costs three hops per
    wake-up. A cancel scope stays open until the attempt is left, so a provider may hold a nursery inside it.
    """

    __slots__ = ("_abort", "_attempt", "_call", "_model", "_open", "_request", "_scope", "_upstream", "aborted")

    def __init__(self, request: RequestContext[S, E], model: Model) -> None:
        self._request = request
        self._model = model
        self._open: OpenAttempt[S, E] | None = None
        self._scope: trio.CancelScope | None = None
        self._abort: Callable[[], None] | None = None
        self.aborted = False

    def abort(self) -> None:
        """End the call: its deadline has passed, or the gateway stops."""
        self.aborted = True
        self._request.in_flight.keeper.deadlines[self] = math.inf
        if self._abort is not None:
            self._abort()

    def fail(self, error: ProviderError) -> None:
        """End the open attempt with `error`, from another task than the one that uses it. The first error stands."""
        if self._open is not None and self._open.error is None:
            self._open.error = error
        if self._scope is not None:
            self._scope.cancel()
        else:
            self.abort()

    async def __aenter__(self) -> OpenAttempt[S, E]:
        request, meter, model = self._request, self._request.meter, self._model
        now = trio.current_time() if meter.attempts else meter.started  # nothing was waited for before the first
        self._attempt = attempt = meter.begin_attempt(model, now)
        try:
            self._call = call = request.prepare(model, now)
        except ProviderError as skipped:
            attempt.ended, attempt.error = now, skipped
            raise
        try:
            meter.calling(attempt, model)
            self._upstream = upstream = call.open()
            self._watch(upstream, now + request.first_event_s)
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
            except BaseException:
                await upstream.__aexit__(*sys.exc_info())
                raise
        except BaseException as error:
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
            request.refusal = OpenAttempt(self._call, self._attempt, stream, events)
        raise refused

    async def receive(self, receive: Callable[[], Awaitable[list[E]]], idle_s: float) -> list[E]:
        """Return the next events. Raise what `receive` raises, and UpstreamSlow after `idle_s` of silence."""
        if self._scope is None:  # a third of a cancel scope's price, and an answer has many pieces
            self._set_deadline(trio.current_time() + idle_s)
            try:
                events = await receive()
            except ProviderError:
                if not self.aborted:
                    raise
            else:
                self._set_deadline(math.inf)
                return events
        else:
            with trio.move_on_after(idle_s):
                return await receive()
        detail = f"silent for {idle_s:g} s in the middle of its answer"
        raise UpstreamSlow(provider=self._call.provider.id, after_s=idle_s, detail=detail)

    def _set_deadline(self, deadline: float) -> None:
        if self._scope is not None:
            self._scope.deadline = deadline
        else:
            self._request.in_flight.keeper.deadlines[self] = deadline

    def _watch(self, upstream: AbstractAsyncContextManager[S], deadline: float) -> None:
        """Arrange the deadline: with the keeper where one runs and the call can be aborted, else with a scope."""
        in_flight = self._request.in_flight
        if in_flight.keeper.running:
            self._abort = getattr(upstream, "abort", None)  # an Abortable; isinstance would cost three calls more
        if self._abort is None:
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
        cause = opened.error if opened is not None else None
        self._open = self._abort = None  # else a reference cycle
        replacement: BaseException | None = None
        if scope is None:
            in_flight.keeper.deadlines.pop(self, None)
            ended = opened is None or cause is not None or in_flight.stopping
            ended = ended and self.aborted and isinstance(error, ProviderError)
        else:
            in_flight.scopes.discard(scope)
            remaining = _leave_scope(scope, error)
            ended = scope.cancelled_caught and remaining is None
            if remaining is not error:
                replacement = remaining
        if ended:
            replacement = Stopping() if in_flight.stopping else cause or self._late()
        outcome = replacement or error
        fault = outcome if isinstance(outcome, ProviderError) else cause
        now = trio.current_time()
        answered = opened is not None and (bool(opened.events) or self._attempt.ready_at is not None)
        self._call.gate.leave(now, fault, answered=answered)
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


async def try_in_turn(
    models: Sequence[Model], attempt: Callable[[Model], Awaitable[R]], can_continue: Callable[[], bool] | None = None
) -> R:
    """Return the result of the first candidate whose `attempt` succeeds, in the caller's task.

    A stale connection gets a second try with the same candidate. A failure that another candidate would meet as well
    (`retryable` false), or one after which none `can_continue`, is raised at once. When all have failed, raise the only
    failure or the `last_word` itself, else AllCandidatesFailed with one failure per candidate.
    """
    failures: list[Failure] = []
    for model in models:
        for is_second in (False, True):
            try:
                return await attempt(model)
            except ProviderError as error:
                if not error.retryable or (can_continue is not None and not can_continue()):
                    raise
                if is_second or not isinstance(error, StaleConnection):
                    failures.append(Failure(model_id=model.id, error=error))
                    break
    raise _all_failed(models, failures)


def _all_failed(models: Sequence[Model], failures: list[Failure]) -> Exception:
    if len(failures) == 1:
        return failures[0].error
    return last_word(failures) or AllCandidatesFailed(model=models[0].id, failures=tuple(failures))


class _Race(Generic[S, E]):
    """Candidates that may be open at the same time. The winner's task keeps its upstream open until `done`."""

    def __init__(self, open_attempt: AttemptFactory[S, E]) -> None:
        self.open_attempt = open_attempt
        self.winner: OpenAttempt[S, E] | None = None
        self.fatal: ProviderError | None = None
        self.failures: list[Failure] = []
        self.done = trio.Event()

    @property
    def decided(self) -> bool:
        return self.winner is not None or self.fatal is not None

    async def hold(self, model: Model, *, task_status: trio.TaskStatus[None]) -> None:
        async with self.open_attempt(model) as ready:
            if self.decided:  # ready in the same moment as another, and later
                task_status.started()
                return
            self.winner = ready
            task_status.started()
            await self.done.wait()

    async def contend(self, upstreams: trio.Nursery, race: trio.Nursery, model: Model, failed: trio.Event) -> None:
        try:
            await upstreams.start(self.hold, model)
        except ProviderError as error:
            self.failures.append(Failure(model_id=model.id, error=error))
            if not error.retryable and self.fatal is None:
                self.fatal = error
            failed.set()
        if self.decided:
            race.cancel_scope.cancel()


@asynccontextmanager
async def hedged(
    models: Sequence[Model], open_attempt: AttemptFactory[S, E], hedge_after_s: float
) -> AsyncIterator[OpenAttempt[S, E]]:
    """Hold the first candidate that is ready open for the block. Raises like `try_in_turn`.

    The next candidate is tried beside one that fails or is silent for `hedge_after_s`.
    """
    state: _Race[S, E] = _Race(open_attempt)
    with one_error():
        async with trio.open_nursery() as upstreams:
            async with trio.open_nursery() as race:
                for model in models:
                    if state.decided:
                        break
                    failed = trio.Event()
                    race.start_soon(state.contend, upstreams, race, model, failed)
                    with trio.move_on_after(hedge_after_s):
                        await failed.wait()
            if state.winner is None:
                raise state.fatal or _all_failed(models, state.failures)
            try:
                yield state.winner
            except ProviderError as error:
                state.winner.error = error
                raise
            state.done.set()
