"""An answer on its way to the caller. The record is made before the last event is let out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import trio

from gw.errors import GwError, UpstreamSlow
from gw.pricing.book import PriceBook
from gw.relay.attempts import Ready
from gw.relay.meter import Meter, Records, cost_of
from gw.types.usage import Cost, RequestRecord, Usage

S = TypeVar("S")
E = TypeVar("E")

_COMMIT_WAIT_S = 1.0
"""Longest time the last byte waits for the commit where durability is `power`."""


class Tally(Protocol[E]):
    """Adds up a kind of answer; see `gw.relay.tally`."""

    def see(self, events: list[E], provider: str) -> bool: ...

    def usage(self) -> tuple[Usage, Usage | None]: ...


class Answer(Generic[S, E]):
    """The stream a dialect reads. After the list that completes the answer, `record` is set and `done` is true."""

    def __init__(
        self,
        meter: Meter,
        ready: Ready[S, E],
        receive: Callable[[], Awaitable[list[E]]],
        tally: Tally[E],
        *,
        book: PriceBook,
        records: Records,
        idle_s: float,
    ) -> None:
        self.meter = meter
        self.call = ready.call
        self.stream = ready.stream
        self.done = False
        self._held: list[E] | None = ready.events
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
            with trio.move_on_after(self._idle_s) as scope:
                events = await self._receive()
            if events is None or scope.cancelled_caught:
                raise UpstreamSlow(
                    provider=provider,
                    after_s=self._idle_s,
                    detail=f"silent for {self._idle_s:g} s in the middle of its answer",
                )
            self.meter.last_event_at = trio.current_time()
        if self._tally.see(events, provider):
            self.done = True
            self.close(error=None, cancelled=False)
            if self._records.commits_first:
                with trio.move_on_after(_COMMIT_WAIT_S):
                    await self._records.settled(self.meter.id)
        return events

    def close(self, *, error: GwError | None, cancelled: bool) -> None:
        """Make the record, once. Cut short, it bills what was used so far."""
        if self.meter.record is None:
            usage, measured = self._tally.usage()
            cost = self._cost(usage)
            if not cost.nusd and measured is not None and (counted := self._cost(measured)).nusd:
                cost = counted  # the vendor's report is empty, or in units that the price does not know
            self.meter.finish(usage=usage, measured=measured, cost=cost, error=error, cancelled=cancelled)

    def _cost(self, usage: Usage) -> Cost:
        return cost_of(self._book, usage, self.call.model, self.call.provider, self.meter.day)
