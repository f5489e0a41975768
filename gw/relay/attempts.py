"""Fallback and hedging: open candidates until one is ready, and hold that one open for the caller.

Without hedging everything runs in the request's own task: a task per attempt costs a fifth of the throughput. A second
task appears only where a second candidate may run beside the first.

    async with first_ready(models, attempt, hedge_after_s=inf) as ready:
        ... ready.stream ...

An attempt is an async context manager: entering it means "content has come", leaving it closes the upstream.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, TypeVar

import attrs
import trio

from gw.errors import AllCandidatesFailed, Failure, ProviderError, UpstreamSlow, one_error
from gw.providers.spec import ProviderSpec
from gw.registry.catalog import Model, Provider
from gw.relay.limits import Gate
from gw.relay.meter import Mark, Meter

S = TypeVar("S")
E = TypeVar("E")


@attrs.define
class Call(Generic[S]):
    """One candidate made callable; its gate has been entered."""

    model: Model
    provider: Provider
    spec: ProviderSpec
    gate: Gate
    open: Callable[[], AbstractAsyncContextManager[S]]


@attrs.define
class Ready(Generic[S, E]):
    """The candidate that answers: its open stream, and the events up to and including its first content."""

    call: Call[S]
    mark: Mark
    stream: S
    events: list[E]


Attempt = Callable[[Model], AbstractAsyncContextManager[Ready[S, E]]]


@attrs.define(kw_only=True)
class Trying(Generic[S, E]):
    """How one request tries a model. `prepare` enters the gate; `first_content` reads up to the first content."""

    prepare: Callable[[Model], Call[S]]
    first_content: Callable[[S, str], Awaitable[list[E]]]
    first_event_s: float
    meter: Meter

    @asynccontextmanager
    async def attempt(self, model: Model) -> AsyncIterator[Ready[S, E]]:
        """Gate and account, intent to the journal, open, wait for content within `first_event_s`.

        Entering raises ProviderError: what `prepare` and `first_content` raise, and UpstreamSlow for late content.
        """
        meter = self.meter
        mark = meter.attempt(model)
        try:
            call = self.prepare(model)
        except ProviderError as skipped:
            meter.ended(mark, skipped)
            raise
        error: ProviderError | None = None
        answered = False
        try:
            with trio.CancelScope(deadline=trio.current_time() + self.first_event_s) as scope:
                meter.calling(mark, model)
                async with call.open() as stream:
                    events = await self.first_content(stream, call.provider.id)
                    scope.deadline = math.inf
                    answered = True
                    meter.ready(mark)
                    yield Ready(call, mark, stream, events)
            if scope.cancelled_caught:
                late = f"no content within {self.first_event_s:g} s"
                raise UpstreamSlow(provider=call.provider.id, after_s=self.first_event_s, detail=late)
        except ProviderError as failure:
            error = failure
            raise
        finally:
            call.gate.leave(trio.current_time(), error, answered=answered)
            meter.ended(mark, error)


def first_ready(
    models: Sequence[Model], attempt: Attempt[S, E], *, hedge_after_s: float = math.inf
) -> AbstractAsyncContextManager[Ready[S, E]]:
    """The first candidate that is ready, held open.

    A failure that another candidate would meet as well (`retryable` false) is raised at once; when all have failed, the
    only failure itself, or AllCandidatesFailed with one failure per candidate. Errors after readiness are the caller's.
    """
    if hedge_after_s < math.inf and len(models) > 1:
        return _hedged(models, attempt, hedge_after_s)
    return _in_turn(models, attempt)


def _all_failed(models: Sequence[Model], failures: list[Failure]) -> Exception:
    if len(failures) == 1:
        return failures[0].error
    return AllCandidatesFailed(model=models[0].id, failures=tuple(failures))


@asynccontextmanager
async def _in_turn(models: Sequence[Model], attempt: Attempt[S, E]) -> AsyncIterator[Ready[S, E]]:
    failures: list[Failure] = []
    for model in models:
        delivered = False
        try:
            async with attempt(model) as ready:
                delivered = True
                yield ready
                return
        except ProviderError as error:
            if delivered or not error.retryable:
                raise
            failures.append(Failure(model_id=model.id, error=error))
    raise _all_failed(models, failures)


@asynccontextmanager
async def _hedged(models: Sequence[Model], attempt: Attempt[S, E], hedge_after_s: float) -> AsyncIterator[Ready[S, E]]:
    """A candidate that fails or is silent for `hedge_after_s` lets the next one begin beside it; the first ready one wins."""
    won: list[Ready[S, E]] = []
    failures: list[Failure] = []

    async def hold(model: Model, *, task_status: trio.TaskStatus[Ready[S, E]]) -> None:
        async with attempt(model) as ready:
            task_status.started(ready)
            await trio.sleep_forever()

    async def contend(model: Model, settled: trio.Event) -> None:
        try:
            ready = await upstreams.start(hold, model)
        except ProviderError as error:
            if not error.retryable:
                raise
            failures.append(Failure(model_id=model.id, error=error))
            settled.set()
        else:
            won.append(ready)
            race.cancel_scope.cancel()

    with one_error():
        async with trio.open_nursery() as upstreams:
            async with trio.open_nursery() as race:
                for model in models:
                    settled = trio.Event()
                    race.start_soon(contend, model, settled)
                    with trio.move_on_after(hedge_after_s):
                        await settled.wait()
            if not won:
                raise _all_failed(models, failures)
            try:
                yield won[0]
            finally:
                upstreams.cancel_scope.cancel()
