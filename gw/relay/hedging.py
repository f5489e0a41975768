"""Hedging of one request: candidates in turn in the request's own task, and the next one beside a slow one in another.

    state       begins with                              ends with
    ─────────   ──────────────────────────────────────   ───────────────────────────────────────────────────────────
    alone       the first attempt                        its content → decided; `after_s` is over → hedged
    hedged      the next candidate, in its own task      content of either → decided, the other attempt is ended;
                                                         failure of either → its task tries the candidate after it;
                                                         failure of all → the request fails
    decided     content                                  the request is left, and with it the attempt that answers

Nothing is opened for a request that is answered in time: a nursery for each would cost a fifth of the throughput. The other
task belongs to the nursery of the deadline keeper, which also starts it; it ends with its request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Generic, TypeVar

import trio

from gw.errors import AllCandidatesFailed, Failure, GwError, ProviderError
from gw.registry.catalog import Model
from gw.relay.attempts import AttemptScope, OpenAttempt, Overtaken
from gw.relay.in_turn import all_failed, try_in_turn
from gw.relay.request_context import RequestContext

S = TypeVar("S")
E = TypeVar("E")


class HedgedAttempts(Generic[S, E]):
    """An async context manager, like an attempt: entering it returns the attempt that answers."""

    def __init__(
        self, request: RequestContext[S, E], models: Iterable[Model], after_s: Callable[[Model], float],
        may_hedge: Callable[[], bool],
    ) -> None:  # fmt: skip
        """`after_s`: how long a candidate may be silent. `may_hedge`: there is another, and it may be paid beside it."""
        self._request = request
        self._models = iter(models)
        self._after_s = after_s
        self._may_hedge = may_hedge
        self._failures: list[Failure] = []
        self._own: AttemptScope[S, E] | None = None  # the attempt of the request's own task
        self._beside: _Beside[S, E] | None = None
        self.decided = False

    async def __aenter__(self) -> OpenAttempt[S, E]:
        keeper = self._request.in_flight.keeper
        try:
            opened = await self._first_ready()
        except BaseException:
            if self._beside is not None:
                await self._beside.stop()
            raise
        finally:
            self.decided = True
            keeper.deadlines.pop(self, None)
        if self._beside is not None and opened is not self._beside.opened:
            self._beside.scope.cancel()
        return opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        beside = self._beside
        if beside is not None and beside.opened is not None and self._own is None:
            await beside.leave(error)
            return
        if beside is not None:
            await beside.stop()
        assert self._own is not None
        await self._own.__aexit__(kind, error, trace)

    def expire(self) -> None:
        """Start the next candidate beside the first: the keeper calls this when `after_s` is over."""
        in_flight = self._request.in_flight
        in_flight.keeper.deadlines.pop(self, None)
        nursery = in_flight.keeper.nursery
        if nursery is None or in_flight.stopping or not self._may_hedge():
            return
        self._request.racing = True
        self._beside = _Beside(self)
        nursery.start_soon(self._beside.run)

    async def _first_ready(self) -> OpenAttempt[S, E]:
        try:
            return await try_in_turn(self._models, self._try, failures=self._failures)
        except (ProviderError, AllCandidatesFailed) as error:
            if self._beside is None or (isinstance(error, ProviderError) and not error.retryable):
                raise
        beside = self._beside
        await beside.finished.wait()
        if beside.opened is not None:
            return beside.opened
        order = [model.id for model in self._request.candidates.models]
        raise beside.defect or all_failed(sorted(self._failures, key=lambda failure: order.index(failure.model_id)))

    async def _try(self, model: Model) -> OpenAttempt[S, E]:
        if self._beside is not None and self._beside.opened is not None:
            return self._beside.opened
        self._own = own = AttemptScope(self._request, model)
        if self._beside is None:
            self._request.in_flight.keeper.deadlines[self] = trio.current_time() + self._after_s(model)
        try:
            return await own.__aenter__()
        except Overtaken:
            self._own = None
            assert self._beside is not None
            if self._beside.opened is None:
                raise self._beside.defect or AssertionError("overtaken by nothing") from None
            return self._beside.opened
        except BaseException:
            self._own = None
            raise

    # ------------------------------------------------------------------ called by the other task

    async def open_beside(self) -> _Entered[S, E]:
        return await try_in_turn(self._models, self._try_beside, failures=self._failures)

    async def _try_beside(self, model: Model) -> _Entered[S, E]:
        scope = AttemptScope(self._request, model, hedges=self._request.pays_for_hedges)
        return _Entered(scope, await scope.__aenter__())

    def overtake(self) -> None:
        """End the attempt of the request's own task: another one has answered, or will not."""
        if self._own is not None:
            self._own.overtake()


class _Entered(Generic[S, E]):
    """An attempt that was entered already, as a context manager."""

    def __init__(self, scope: AttemptScope[S, E], opened: OpenAttempt[S, E]) -> None:
        self._scope = scope
        self._opened = opened

    async def __aenter__(self) -> OpenAttempt[S, E]:
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._scope.__aexit__(kind, error, trace)


class _Beside(Generic[S, E]):
    """The task that tries candidates beside the request's own, and holds the one that answers until the request is left."""

    def __init__(self, attempts: HedgedAttempts[S, E]) -> None:
        self._attempts = attempts
        self.scope = trio.CancelScope()
        self.opened: OpenAttempt[S, E] | None = None
        self.defect: Exception | None = None
        """An exception that no provider raises on purpose: the request's own task raises it."""
        self.finished = trio.Event()
        self._leaving = trio.Event()
        self._error: BaseException | None = None  # that ended the request
        self._raised: BaseException | None = None  # by the attempt when it was left
        self._left = trio.Event()

    async def run(self) -> None:
        try:
            with self.scope:
                await self._run()
        except Exception as error:  # a defect of one request must not end the others, whose nursery this is
            if self.opened is None:
                self.defect = error
                self._attempts.overtake()
            else:
                self._raised = error
        finally:
            self.finished.set()
            self._left.set()

    async def _run(self) -> None:
        try:
            attempt = await self._attempts.open_beside()
        except (ProviderError, AllCandidatesFailed):
            return
        async with attempt as opened:
            if self._attempts.decided:
                return
            self.opened = opened
            self.finished.set()
            self._attempts.overtake()
            await self._leaving.wait()
            if isinstance(self._error, GwError):
                raise self._error
            if self._error is not None:  # the request was cancelled, or its caller is gone
                self.scope.cancel()
                await trio.lowlevel.checkpoint()

    async def leave(self, error: BaseException | None) -> None:
        """Leave the attempt that answered, with the error that ended the request; raise what leaving it raises."""
        self._error = error
        self._leaving.set()
        with trio.CancelScope(shield=True):
            await self._left.wait()
        if self._raised is not None and self._raised is not error:
            raise self._raised from None

    async def stop(self) -> None:
        """End the task."""
        self.scope.cancel()
        with trio.CancelScope(shield=True):
            await self._left.wait()
