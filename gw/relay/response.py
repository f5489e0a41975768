"""The response on its way to the caller. Its record is made before the last event is let out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

import trio

from gw.errors import GwError, ProviderError
from gw.registry.catalog import Catalog
from gw.relay.attempts import OpenAttempt
from gw.relay.meter import Meter
from gw.relay.waste import NO_WASTE, Waste, sent_part, waste_of
from gw.types.compiled import mypyc_attr
from gw.types.pending import READY, Pending
from gw.types.usage import Cost, RequestRecord, Usage, VendorFigure

S = TypeVar("S", bound="ProviderStream")
E = TypeVar("E")

_COMMIT_WAIT_S = 1.0  # longest time the last byte waits for the commit where durability is `power`


class ProviderStream(Protocol):
    async def receive(self) -> list[Any]: ...


class CallingStream(Protocol[E]):
    """A stream that can also pass events on where they are read."""

    def for_each(self, handle: Callable[[list[E]], Pending]) -> Awaitable[Awaitable[None]]:
        """Call `handle` with each list of events until it returns something to wait for; return that. Raise as `receive` does."""


class UsageCounter(Protocol[E]):
    """Adds up the events of one modality; see `gw.relay.usage_counters`."""

    def add(self, events: list[E], provider: str) -> bool:
        """Count events; return whether the answer is complete. Raise ProviderError for an error event."""

    def usage(self) -> tuple[Usage, Usage | None]:
        """Return the usage to bill, and our own measure where that is the vendor's."""

    def reached(self, usage: Usage, *, passed_on: bool, after_s: float) -> Usage:
        """Return the part of `usage` that reached the caller of an answer that was cut short.

        `passed_on`: the events added last were sent as well; `after_s`: since the first content.
        """


@mypyc_attr(allow_interpreted_subclasses=True)
class Response(Generic[S, E]):
    """The stream a dialect reads. After the list that completes the answer, `record` is set and `done` is true."""

    reads_in_place: ClassVar[bool] = True
    """Nothing is waited for between two lists of events but the provider."""

    def __init__(
        self, meter: Meter, opened: OpenAttempt[S, E], counter: UsageCounter[E], catalog: Catalog, *, idle_s: float
    ) -> None:
        self.meter = meter
        self.call = opened.call
        self.voice = opened.attempt.voice
        self.stream = opened.stream
        self.done = False
        self.vendor_figure: VendorFigure | None = None
        """The vendor's own figure of what it bills, if that comes before its first content."""
        self.vendor_request_id = ""
        """The vendor's own id of the request, where its clients send it back to name this speech."""
        self.spoken_share: Callable[[], float] | None = None
        """Returns the share of the answer's text that was spoken until now, where another request speaks it. Then the
        record of a complete answer waits for `close`, to be called when the speech is over."""
        self._first_events: list[E] | None = opened.take_events()
        self._scope = opened.scope
        self._reads_from: S = opened.stream  # another one's, once that has failed
        self._handle: Callable[[list[E]], Pending] | None = None
        self._counter = counter
        self._catalog = catalog
        self._idle_s = idle_s

    @property
    def record(self) -> RequestRecord | None:
        return self.meter.record

    async def receive(self) -> list[E]:
        """Return the next events. Raise ProviderError when the upstream fails after its first content."""
        events, self._first_events = self._first_events, None
        if events is None:
            events = await self._next_events()
        if (commit := self._count(events)) is not None:
            await commit
        return events

    async def for_each(self, handle: Callable[[list[E]], Pending]) -> None:
        """Call `handle` with each list of events until the answer is done, and await what it returns.

        Where the stream allows it events are handled where they are read, which saves a pass through the scheduler for each
        list. Raise as `receive` does, and what `handle` raises.
        """
        calls_back = self.reads_in_place and hasattr(self.stream, "for_each")
        self._handle = handle
        try:
            while not self.done:
                scope = self._scope
                if self._first_events is not None or scope is None or not (calls_back and scope.is_kept):
                    pending = handle(await self.receive())
                else:
                    scope.handle_by(self._pass_on, self._idle_s)
                    try:
                        pending = await cast("CallingStream[E]", self.stream).for_each(scope.pass_on)
                    except ProviderError:
                        scope.check_silence()
                        raise
                    finally:
                        scope.handle_by(None)
                if pending is not None:
                    await pending
        finally:
            self._handle = None  # else a reference cycle

    def _pass_on(self, events: list[E]) -> Pending:
        assert self._handle is not None
        if (commit := self._count(events)) is not None:
            return self._pass_on_after(commit, events)
        pending = self._handle(events)
        return READY if pending is None and self.done else pending

    async def _pass_on_after(self, commit: Awaitable[None], events: list[E]) -> None:
        await commit
        if self._handle is not None and (pending := self._handle(events)) is not None:
            await pending

    def _count(self, events: list[E]) -> Pending:
        """Count events; make the record of an answer that they complete. Return the wait for its commit, if any."""
        if not self._counter.add(events, self.call.provider.id):
            return None
        if self.spoken_share is not None and self.meter.record is None:
            self.done = True
            self.meter.ended_at = trio.current_time()
            return None
        return self._complete()

    def _complete(self) -> Pending:
        """Make the record of a complete answer, before its last events are let out. Return the wait for its commit, if any."""
        self.done = True
        self.close(error=None, cancelled=False)
        return self._wait_committed() if self.meter.accounting.records.commits_first else None

    async def _wait_committed(self) -> None:
        with trio.move_on_after(_COMMIT_WAIT_S):
            await self.meter.accounting.records.wait_committed(self.meter.id)

    def _next_events(self) -> Awaitable[list[E]]:
        """Wait for the events after the first."""
        assert self._scope is not None
        return self._scope.receive(self._reads_from.receive, self._allowed_silence_s())

    def _allowed_silence_s(self) -> float:
        return self._idle_s

    def close(self, *, error: GwError | None, cancelled: bool) -> None:
        """Make the record, once. An answer that was cut short bills the units used so far."""
        if self.meter.record is None:
            usage, measured = self._usage()
            meter = self.meter
            usage, cost = meter.priced(usage, measured, self._cost)
            assert meter.answering is not None
            meter.bill(meter.answering, usage, cost, self._waste(usage), measured)
            if len(meter.attempts) > 1:
                meter.bill_unanswered_calls(self._catalog)
            meter.finish(usage=usage, measured=measured, error=error, cancelled=cancelled)

    def _usage(self) -> tuple[Usage, Usage | None]:
        """Return the usage to bill and our own measure, with the options of this vendor that are billed on top."""
        usage, measured = self._counter.usage()
        if (channels := self.call.channels) != 1:
            usage = usage if usage.source == "vendor" else usage.times(channels)
            measured = None if measured is None else measured.times(channels)
        if addons := self.call.addons:
            return usage.with_addons(addons), None if measured is None else measured.with_addons(addons)
        return usage, measured

    @property
    def awaits_close(self) -> bool:
        """Return whether the answer is complete and its record waits for `close`."""
        return self.done and self.spoken_share is not None and self.meter.record is None

    def _waste(self, usage: Usage) -> Waste:
        if self.spoken_share is not None:
            reached = sent_part(usage, self.spoken_share())
        elif self.done:
            return NO_WASTE
        else:
            after_s = trio.current_time() - (self.meter.content_at or self.meter.started)
            passed_on = self._scope is not None and self._scope.is_waiting
            reached = self._counter.reached(usage, passed_on=passed_on, after_s=after_s)
        return waste_of(self.meter.modality, usage, reached, self._cost)

    def _cost(self, usage: Usage) -> Cost:
        return self.meter.cost_of(usage, self.call.model, self.call.provider)
