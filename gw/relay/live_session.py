"""Live sessions: one provider after the other behind one session, each part of it a SessionAttempt.

States of a session, from `gw.relay.session_run`; `_drive` runs the attempts in turn (see `gw.relay.attempts`):

    state        the caller's input            ends with
    ──────────   ───────────────────────────   ─────────────────────────────────────────────────────────────────────
    connecting   is buffered                   handshake → replaying; failure → connecting to the next (`DialOrder`)
    replaying    is buffered                   the buffer is sent → live; failure → connecting to the next
    live         goes to the provider          last event → done; failure → connecting to the next
    done         is dropped                    the record is written before the last event is let out
    failed       is dropped                    no candidate is left: `receive` raises

Tasks, all inside the caller's block: the driver, which holds one provider after the other, and beside it, for each
attempt, one that replays, until the attempt ends (`start_for`). `SilenceWatch` looks at live transcriptions, another task at
speech. The driver's failure is what the session's `receive` raises. A session that is served (`ListeningSession.serve`) has no
driver: the caller's own task does its work, and what the caller sends comes by callbacks.
Each vendor bills its own input, so the cost of a session that moved is the sum over its attempts, each of which records
its own part.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Generic, TypeVar

import trio

from gw.errors import AllCandidatesFailed, GwError, ProviderError, Stopping, UnsupportedSetting, UpstreamSlow
from gw.registry.catalog import Model
from gw.relay.attempt import Attempt
from gw.relay.attempts import AttemptScope, OpenAttempt
from gw.relay.candidates import CandidatePlanner
from gw.relay.dial_order import DialOrder, served_s
from gw.relay.event_queue import EventQueue
from gw.relay.hedging import HedgedAttempts
from gw.relay.in_flight import InFlight
from gw.relay.in_turn import try_in_turn
from gw.relay.prepared_call import PreparedCall
from gw.relay.request_context import RequestContext
from gw.relay.request_spec import RequestSpec
from gw.relay.session_attempt import SessionAttempt
from gw.relay.waste import waste_of
from gw.types.compiled import mypyc_attr
from gw.types.ids import Modality
from gw.types.stt import ListenRequest
from gw.types.tts import SpeakLiveRequest
from gw.types.usage import Cost, Usage, total_usage

S = TypeVar("S")
E = TypeVar("E")
A = TypeVar("A", bound="SessionAttempt[Any]")

FAREWELL_S = 2.0  # time for the provider to end the session and report its usage after the caller has left
WATCH_S = 0.25
BLOCKED_S = 2.0  # a provider that takes no input for so long has failed
_RESERVED: dict[Modality, Usage] = {
    "stt": Usage(audio_seconds=60.0, source="estimated"),
    "tts": Usage(characters=1_000, source="estimated"),
}
"""Reserved against the budget for a session, whose length is unknown."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LiveSession(RequestContext[S, E], Generic[S, E, A]):
    """The session a dialect holds. One task sends, another receives."""

    first_event: ClassVar[str] = "session"
    pays_for_hedges: ClassVar[bool] = False  # only a handshake
    last_event: ClassVar[type]
    """Class of the event that ends the session."""

    def __init__(
        self, planner: CandidatePlanner, in_flight: InFlight, modality: Modality, request: ListenRequest | SpeakLiveRequest
    ) -> None:
        spec = RequestSpec(
            modality=modality, requested=request.model, stream=True, estimate=_RESERVED[modality],
            call="listen" if modality == "stt" else "speak_live", settings=request,
        )
        super().__init__(planner, in_flight, spec, planner.routing.first_event_s[modality])
        self.done = False
        self.order: DialOrder
        self.attempts: list[A] = []
        self._current: A | None = None
        self._finishing = False
        self._failure: GwError | None = None
        self.left = False  # the caller has closed: nobody would hear another candidate
        self._events: EventQueue[E]  # where a driver runs
        self._nursery: trio.Nursery

    @property
    def call(self) -> PreparedCall[S] | None:
        """Prepared call of the provider serving the session; None before the first."""
        return self._current.call if self._current is not None else None

    async def admit(self) -> None:
        """Reserve the estimate of what the session costs. Raise admission errors and UnsupportedSetting."""
        planner, candidates = self.planner, self.candidates
        estimate_nusd = planner.estimate(self.meter, self.spec, candidates)
        if (room := planner.room(candidates, self.meter.caller, estimate_nusd)) is not None:
            await room
        planner.admit(self.meter, candidates, estimate_nusd)
        self.check_settings()

    def begin(self, nursery: trio.Nursery, *, driven: bool) -> None:
        """Begin in `nursery`, which belongs to the session; `driven`: with a driver, else for `serve`."""
        self._nursery = nursery
        self._begin()
        if driven:
            self._events = EventQueue()
            nursery.start_soon(self._drive)

    def _begin(self) -> None:
        """Start what runs beside the session, before its driver."""

    def start_soon(self, function: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run a task that ends with the session; what it raises ends the session."""
        self._nursery.start_soon(function, *args)

    async def receive(self) -> list[E]:
        """Return the next events; the last list ends the session. Raise the last failure when no candidate is left."""
        try:
            events = await self._events.take()
        except trio.EndOfChannel:
            assert self._failure is not None
            raise self._failure from None
        self._before_delivery(events)
        return events

    def caller_left(self) -> None:
        """Note that the caller has closed: the session has FAREWELL_S left."""
        self.left = True
        self.start_soon(self._farewell)

    async def _farewell(self) -> None:
        with trio.move_on_after(FAREWELL_S):
            await self.finish()
            await trio.sleep_forever()
        self.end()

    def end(self) -> None:
        """End all that runs for the session."""
        self._nursery.cancel_scope.cancel()

    def _before_delivery(self, events: list[E]) -> None:
        if self.meter.capture is not None:
            self.meter.capture.give(events)
        if isinstance(events[-1], self.last_event):
            self.done = True
            self._write_record(None, cancelled=False)

    def close(self, error: GwError | None) -> None:
        """Make the record unless there is one: the session failed or, without an error, its caller left."""
        if self.meter.record is None:
            self._write_record(error, cancelled=error is None)

    def _write_record(self, error: GwError | None, *, cancelled: bool) -> None:
        """Bill every attempt that reached its vendor, and make the record of their sums."""
        meter = self.meter
        if meter.capture is not None:
            meter.capture.text(self.captured_text())
        measured: list[Usage] = []
        billed: list[Usage] = []
        for attempt in self.attempts:
            addons = attempt.call.addons
            channels = attempt.call.channels
            counted, reached = [usage.times(channels).with_addons(addons) for usage in self._usage(attempt)]
            usage = (attempt.reported or counted).with_addons(addons)
            cost_of = partial(meter.cost_of, model=attempt.call.model, provider=attempt.call.provider, live=True)
            if attempt.call.cache == "hit":
                self._save(attempt, cost_of(counted).nusd or 0)
                billed.append(Usage())
                continue
            usage, cost = meter.priced(usage, counted, cost_of)
            meter.bill(attempt.attempt, usage, cost, waste_of(meter.modality, usage, reached, cost_of), counted)
            measured.append(counted)
            billed.append(usage)
        by_vendor = bool(measured) and all(attempt.reported for attempt in self.attempts if attempt.call.cache != "hit")
        meter.finish(
            usage=billed[0] if len(billed) == 1 else total_usage(billed, "vendor" if by_vendor else "measured"),
            measured=total_usage(measured, "measured") if by_vendor else None,
            error=error,
            cancelled=cancelled,
        )

    def _save(self, attempt: A, nusd: int) -> None:
        """Note an attempt that the phrase cache answered for nothing, and what its vendor would have charged."""
        attempt.attempt.saved_nusd = nusd
        self.meter.bill(attempt.attempt, Usage(), Cost(nusd=0, source="cache"))

    def note_input(self, attempt: A, sent: Usage | None) -> None:
        """Note in the journal what the vendor was sent, or is about to be, in all; None = nothing new."""
        if sent is None or attempt.call.cache == "hit":
            return
        call = attempt.call
        sent = sent.times(call.channels).with_addons(call.addons)
        self.meter.note_input(attempt.attempt, sent, self.meter.cost_of(sent, call.model, call.provider, live=True))

    async def _forward(self, send: Callable[[S], Awaitable[None]]) -> None:
        """Have `send` pass on something that is not buffered. A failure is left to the provider's reader to raise."""
        attempt = self._current
        if attempt is None or not attempt.live or attempt.session is None:
            await trio.lowlevel.checkpoint()
            return
        try:
            await send(attempt.session)
        except ProviderError as error:
            attempt.note(error)

    # ------------------------------------------------------------------ one provider after the other

    async def _drive(self, served: bool = False) -> None:
        """Try one candidate after the other. Their failure is for `receive` unless `served`; any other one ends the session."""
        self.order = DialOrder(self.candidates.models)
        try:
            await self._serve_all()
        except (ProviderError, AllCandidatesFailed, UnsupportedSetting, Stopping) as error:
            self._failure = error
            if served:
                raise
        finally:
            if not served:
                self._events.close()

    def _serve_all(self) -> Awaitable[None]:
        """Serve the session to its end. Raise what `try_in_turn` raises."""
        return try_in_turn(self.order, self._serve, self._can_move)

    async def first_content(self, session: S, provider: str) -> list[E]:
        """Read nothing: an attempt is ready with its handshake."""
        return []

    async def _serve(self, model: Model) -> None:
        """Open a provider and read it to its end. Raise ProviderError, AllCandidatesFailed, Stopping."""
        attempt: A | None = None
        try:
            dialled = self._dial(model)
            async with dialled as opened:
                if isinstance(dialled, AttemptScope):
                    dialled.narrow()
                attempt = self._session_attempt(opened.call, opened.attempt)
                self.attempts.append(attempt)
                attempt.session = opened.stream
                attempt.last_event_at = trio.current_time()
                self._current = attempt
                try:
                    await self._use_until_failed(attempt, opened.stream)
                finally:
                    attempt.live = False
        except ProviderError as error:
            if attempt is not None:
                self.order.failed(attempt.call.model, error, self._served_s(attempt))
            raise

    def _dial(self, model: Model) -> AbstractAsyncContextManager[OpenAttempt[S, E]]:
        """Dial `model` and, the first time and where that takes long, the next candidate beside it."""
        if self.attempts or not self.order.has_new or not self.is_hedged():
            return AttemptScope(self, model)
        return HedgedAttempts(self, chain([model], self.order.new()), self.hedge_after_s, lambda: self.order.has_new)

    async def _use_until_failed(self, attempt: A, session: S) -> None:
        """Serve until the session has ended. The attempt may belong to another task, so its own scope is not ours to cancel."""
        scopes, completed = self.in_flight.scopes, False
        scopes.add(attempt.using)
        try:
            with attempt.using:
                await self._use(attempt, session)
                completed = True
        except BaseException:  # no `finally`: compiled, one that awaits raises again what its caller has caught
            scopes.discard(attempt.using)
            await attempt.end_tasks()
            raise
        scopes.discard(attempt.using)
        await attempt.end_tasks()
        if not completed and not self.done:  # done: the end was delivered in the moment of the failure
            raise attempt.failure if attempt.failure and not self.in_flight.stopping else Stopping()

    def start_for(self, attempt: A, function: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run a task that ends with the attempt, at its first wait then. A failure of the provider that it raises ends the attempt."""
        scope = trio.CancelScope()
        attempt.task_begins(scope)
        self._nursery.start_soon(self._run_for, attempt, scope, function, args, name=function)

    async def _run_for(
        self, attempt: A, scope: trio.CancelScope, function: Callable[..., Awaitable[object]], args: tuple[object, ...]
    ) -> None:
        try:
            with scope:
                await function(*args)
        except ProviderError as error:
            attempt.fail(error)
        finally:
            attempt.task_ended(scope)

    def _served_s(self, attempt: A) -> float:
        """Return the seconds since the attempt's first event."""
        return served_s(attempt.attempt.ready_at, trio.current_time())

    async def _watch(self, attempt: A) -> None:
        """Fail the attempt when its provider has failed silently."""
        while attempt.error is None:
            await trio.sleep(self._watch_s(attempt))
            now = trio.current_time()
            if attempt.error is None:
                attempt.error = self._silent_failure(attempt, now)
        attempt.fail(attempt.error)

    def _watch_s(self, attempt: A) -> float:
        """Return how long the next look at the provider can wait."""
        return WATCH_S

    def _has_next(self, attempt: A) -> bool:
        """Return whether another candidate can take over from this attempt."""
        return self.order.has_next and self._can_move()

    def _slow(self, attempt: A, after_s: float, detail: str) -> UpstreamSlow:
        return UpstreamSlow(provider=attempt.call.provider.id, after_s=after_s, detail=detail)

    def _note_answered(self, attempt: A) -> None:
        """Note that events of this attempt go to the caller."""
        meter = self.meter
        if meter.answering is not attempt.attempt:
            meter.answered_by(attempt.attempt)
        meter.last_event_at = attempt.last_event_at

    # ------------------------------------------------------------------ for each kind of session

    def captured_text(self) -> str:
        """Return the text that the caller has sent, for its capture."""
        return ""

    def _can_move(self) -> bool:
        """Return whether another provider can take over what is left."""
        return True

    @abstractmethod
    async def finish(self) -> None:
        """Announce that the caller will send no more."""

    @abstractmethod
    def _session_attempt(self, call: PreparedCall[S], attempt: Attempt) -> A: ...

    @abstractmethod
    async def _use(self, attempt: A, session: S) -> None:
        """Serve until the attempt has ended; then what `start_for` runs is cancelled. Raise ProviderError; other tasks call `fail`."""

    @abstractmethod
    def _silent_failure(self, attempt: A, now: float) -> ProviderError | None:
        """Return the failure of a provider that takes no input or owes events; None while it does neither."""

    @abstractmethod
    def _usage(self, attempt: A) -> tuple[Usage, Usage]:
        """Return the attempt's units by our count, and the part of its usage that was of use to the caller."""
