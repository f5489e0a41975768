"""One request over HTTP, whatever it asks for: admitted, answered by one of its candidates, and recorded."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from types import TracebackType
from typing import Any, Generic, TypeVar

from gw.errors import ProviderRefused
from gw.policy.turn_finder import TurnFinder
from gw.registry.catalog import Model
from gw.relay.attempts import AttemptScope, OpenAttempt
from gw.relay.candidates import CandidatePlanner
from gw.relay.capturing_counter import CapturingCounter
from gw.relay.dial_order import DialOrder
from gw.relay.hedging import HedgedAttempts
from gw.relay.in_flight import InFlight
from gw.relay.in_turn import try_in_turn
from gw.relay.meter import record_error
from gw.relay.request_context import RefusedAttempt, RequestContext
from gw.relay.request_spec import RequestSpec
from gw.relay.response import ProviderStream, Response, UsageCounter
from gw.types.ids import Caller

Q = TypeVar("Q")
S = TypeVar("S", bound=ProviderStream)
E = TypeVar("E")


class AnsweredRequest(RequestContext[S, E], AbstractAsyncContextManager["Response[S, E]"], Generic[Q, S, E]):
    """One request: entering admits it and finds the candidate that answers, leaving it has written its record."""

    __slots__ = ("_caller", "_open", "_request", "_response", "_turns", "order")
    order: DialOrder

    def __init__(
        self, planner: CandidatePlanner, in_flight: InFlight, turns: TurnFinder, request: Q, caller: Caller, spec: RequestSpec
    ) -> None:
        routing = planner.routing  # without a stream the first content is all of it
        first_event_s = routing.first_event_s[spec.modality] if spec.stream else routing.whole_answer_s
        super().__init__(planner, in_flight, spec, first_event_s)
        self._turns = turns
        self._request = request
        self._caller = caller
        self._response: Response[S, E] | None = None
        self._open: AbstractAsyncContextManager[Any] | None = None

    def track_turn(self) -> None:  # a transcription has none before its text
        """Find the turn by the request's words, before admission."""

    def refused_answer(self, refusal: RefusedAttempt[S, E]) -> OpenAttempt[S, E]:
        """Return a refusal as a complete answer, for a request that no candidate answered otherwise."""
        return OpenAttempt(refusal.call, refusal.attempt, refusal.stream, refusal.events)

    def let_request_go(self) -> None:
        """Refer no longer to the request itself: it may be long, no other candidate is sent it, and its answer may stream for minutes."""

    @abstractmethod
    def counter_for(self, opened: OpenAttempt[S, E]) -> UsageCounter[E]: ...

    async def __aenter__(self) -> Response[S, E]:
        self.plan(self._caller)
        self.track_turn()
        models, meter = self.candidates.models, self.meter
        self.in_flight.requests += 1
        try:
            estimate_nusd = self.planner.estimate(meter, self.spec, self.candidates)
            if (room := self.planner.room(self.candidates, self._caller, estimate_nusd)) is not None:
                await room
            self.planner.admit(meter, self.candidates, estimate_nusd)
            try:
                opened = await self._first_ready(models)
            except ProviderRefused:
                if self.refusal is None:
                    raise
                opened, self.refusal = self.refused_answer(self.refusal), None
                self._open = nullcontext(opened)
        except BaseException as error:
            self._end(error)
            self.planner.hand_over(self.candidates)
            raise
        meter.answered_by(opened.attempt)
        self._response = response = self.response_for(opened)
        if self.spec.stream:
            self.let_request_go()
        return response

    def _first_ready(self, models: Sequence[Model]) -> Awaitable[OpenAttempt[S, E]]:
        self.order = order = DialOrder(models)
        if len(models) < 2 or not self.is_hedged():
            return try_in_turn(order.new(), self._try)
        self._open = attempts = HedgedAttempts(self, order.new(), self.hedge_after_s, self._may_hedge)
        return attempts.__aenter__()

    def _may_hedge(self) -> bool:
        following = self.order.following
        return following is not None and self.may_hedge(following)

    def response_for(self, opened: OpenAttempt[S, E]) -> Response[S, E]:
        counter, catalog = self.counter_for(opened), self.candidates.catalog
        if self.meter.capture is not None:
            counter = CapturingCounter(counter, self.meter.capture)
        return Response(self.meter, opened, counter, catalog, idle_s=self.idle_s)

    def _try(self, model: Model) -> Awaitable[OpenAttempt[S, E]]:
        self._open = scope = AttemptScope(self, model)
        return scope.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        opened = self._open
        assert opened is not None
        try:
            swallowed = await opened.__aexit__(kind, error, trace)
        except BaseException as raised:
            self._end(raised)
            raise
        self._end(error)
        return swallowed

    def _end(self, raised: BaseException | None) -> None:
        """Write the record, unless the answer was complete and has one."""
        response, meter = self._response, self.meter
        self._open = self._response = None  # they refer to this request: else a cycle for each
        self.in_flight.requests -= 1
        if raised is None and meter.record is not None:
            return
        error = record_error(raised, stopping=self.in_flight.stopping)
        if response is not None:
            if raised is not None or not response.awaits_close:
                response.close(error=error, cancelled=error is None)
            return
        usage = meter.bill_unanswered_calls(self.candidates.catalog)
        meter.finish(usage=usage, measured=None, error=error, cancelled=error is None)
