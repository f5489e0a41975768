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
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import ClassVar, Generic, TypeVar, cast

import attrs
import trio

from gw.errors import ProviderError, ProviderRefused, Stopping, UpstreamSlow, one_error
from gw.policy import hedge
from gw.providers.spec import Account, ProviderSpec
from gw.registry.catalog import Model
from gw.relay.attempt import Attempt
from gw.relay.candidate_list import Candidates
from gw.relay.candidates import CandidatePlanner
from gw.relay.capture import begin_capture
from gw.relay.honoured import unsupported
from gw.relay.in_flight import InFlight
from gw.relay.meter import Meter
from gw.relay.prepared_call import OpenCall, PreparedCall
from gw.relay.request_spec import RequestSpec
from gw.types.compiled import mypyc_attr
from gw.types.ids import Caller, Modality
from gw.types.pending import Pending
from gw.types.stt import ListenRequest, TranscribeRequest

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
        self.events = events
        self.has_content = bool(events)
        self.scope = scope

    def take_events(self) -> list[E]:
        """Return the first events, to pass them on; they are not kept here for as long as the answer takes."""
        events, self.events = self.events, []
        return events


class Overtaken(Exception):
    """Another candidate has answered the request first.

    That is no failure of this one: it had until `first_event_s`. Its attempt is `cancelled`, and its breaker learns nothing.
    """


@mypyc_attr(allow_interpreted_subclasses=True)
class RequestContext(ABC, Generic[S, E]):
    """A request that makes attempts: its candidates, its meter, and the call of a candidate."""

    __slots__ = ("candidates", "first_event_s", "idle_s", "in_flight", "meter", "planner", "racing", "refusal", "spec")

    pays_for_hedges: ClassVar[bool] = True
    """A candidate that starts beside a slow one is sent something that its vendor bills."""
    first_event: ClassVar[str] = "content"
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
        self.meter.routed = candidates.routed
        if spec.modality != "llm":
            planner.begin_voice(self.meter, spec, candidates)
        if (capture := candidates.project.capture) is not None:
            self.meter.capture = begin_capture(capture, self.meter, spec)

    def prepare(self, model: Model, now: float) -> PreparedCall[S]:
        """Enter the gate. Raise ProviderError to have the model passed over."""
        return self.planner.prepare(self.spec, self.candidates, model, self.call_for, now)

    def lease_call(self, model: Model, now: float) -> Pending:
        """Return the wait for a call of a rate that a fleet shares; None: there is nothing to wait for."""
        return self.planner.lease_call(self.candidates, model, now) if self.planner.in_fleet else None

    def check_settings(self) -> None:
        """Raise UnsupportedSetting if no candidate honours the settings that the request needs, noting each as skipped."""
        skipped = self.planner.unsupported(self.spec, self.candidates)
        if skipped:
            now = trio.current_time()
            for model, skip in skipped:
                attempt = self.meter.begin_attempt(model, now)
                attempt.ended, attempt.error = now, skip
            raise unsupported([skip for _, skip in skipped])

    def first_event_due(self, now: float) -> float:
        """Return the time at which the first content of an attempt that begins `now` is due; infinite: nobody waits for it yet."""
        return now + self.first_event_s

    def fault_of_vendor(self, error: ProviderError | None) -> ProviderError | None:
        """Return the error with which an attempt ended, if it may say something of the vendor's health."""
        return error

    def note_speed(self, model: Model, seconds: float) -> None:
        """Note the time from the call to the first content."""
        self.planner.response_times.add(self.speed_key(model), seconds)
        self.note_wait(model, seconds)

    def note_wait(self, model: Model, seconds: float) -> None:
        """Note for routes by latency how long a candidate was waited for, also in vain."""
        if self.first_event == "content" and model.id in self.planner.routes.times.models:
            self.planner.routes.note_wait(model.id, self.spec, seconds)

    def is_hedged(self) -> bool:
        """Return whether the next candidate may start beside a slow one. `auto` hedges projects that speak or listen."""
        planner, project = self.planner, self.candidates.project
        if planner.routing.hedge == "off" or not self.in_flight.keeper.running:
            return False
        planner.hedge_budget.count_request(project.id, self.meter.day)
        return planner.routing.hedge != "auto" or planner.is_voice(project)

    def hedge_after_s(self, model: Model) -> float:
        planner = self.planner
        after_s = hedge.after_s(planner.routing.hedge, planner.response_times.p95(self.speed_key(model)))
        return math.inf if after_s is None else after_s

    def may_hedge(self, model: Model) -> bool:
        """Return whether a hedge by `model` is within the day's extra spend, and count it."""
        planner, project, meter = self.planner, self.candidates.project, self.meter
        if planner.routing.hedge != "auto":
            return True
        provider = self.candidates.catalog.provider(model.provider)
        budget, estimate_nusd = planner.hedge_budget, meter.cost_of(self.spec.estimate, model, provider).nusd
        taken = budget.take(
            project.id, meter.day, estimate_nusd=estimate_nusd, spent_nusd=planner.accounting.ledger.spent(project.id),
            share=planner.routing.hedge_spend,
        )  # fmt: skip
        if taken:
            meter.settle_hedges = partial(budget.settle, project.id, meter.day, estimate_nusd=estimate_nusd or 0)
        return taken

    def speed_key(self, model: Model) -> tuple[str, Modality, bool, str]:
        return model.id, self.spec.modality, self.spec.stream, self.first_event

    def note_billed_options(
        self, call: PreparedCall[S], request: TranscribeRequest | ListenRequest, attempt: Attempt
    ) -> PreparedCall[S]:
        """Note what the vendor of this attempt bills on top of a transcription: options and channels."""
        if (options := call.spec.billed_options) is not None:
            language = request.language or call.model.default_language
            call.addons = options(attrs.evolve(request, language=language), call.model.name)
            attempt.addons = call.addons
        if (channels := call.spec.billed_channels) is not None:
            call.channels = attempt.channels = channels(request, call.model.name)
        return call

    @abstractmethod
    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[S]: ...

    @abstractmethod
    def first_content(self, stream: S, provider: str, /) -> Awaitable[list[E]]:
        """Read up to the first content."""


@mypyc_attr(allow_interpreted_subclasses=True)
class AttemptScope(AbstractAsyncContextManager["OpenAttempt[S, E]"], Generic[S, E]):
    """One attempt. Entering raises what `prepare` and `first_content` raise, and UpstreamSlow for late content.

    A class and not a generator, like everything between a request and its upstream: each generator costs three hops per
    wake-up. A cancel scope stays open until the attempt is left, so a provider may hold a nursery inside it.
    """

    __slots__ = (
        "_abort", "_attempt", "_call", "_hedges", "_model", "_open", "_overtaken", "_request", "_scope", "_upstream", "aborted",
        "is_waiting",
    )  # fmt: skip

    def __init__(self, request: RequestContext[S, E], model: Model, *, hedges: bool = False) -> None:
        """`hedges`: it starts beside another one that is slow."""
        self._request = request
        self._model = model
        self._open: OpenAttempt[S, E] | None = None
        self._scope: trio.CancelScope | None = None
        self._abort: Callable[[], None] | None = None
        self.aborted = False
        self.is_waiting = False
        """The next events are awaited: all events before have been sent on."""
        self._overtaken = False
        self._hedges = hedges

    def expire(self) -> None:
        """End the call: its deadline has passed, or the gateway stops."""
        self.aborted = True
        self._request.in_flight.keeper.deadlines[self] = math.inf
        if self._abort is not None:
            self._abort()

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
            self._upstream = upstream = call.open()
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
            request.refusal = OpenAttempt(self._call, self._attempt, stream, events)
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
        detail = f"silent for {idle_s:g} s in the middle of its answer"
        raise UpstreamSlow(provider=self._call.provider.id, after_s=idle_s, detail=detail)

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
        self._open = self._abort = None  # else a reference cycle
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
