"""An answer on its way to the caller. The record is made before the last event is let out."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import trio

from gw.errors import GwError, ProviderError, UpstreamSlow
from gw.pricing.book import PriceBook
from gw.relay.attempts import AttemptScope, OpenAttempt
from gw.relay.meter import Meter, Records, cost_of, total_cost
from gw.relay.waste import NO_WASTE, Lost, Waste, said_of, waste_of
from gw.types.usage import Cost, RequestRecord, Usage

S = TypeVar("S")
E = TypeVar("E")

_COMMIT_WAIT_S = 1.0
"""Longest time the last byte waits for the commit where durability is `power`."""


class UsageCounter(Protocol[E]):
    """Adds up a kind of answer; see `gw.relay.usage_counters`."""

    def see(self, events: list[E], provider: str) -> bool: ...

    def usage(self) -> tuple[Usage, Usage | None]: ...

    def reached(self, usage: Usage, *, passed_on: bool, after_s: float) -> Usage:
        """The part of `usage` that reached the caller of an answer that was cut short.

        `passed_on`: the events seen last were sent as well; `after_s`: since the first content.
        """
        ...


class Response(Generic[S, E]):
    """The stream a dialect reads. After the list that completes the answer, `record` is set and `done` is true."""

    def __init__(
        self,
        meter: Meter,
        ready: OpenAttempt[S, E],
        receive: Callable[[], Awaitable[list[E]]],
        tally: UsageCounter[E],
        *,
        lost: Callable[[], Lost],
        book: PriceBook,
        records: Records,
        idle_s: float,
    ) -> None:
        self.meter = meter
        self.call = ready.call
        self.stream = ready.stream
        self.done = False
        self.spoken: Callable[[], float] | None = None
        """The share of the answer's text that was spoken until now, where another request speaks it. Then the record of a
        complete answer waits for `close`, which whoever sets this calls when the speech is over."""
        self._waits = False
        """For the upstream: what was seen before has been sent on."""
        self._lost = lost
        self._held: list[E] | None = ready.events
        self._attempt = ready.attempt
        self._receive = receive
        self._tally = tally
        self._book = book
        self._records = records
        self._idle_s = idle_s

    @property
    def record(self) -> RequestRecord | None:
        return self.meter.record

    async def receive(self) -> list[E]:
        """The next events, as the upstream sends them. Raises ProviderError when it fails after its first content."""
        events = self._held
        self._held = None
        provider = self.call.provider.id
        if events is None:
            self._waits = True
            events = await (self._next() if self._attempt is None else self._next_under_keeper(self._attempt))
            self._waits = False
            self.meter.last_event_at = trio.current_time()
        if self._tally.see(events, provider):
            self.done = True
            if self.spoken is not None and self.meter.record is None:
                self.meter.ended_at = trio.current_time()
                return events
            self.close(error=None, cancelled=False)
            if self._records.commits_first:
                with trio.move_on_after(_COMMIT_WAIT_S):
                    await self._records.settled(self.meter.id)
        return events

    async def _next(self) -> list[E]:
        with trio.move_on_after(self._idle_s):
            return await self._receive()
        raise self._silent()

    async def _next_under_keeper(self, attempt: AttemptScope[S, E]) -> list[E]:
        """As `_next`, for a third of its price: an answer has many pieces."""
        attempt.expect(trio.current_time() + self._idle_s)
        try:
            events = await self._receive()
        except ProviderError:
            if attempt.aborted:
                raise self._silent() from None
            raise
        attempt.expect(math.inf)
        return events

    def _silent(self) -> UpstreamSlow:
        detail = f"silent for {self._idle_s:g} s in the middle of its answer"
        return UpstreamSlow(provider=self.call.provider.id, after_s=self._idle_s, detail=detail)

    def close(self, *, error: GwError | None, cancelled: bool) -> None:
        """Make the record, once. Cut short, it bills what was used so far."""
        if self.meter.record is None:
            usage, measured = self._tally.usage()
            cost = self._cost(usage)
            if not cost.nusd and measured is not None and (counted := self._cost(measured)).nusd:
                cost = counted  # the vendor's report is empty, or in units that the price does not know
            waste = self._waste(usage)
            if len(self.meter.marks) > 1:
                lost = self._lost()
                waste += lost.waste
                if lost.cost.nusd:  # an unknown one does not make the answer's own unknown
                    cost = total_cost([cost, lost.cost])
            self.meter.finish(
                usage=usage, measured=measured, cost=cost, error=error, cancelled=cancelled, waste=waste
            )

    @property
    def held(self) -> bool:
        """The answer is complete and its record waits for `close`."""
        return self.done and self.spoken is not None and self.meter.record is None

    def _waste(self, usage: Usage) -> Waste:
        if self.spoken is not None:
            reached = said_of(usage, self.spoken())
        elif self.done:
            return NO_WASTE
        else:
            after_s = trio.current_time() - (self.meter.content_at or self.meter.started)
            reached = self._tally.reached(usage, passed_on=self._waits, after_s=after_s)
        return waste_of(self.meter.modality, usage, reached, self._cost)

    def _cost(self, usage: Usage) -> Cost:
        call = self.call
        return cost_of(self._book, usage, call.model, call.provider, self.meter.day)
