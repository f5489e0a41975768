"""Fallback and hedging: open candidates until one is ready, and hold that one open for the caller.

Without hedging everything runs in the request's own task: a task per attempt costs a fifth of the throughput. A second
task appears only where a second candidate may run beside the first.

    async with first_ready(models, attempt, hedge_after_s=inf) as ready:
        ... ready.stream ...

An attempt is an async context manager: entering it means "content has come", leaving it closes the upstream.
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import trio

from gw.errors import AllCandidatesFailed, Failure, ProviderError, StaleConnection, Stopping, UpstreamSlow, one_error
from gw.providers.spec import ProviderSpec
from gw.registry.catalog import Model, Provider
from gw.relay.limits import Gate
from gw.relay.meter import Attempt, Meter

S = TypeVar("S")
E = TypeVar("E")


class PreparedCall(msgspec.Struct, Generic[S], eq=False):
    """One candidate made callable; its gate has been entered."""

    model: Model
    provider: Provider
    spec: ProviderSpec
    gate: Gate
    open: Callable[[], AbstractAsyncContextManager[S]]


class OpenAttempt(msgspec.Struct, Generic[S, E], eq=False):
    """The candidate that answers: its open stream, and the events up to and including its first content.

    `error`: what went wrong with it afterwards, where that is known to another task than the one that holds it.
    """

    call: PreparedCall[S]
    mark: Attempt
    stream: S
    events: list[E]
    error: ProviderError | None = None
    attempt: AttemptScope[S, E] | None = None
    """It, where it stands under the keeper; then `InFlight.attempts` has the deadline of what is waited for."""


OpenAttemptFor = Callable[[Model], AbstractAsyncContextManager[OpenAttempt[S, E]]]


class InFlight:
    """The running requests. `stop` ends them all: each raises Stopping where it stands.

    An attempt stands here with its scope; or, while `keep` runs and its call can be aborted, itself with its deadline. One
    task that looks at the deadlines of all then takes the place of a scope for each.
    """

    def __init__(self) -> None:
        self.scopes: set[trio.CancelScope] = set()
        self.attempts: dict[AttemptScope[Any, Any], float] = {}
        self.stopping = False
        self.kept = False
        self._shortest_s = math.inf
        self._shorter = trio.Event()

    def stop(self) -> None:
        self.stopping = True
        for scope in tuple(self.scopes):
            scope.cancel()
        for attempt in tuple(self.attempts):
            attempt.abort()

    def within(self, shortest_s: float) -> None:
        """No attempt has a deadline nearer than this when it begins."""
        self._shortest_s = shortest_s
        self._shorter.set()

    async def keep(self) -> None:
        """Abort the attempts whose time is over, until cancelled."""
        self.kept = True
        try:
            while True:
                self._shorter = trio.Event()
                now = trio.current_time()
                for attempt in [attempt for attempt, over in self.attempts.items() if over <= now]:
                    attempt.abort()
                with trio.move_on_at(min([now + self._shortest_s, *self.attempts.values()])):
                    await self._shorter.wait()
        finally:
            self.kept = False


class RequestContext(Protocol[S, E]):
    """The request that tries a model."""

    meter: Meter
    running: InFlight
    first_event_s: float
    first_content: Callable[[S, str], Awaitable[list[E]]]
    """Reads up to the first content."""

    def prepare(self, model: Model, now: float) -> PreparedCall[S]:
        """Enters the gate. Raises ProviderError to have the model passed over."""
        ...


class AttemptScope(AbstractAsyncContextManager["OpenAttempt[S, E]"], Generic[S, E]):
    """Gate and account, intent to the journal, open, wait for content within `first_event_s`; leaving closes the upstream.

    Entering raises ProviderError: what `prepare` and `first_content` raise, and UpstreamSlow for late content. A class
    and not a generator, as everything between a request and its upstream: each generator costs three hops per wake-up.
    A scope stays open until the attempt is left, so a provider may hold a nursery inside it.
    """

    __slots__ = ("_abort", "_call", "_mark", "_model", "_ready", "_scope", "_trying", "_upstream", "aborted")

    def __init__(self, trying: RequestContext[S, E], model: Model) -> None:
        self._trying = trying
        self._model = model
        self._ready: OpenAttempt[S, E] | None = None
        self._scope: trio.CancelScope | None = None
        self._abort: Callable[[], None] | None = None
        self.aborted = False

    def abort(self) -> None:
        """Its time is over, or the gateway stops."""
        self.aborted = True
        self._trying.running.attempts[self] = math.inf
        if self._abort is not None:
            self._abort()

    async def __aenter__(self) -> OpenAttempt[S, E]:
        trying, meter, model = self._trying, self._trying.meter, self._model
        now = trio.current_time() if meter.marks else meter.started  # nothing was waited for before the first
        self._mark = mark = meter.attempt(model, now)
        try:
            self._call = call = trying.prepare(model, now)
        except ProviderError as skipped:
            meter.ended(mark, skipped, now)
            raise
        try:
            meter.calling(mark, model)
            self._upstream = upstream = call.open()
            self._watch(upstream, now + trying.first_event_s)
            stream = await upstream.__aenter__()
            try:
                events = await trying.first_content(stream, call.provider.id)
                if self._scope is not None and self._scope.cancel_called:  # content and deadline at once: it was late
                    await trio.lowlevel.checkpoint()
                if self.aborted:
                    raise self._late()
                self.expect(math.inf)
            except BaseException:
                await upstream.__aexit__(*sys.exc_info())
                raise
        except BaseException as error:
            self._leave(error)
            raise
        self._ready = ready = OpenAttempt(call, mark, stream, events, None, self if self._scope is None else None)
        return ready

    def expect(self, deadline: float) -> None:
        """The next events until then; infinity once they are there."""
        if self._scope is not None:
            self._scope.deadline = deadline
        else:
            self._trying.running.attempts[self] = deadline

    def _watch(self, upstream: AbstractAsyncContextManager[S], deadline: float) -> None:
        """Have the call ended when its time is over: by the keeper where there is one and it can, else by a scope."""
        running = self._trying.running
        if running.kept:
            self._abort = getattr(upstream, "abort", None)  # an Abortable; asking isinstance costs three calls more
        if self._abort is None:
            self._scope = scope = trio.CancelScope()
            running.scopes.add(scope)
            scope.__enter__()
        self.expect(deadline)

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
        """End the scope and the books. Raises what its cancellation stands for; otherwise `error` goes on as it is."""
        trying, call, ready, scope = self._trying, self._call, self._ready, self._scope
        meaning: UpstreamSlow | Stopping | None = None
        self._ready = self._abort = None  # else a cycle
        if scope is None:
            trying.running.attempts.pop(self, None)
            over = self.aborted and isinstance(error, ProviderError) and (ready is None or trying.running.stopping)
        else:
            trying.running.scopes.discard(scope)
            scope.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
            over = scope.cancelled_caught
        if over:
            meaning = Stopping() if trying.running.stopping else self._late()
        failure = meaning or error or (ready.error if ready is not None else None)
        fault = failure if isinstance(failure, ProviderError) else None
        now = trio.current_time()
        call.gate.leave(now, fault, answered=ready is not None)
        trying.meter.ended(self._mark, fault, now)
        if meaning is not None:
            raise meaning from None

    def _late(self) -> UpstreamSlow:
        within = self._trying.first_event_s
        return UpstreamSlow(provider=self._call.provider.id, after_s=within, detail=f"no content within {within:g} s")


def first_ready(
    models: Sequence[Model], attempt: OpenAttemptFor[S, E], *, hedge_after_s: float = math.inf
) -> AbstractAsyncContextManager[OpenAttempt[S, E]]:
    """The first candidate that is ready, held open.

    A failure that another candidate would meet as well (`retryable` false) is raised at once; when all have failed, the
    only failure itself, or AllCandidatesFailed with one failure per candidate. Errors after readiness are the caller's.
    """
    if hedge_after_s < math.inf and len(models) > 1:
        return _hedged(models, attempt, hedge_after_s)
    return _InTurn(models, attempt)


def _all_failed(models: Sequence[Model], failures: list[Failure]) -> Exception:
    if len(failures) == 1:
        return failures[0].error
    return AllCandidatesFailed(model=models[0].id, failures=tuple(failures))


class _InTurn(AbstractAsyncContextManager["OpenAttempt[S, E]"], Generic[S, E]):
    """One candidate after the other, in the caller's task."""

    __slots__ = ("_attempt", "_models", "_open")

    def __init__(self, models: Sequence[Model], attempt: OpenAttemptFor[S, E]) -> None:
        self._models = models
        self._attempt = attempt

    async def __aenter__(self) -> OpenAttempt[S, E]:
        failures: list[Failure] = []
        for model in self._models:
            for again in (False, True):  # a second chance after a stale connection
                self._open = self._attempt(model)
                try:
                    return await self._open.__aenter__()
                except ProviderError as error:
                    if not error.retryable:
                        raise
                    stale = isinstance(error, StaleConnection) and not again
                    if not stale:
                        failures.append(Failure(model_id=model.id, error=error))
                        break
        raise _all_failed(self._models, failures)

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[None, None, bool | None]:
        return self._open.__aexit__(kind, error, trace)


class _Race(Generic[S, E]):
    """Candidates that may be open at the same time. `won` is claimed once; the holder keeps the upstream open until `done`."""

    def __init__(self, attempt: OpenAttemptFor[S, E]) -> None:
        self.attempt = attempt
        self.won: OpenAttempt[S, E] | None = None
        self.fatal: ProviderError | None = None
        self.failures: list[Failure] = []
        self.done = trio.Event()

    @property
    def decided(self) -> bool:
        return self.won is not None or self.fatal is not None

    async def hold(self, model: Model, *, task_status: trio.TaskStatus[None]) -> None:
        async with self.attempt(model) as ready:
            if self.decided:  # ready in the same moment as another, and later
                task_status.started()
                return
            self.won = ready
            task_status.started()
            await self.done.wait()

    async def contend(self, upstreams: trio.Nursery, race: trio.Nursery, model: Model, settled: trio.Event) -> None:
        try:
            await upstreams.start(self.hold, model)
        except ProviderError as error:
            self.failures.append(Failure(model_id=model.id, error=error))
            if not error.retryable and self.fatal is None:
                self.fatal = error
            settled.set()
        if self.decided:
            race.cancel_scope.cancel()


@asynccontextmanager
async def _hedged(models: Sequence[Model], attempt: OpenAttemptFor[S, E], hedge_after_s: float) -> AsyncIterator[OpenAttempt[S, E]]:
    """A candidate that fails or is silent for `hedge_after_s` lets the next one begin beside it; the first ready one wins."""
    state: _Race[S, E] = _Race(attempt)
    with one_error():
        async with trio.open_nursery() as upstreams:
            async with trio.open_nursery() as race:
                for model in models:
                    if state.decided:
                        break
                    settled = trio.Event()
                    race.start_soon(state.contend, upstreams, race, model, settled)
                    with trio.move_on_after(hedge_after_s):
                        await settled.wait()
            if state.won is None:
                raise state.fatal or _all_failed(models, state.failures)
            try:
                yield state.won
            except ProviderError as error:
                state.won.error = error
                raise
            state.done.set()
