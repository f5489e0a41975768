"""A conversation with a model that hears and speaks itself: the vendor's frames pass through, and each response has its record.

States of a session:

    state        begins with                              ends with
    ──────────   ──────────────────────────────────────   ────────────────────────────────────────────────────────────
    connecting   the next candidate is dialled            its first event → idle; failure → connecting to the next one
    idle         no response runs, and none is due        the caller, or the vendor at the end of a turn, begins one
    responding   each response has a meter                the last `response.done` → idle; silence for `idle_s` → failed
    done         the caller leaves, the vendor closes     what runs is recorded as cancelled, with its estimate
    failed       the vendor fails, a limit is reached     what runs is recorded with the error

A session that has begun cannot move to another vendor, who does not know what was said. It counts as one request at once, whose place
a response takes over; money is reserved for each response, and a limit that is reached in the middle cancels it and ends the session.
The first response takes over the meter that dialled; a session without any response has that one's record.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Self

import msgspec
import trio

from gw.errors import GwError, ProviderError, ProviderRefused, UnknownNameError, UpstreamCut, UpstreamSlow, one_error
from gw.providers.spec import Account, ConverseRequest, ConverseSession, ProviderSpec, spec_of
from gw.registry.catalog import Model, Provider
from gw.relay.admission import Reservation
from gw.relay.attempt import Attempt
from gw.relay.attempts import AttemptScope, OpenAttempt, RequestContext
from gw.relay.candidates import CandidatePlanner, offered
from gw.relay.in_flight import InFlight
from gw.relay.in_turn import try_in_turn
from gw.relay.meter import Meter, record_error
from gw.relay.prepared_call import OpenCall
from gw.relay.request_spec import RequestSpec
from gw.types.ids import Caller, Modality
from gw.types.usage import Cost, Usage
from gw.wire import openai_realtime_events as wire
from gw.wire.json_frames import typed_frame

_FIRST_RESPONSE = Usage(input_tokens=1_000, input_audio_tokens=300, output_tokens=400, output_audio_tokens=300, source="estimated")
"""Reserved for the first response; for each other one, what the one before it used."""
_CANCEL_WITHIN_S = 2.0  # time for the vendor to end a response that was cancelled, and to say what it has used


class _Running(msgspec.Struct, eq=False):
    """A response that the vendor is making."""

    meter: Meter
    attempt: Attempt
    refusal: GwError | None = None
    """The limit for which it was cancelled."""


class ConversingSession(RequestContext[ConverseSession, str]):
    first_event = "session"
    pays_for_hedges = False  # only a handshake

    def __init__(self, planner: CandidatePlanner, in_flight: InFlight, request: ConverseRequest) -> None:
        spec = RequestSpec(modality="llm", requested=request.model, stream=True, estimate=_FIRST_RESPONSE, call="converse")
        super().__init__(planner, in_flight, spec, planner.routing.first_event_s["llm"])
        self._request = request
        self._running: dict[str, _Running] = {}
        self._admitted: Meter | None = None
        """The meter of a response that the caller has asked for and the vendor has not begun."""
        self._place: Reservation | None = None
        """The session's place among the requests at once, while no response has it."""
        self._began: float | None = None
        """When the wait for the next response began: at the end of the caller's turn, or with its request."""
        self._transcription_model = ""
        self._responses = 0
        self.opening: Sequence[str] = ()
        """Frames that came while the session was opened."""

    @property
    def is_busy(self) -> bool:
        """Return whether the caller waits for a response."""
        return bool(self._running) or self._admitted is not None

    @asynccontextmanager
    async def run(self, caller: Caller) -> AsyncIterator[Self]:
        """Admit the session, dial a vendor and hold it for the block; leaving writes the records of what still runs."""
        self.plan(caller)
        self.meter.notes_input = True
        self.in_flight.requests += 1
        try:
            with one_error():
                await self._admit_session(caller)
                async with _Dialled(self) as opened:
                    self._use(opened)
                    try:
                        yield self
                    except OSError:  # the caller's connection broke
                        await self._end_responses()
                        raise
                    await self._end_responses()
        except BaseException as raised:
            self._close(record_error(raised, stopping=self.in_flight.stopping))
            self.planner.hand_over(self.candidates)
            raise
        else:
            self._close(None)
        finally:
            self._leave_place()
            self.in_flight.requests -= 1

    def plan(self, caller: Caller) -> None:
        """Choose the candidates that hear and speak themselves. Raise what `CandidatePlanner.plan` raises."""
        session_id = caller.session_id or caller.request_id
        super().plan(msgspec.structs.replace(caller, session_id=session_id, turn_id=caller.turn_id or caller.request_id))
        catalog = self.candidates.catalog
        models = tuple(model for model in self.candidates.models if converses(catalog.provider(model.provider), model))
        self.candidates = msgspec.structs.replace(self.candidates, models=models)

    async def _admit_session(self, caller: Caller) -> None:
        planner, meter = self.planner, self.meter
        estimate_nusd = planner.estimate(meter, self.spec, self.candidates)
        if (room := planner.room(self.candidates, caller, estimate_nusd)) is not None:
            await room
        planner.admit(meter, self.candidates, 0)
        self._place, meter.reservation = meter.reservation, None

    def _use(self, opened: OpenAttempt[ConverseSession, str]) -> None:
        self._model, self._provider, self._session = opened.call.model, opened.call.provider, opened.stream
        self._attempt = opened.attempt
        self.opening = opened.events
        for frame in opened.events:
            self._note_settings(wire.read_server_event(self._provider.id, frame))

    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[ConverseSession]:
        call, request = offered(spec.converse, account), self._request
        return lambda: call(request, account)

    async def first_content(self, stream: ConverseSession, provider: str) -> list[str]:
        """Read the first event. Raise the error that it may be."""
        frame = await stream.receive()
        if frame is None:
            raise UpstreamCut(provider=provider, detail="closed the session before its first event")
        event = wire.read_server_event(provider, frame)
        if event.type == "error":
            raise wire.error_of_event(provider, event.error)
        return [frame]

    # ---- the caller's frames

    async def send(self, frame: str) -> None:
        """Pass on a frame. Raise ClientProtocolError, or the limit that stands against a response; the session goes on."""
        kind = wire.read_client_event(frame).type
        if kind == "response.create":
            if self._admitted is None:
                meter = self._next_meter()
                await self._admit_response(meter)
                self._admitted = meter
            self._began = self._now()
        elif kind == "session.update":
            frame = wire.for_vendor(frame, self._model.name)
        with suppress(ProviderError):  # the task that reads the vendor meets it, too
            await self._session.send(frame)

    # ---- the vendor's frames

    async def receive(self) -> str | None:
        """Return the vendor's next frame; None when it has closed the session normally. Raise ProviderError, or a limit."""
        within_s = self.idle_s if self.is_busy else math.inf
        if any(running.refusal for running in self._running.values()):
            within_s = _CANCEL_WITHIN_S
        with trio.move_on_after(within_s):
            frame = await self._session.receive()
            if frame is not None:
                await self._note(wire.read_server_event(self._provider.id, frame))
            return frame
        for running in self._running.values():
            if running.refusal is not None:
                raise running.refusal
        raise UpstreamSlow(provider=self._provider.id, after_s=within_s, detail=f"silent for {within_s:g} s in a response")

    async def _note(self, event: wire.ServerEvent) -> None:
        if event.type in wire.CONTENT:
            running = self._running.get(event.response_id)
            if running is not None and running.attempt.ready_at is None:
                running.meter.answered_by(running.attempt)
        elif event.type in wire.SPEECH_ENDED:
            self._began = self._now() if self._began is None else self._began
        elif event.type == "response.created" and event.response is not None:
            await self._begin(event.response.id)
        elif event.type == "response.done" and event.response is not None:
            self._end(event.response)
        elif event.type == wire.TRANSCRIBED:
            self._record_transcription(wire.usage_of(event.usage))
        else:
            self._note_settings(event)

    def _note_settings(self, event: wire.ServerEvent) -> None:
        if (named := wire.transcription_model(event.session)) is not None:
            self._transcription_model = named

    # ---- responses

    async def _admit_response(self, meter: Meter) -> None:
        """Reserve money for a response, which takes over the session's place. Raise the limit that stands against it."""
        estimate_nusd = self.planner.estimate(meter, self.spec, self.candidates)
        room = self.planner.room(self.candidates, meter.caller, estimate_nusd, has_place=self._place is not None)
        if room is not None:
            await room
        self.planner.admit(meter, self.candidates, estimate_nusd, has_place=self._place is not None)
        self._leave_place()

    def _leave_place(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            self.planner.accounting.ledger.settle(place, 0)

    def _settle(self, meter: Meter) -> None:
        """Return what was reserved for a response that the vendor has not begun; the session has its place again."""
        reservation, meter.reservation = meter.reservation, None
        if self._place is None:
            self._place = self.planner.count(self.candidates, meter.caller)
        if reservation is not None:
            self.planner.accounting.ledger.settle(reservation, 0)

    def _next_meter(self) -> Meter:
        """Return the meter of the next response: that of the session for the first one."""
        if not self._responses:
            return self.meter
        return self._new_meter("llm", self.candidates.models[0].id, self._turn_id(self._responses + 1))

    def _turn_id(self, number: int) -> str:
        """Return the turn of a response, counted from 1."""
        first = self.meter.caller.turn_id or ""
        return first if number <= 1 else f"{first}-{number}"

    def _new_meter(self, modality: Modality, requested: str, turn_id: str) -> Meter:
        accounting = self.planner.accounting
        caller = msgspec.structs.replace(self.meter.caller, request_id=accounting.request_ids.new(), turn_id=turn_id)
        return Meter(accounting, caller, modality, requested, stream=True)

    async def _begin(self, id_: str) -> None:
        """Begin to measure a response. One against which a limit stands is cancelled; its record says so."""
        refusal: GwError | None = None
        meter, self._admitted = self._admitted, None
        if meter is None:
            meter = self._next_meter()
            try:
                await self._admit_response(meter)
            except GwError as error:
                refusal = error
                meter.reservation = self.planner.count(self.candidates, meter.caller)
                self._leave_place()
                with suppress(ProviderError):
                    await self._session.send(_cancel(id_))
        now = self._now()
        began, self._began = now if self._began is None else self._began, None
        self._responses += 1
        if meter is self.meter:
            attempt = self._attempt
            meter.begin_now(began, self.spec.estimate)
        else:
            meter.timestamp -= now - began
            meter.started = began
            attempt = meter.begin_attempt(self._model, began)
        meter.notes_input = False
        meter.calling(attempt, self._model)
        self._running[id_] = _Running(meter, attempt, refusal)

    def _end(self, response: wire.ModelResponse) -> None:
        """Record a response that has ended. Raise the limit for which it was cancelled."""
        running = self._running.pop(response.id, None)
        if running is None:
            return
        error: GwError | None = running.refusal
        details = response.status_details
        if error is None and response.status == "failed":
            error = wire.error_of_event(self._provider.id, details.error if details is not None else None)
        elif error is None and wire.is_filtered(response):
            error = ProviderRefused(provider=self._provider.id, detail="a content filter has stopped the response")
        usage = wire.usage_of(response.usage)
        self._finish(running, usage, error, cancelled=error is None and response.status == "cancelled")
        if usage is not None:
            self.spec = msgspec.structs.replace(self.spec, estimate=msgspec.structs.replace(usage, source="estimated"))
        if running.refusal is not None:
            raise running.refusal

    def _finish(self, running: _Running, usage: Usage | None, error: GwError | None, *, cancelled: bool) -> None:
        """Make the record of a response; without a count of the vendor's it is billed by its estimate."""
        meter, attempt = running.meter, running.attempt
        usage = meter.estimate if usage is None else usage
        attempt.ended = self._now()
        if isinstance(error, ProviderError):
            attempt.error = error
        meter.bill(attempt, usage, meter.cost_of(usage, self._model, self._provider))
        if self._place is None and not self._running:
            self._place = self.planner.count(self.candidates, meter.caller)
        meter.finish(usage=usage, measured=None, error=error, cancelled=cancelled)

    def _record_transcription(self, usage: Usage | None) -> None:
        """Record a transcription of the caller that the vendor makes, and bills, beside the conversation."""
        if usage is None:
            return
        name = self._transcription_model or "unknown"
        try:
            model = self.candidates.catalog.resolve(f"{self._provider.id}/{name}", "stt", self.candidates.project)
        except UnknownNameError:
            model = Model(modality="stt", provider=self._provider.id, name=name)
        meter = self._new_meter("stt", model.id, self._turn_id(self._responses + (0 if self._running else 1)))
        attempt = meter.begin_attempt(model, self._now())
        attempt.called = True
        meter.answered_by(attempt)
        meter.reservation = self.planner.count(self.candidates, meter.caller)
        meter.bill(attempt, usage, meter.cost_of(usage, model, self._provider, live=True))
        meter.finish(usage=usage, measured=None, error=None, cancelled=False)

    # ---- the end

    async def _end_responses(self) -> None:
        """Cancel what still runs for a caller who has left, and read what the vendor counts of it."""
        with trio.move_on_after(_CANCEL_WITHIN_S), suppress(GwError):
            for id_ in self._running:
                await self._session.send(_cancel(id_))
            while self._running and await self.receive() is not None:
                pass

    def _close(self, error: GwError | None) -> None:
        """Record what runs, and a session that had no response, or that failed between two of them."""
        running, self._running = self._running, {}
        for each in running.values():
            self._finish(each, None, each.refusal or error, cancelled=each.refusal is None and error is None)
        meter, self._admitted = self._admitted, None
        if meter is not None:
            self._settle(meter)
        meter = self.meter
        if meter.record is not None:
            if error is None or running or not isinstance(error, ProviderError):
                return
            meter = self._next_meter()
            meter.begin_attempt(self._model, self._now()).error = error
        meter.finish(usage=Usage(), measured=None, error=error, cancelled=error is None, cost=Cost(nusd=0, source=""))

    def _now(self) -> float:
        return self.planner.accounting.monotonic()


class _Dialled(AbstractAsyncContextManager[OpenAttempt[ConverseSession, str]]):
    """The first candidate that answers, held open."""

    def __init__(self, session: ConversingSession) -> None:
        self._session = session
        self._scope: AttemptScope[ConverseSession, str] | None = None

    def _dial(self, model: Model) -> Awaitable[OpenAttempt[ConverseSession, str]]:
        self._scope = scope = AttemptScope(self._session, model)
        return scope.__aenter__()

    async def __aenter__(self) -> OpenAttempt[ConverseSession, str]:
        return await try_in_turn(self._session.candidates.models, self._dial)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._scope is not None
        await self._scope.__aexit__(kind, error, trace)


def _cancel(response_id: str) -> str:
    return typed_frame("response.cancel", response_id=response_id)


def converses(provider: Provider, model: Model) -> bool:
    """Return whether a model hears and speaks itself."""
    offers = spec_of(provider.type).converses
    return offers is not None and offers(model.name)
