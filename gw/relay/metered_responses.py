"""The records of the responses that a model makes in a conversation: each is admitted, measured, and billed.

Where the vendor bills the duration of the session (`PaidDuration`), there is always an open meter: the next response takes over the one
of the time since the last response, money is reserved ahead as long as the session lasts, and what is left at its end is a record like
that of a session without a response.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import msgspec
import trio

from gw.errors import GwError, ProviderError, UnknownNameError
from gw.pricing.stand_in import CONVERSATION_STAND_IN
from gw.registry.catalog import Model, Provider
from gw.relay.admission import Reservation
from gw.relay.attempt import Attempt
from gw.relay.candidates import CandidatePlanner
from gw.relay.in_flight import InFlight
from gw.relay.meter import Meter
from gw.relay.paid_duration import AHEAD_S, PaidDuration, duration_cost, reserved_nusd
from gw.relay.request_context import RequestContext
from gw.relay.request_spec import RequestSpec
from gw.types.conversation import ConversationEvent, ConverseSession, Frame
from gw.types.ids import Caller, Modality
from gw.types.usage import NO_DIMENSIONS, Cost, Usage, has_units

_FIRST_RESPONSE = Usage(input_tokens=1_000, input_audio_tokens=300, output_tokens=400, output_audio_tokens=300, source="estimated")
"""Reserved for the first response; for each other one, what the one before it used."""


class _Running(msgspec.Struct, eq=False):
    """A response that the vendor is making."""

    meter: Meter
    attempt: Attempt
    refusal: GwError | None = None
    """The limit for which it was cancelled."""


class MeteredResponses(RequestContext[ConverseSession, Frame]):
    """The money of a session; `ConversingSession` has its frames."""

    first_event = "session"
    pays_for_hedges = False  # only a handshake
    _model: Model
    _provider: Provider
    _session: ConverseSession

    def __init__(self, planner: CandidatePlanner, in_flight: InFlight, model: str) -> None:
        spec = RequestSpec(modality="llm", requested=model, stream=True, estimate=_FIRST_RESPONSE, call="converse")
        super().__init__(planner, in_flight, spec, planner.routing.first_event_s["llm"])
        self._running: dict[str, _Running] = {}
        self._admitted: Meter | None = None
        """The meter of a response that the caller has requested and the vendor has not begun."""
        self._place: Reservation | None = None
        """The session's place among the requests at once, while no response has it."""
        self._began: float | None = None
        """When the wait for the next response began: at the end of the caller's turn, or with its request."""
        self._transcription_model = ""
        self._responses = 0
        self.ignored: tuple[str, ...] = ()
        """Settings and events of the caller that the vendor cannot take, for the records of what comes."""
        self.voice: str | None = None
        """The vendor's voice, where it is not the one that the caller names."""
        self._paid: PaidDuration | None = None
        """Duration and messages that the vendor bills, if it bills those."""
        self._waiting: Meter | None = None
        """The meter of the time since the last response, where that is billed; the next response takes it over."""

    @property
    def is_busy(self) -> bool:
        """Return whether the caller waits for a response."""
        return bool(self._running) or self._admitted is not None

    async def _wait_for_room(self, caller: Caller, estimate_nusd: int, *, has_place: bool) -> None:
        if (room := self.planner.room(self.candidates, caller, estimate_nusd, has_place=has_place)) is not None:
            await room

    # ---- responses

    async def _admit_response(self, meter: Meter) -> None:
        """Reserve money for a response, which takes over the session's place. Raise the limit that stands against it.

        Where the duration is billed, money is reserved already.
        """
        if self._paid is not None:
            if meter.reservation is None:
                meter.reservation, self._place = self._place or self.planner.count(self.candidates, meter.caller), None
            await self._wait_for_room(meter.caller, 0, has_place=True)
            self.planner.count_response(meter.caller)
            return
        estimate_nusd = self.planner.estimate(meter, self.spec, self.candidates)
        await self._wait_for_room(meter.caller, estimate_nusd, has_place=self._place is not None)
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
        """Return the meter of the next response: that of the session for the first one, and one that waits for a response."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            return waiting
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
        """Begin to measure a response. One against which a limit stands is cancelled; its record says so.

        Raise the limit at once where the vendor takes no cancellation: then only the end of the session ends the response.
        """
        refusal: GwError | None = None
        is_cancelled = False
        if self._paid is not None:  # such a vendor makes one response at a time, and gives one up without an event
            for abandoned in (self._running.pop(running) for running in tuple(self._running)):
                self._finish(abandoned, None, abandoned.refusal, cancelled=True)
        meter, self._admitted = self._admitted, None
        if meter is None:
            meter = self._next_meter()
            try:
                await self._admit_response(meter)
            except GwError as error:
                refusal = error
                if meter.reservation is None:
                    meter.reservation = self.planner.count(self.candidates, meter.caller)
                self._leave_place()
                is_cancelled = await self._cancel(id_)
        now = self._now()
        began, self._began = now if self._began is None else self._began, None
        self._responses += 1
        if meter.attempts:
            attempt = meter.attempts[-1]
            meter.begin_now(began, self.spec.estimate)
        else:
            meter.timestamp -= now - began
            meter.started = began
            attempt = meter.begin_attempt(self._model, began)
        if self._paid is None:  # else what was used until now has been noted
            meter.notes_input = False
            meter.calling(attempt, self._model)
        else:
            attempt.called = True
        attempt.ignored_settings, attempt.voice = self.ignored, self.voice
        self._running[id_] = _Running(meter, attempt, refusal)
        if refusal is not None and not is_cancelled:
            raise refusal

    async def _cancel(self, id_: str) -> bool:
        """Have the vendor end a response. Return False if it takes no message that does so."""
        frame = self._session.reader.cancel(id_)
        if frame is None:
            return False
        with suppress(ProviderError):  # the task that reads the vendor meets it, too
            await self._session.send(frame)
        return True

    def _end(self, event: ConversationEvent) -> None:
        """Record a response that has ended. Raise the limit for which it was cancelled."""
        running = self._running.pop(event.response_id, None)
        if running is None:
            return
        error: GwError | None = running.refusal or event.error
        self._finish(running, event.usage, error, cancelled=error is None and event.is_cancelled)
        if (usage := event.usage) is not None:
            self.spec = msgspec.structs.replace(self.spec, estimate=msgspec.structs.replace(usage, source="estimated"))
        if running.refusal is not None:
            raise running.refusal

    def _finish(self, running: _Running, usage: Usage | None, error: GwError | None, *, cancelled: bool) -> None:
        """Make the record of a response; without a count of the vendor's it is billed by its estimate, or by its duration."""
        meter, attempt = running.meter, running.attempt
        if self._paid is not None:
            usage = self._paid.take(self._now(), usage)
        elif usage is None:
            usage = meter.estimate
        attempt.ended = self._now()
        if isinstance(error, ProviderError):
            attempt.error = error
        self._bill(meter, attempt, usage)
        if self._place is None and not self._running:
            self._place = self.planner.count(self.candidates, meter.caller)
        meter.finish(usage=usage, measured=None, error=error, cancelled=cancelled)

    def _bill(self, meter: Meter, attempt: Attempt, usage: Usage) -> None:
        price = meter.cost_of if self._paid is None else partial(duration_cost, meter)
        meter.bill(attempt, usage, price(usage, self._model, self._provider))

    # ---- the duration, where it is billed

    async def keep_reserved(self) -> None:
        """Reserve money ahead as long as the session lasts, where its duration is billed. Raise the limit that stands against it."""
        while self._paid is not None:
            await trio.sleep(AHEAD_S)
            await self._reserve_ahead()

    async def _reserve_ahead(self) -> None:
        """Reserve what was used since the last record and what the next seconds cost, and note in the journal what was used."""
        meter = self._waiting or self._admitted or next((running.meter for running in self._running.values()), None)
        if self._paid is None or meter is None or meter.reservation is None:
            return
        used, ahead = self._paid.due(self._now()), self._paid.due(self._now(), AHEAD_S)
        more_nusd = max(0, reserved_nusd(meter, ahead, self._model, self._provider) - meter.reservation.nusd)
        await self._wait_for_room(meter.caller, more_nusd, has_place=True)
        if meter.record is None:  # it may have ended meanwhile
            used_nusd = reserved_nusd(meter, used, self._model, self._provider)
            self.planner.admit_more(meter, self.candidates, more_nusd, used_nusd)
            meter.note_input(meter.attempts[-1], used, duration_cost(meter, used, self._model, self._provider))

    async def _begin_waiting(self) -> None:
        """Open the meter of the time until the next response, where that is billed."""
        if self._paid is None or self._running or self._waiting is not None or self._admitted is not None:
            return
        meter = self._next_meter()
        meter.notes_input, meter.stand_in_price = True, CONVERSATION_STAND_IN
        meter.reservation, self._place = self._place, None
        meter.calling(meter.begin_attempt(self._model, self._now()), self._model)
        self._waiting = meter
        await self._reserve_ahead()

    def _close_waiting(self, paid: PaidDuration, error: GwError | None) -> None:
        """Record the time since the last response. Where none of it is billed, only a failure or a session without a response is noted."""
        meter, self._waiting, self._admitted = self._waiting or self._admitted, None, None
        if meter is None:
            return
        usage, attempt = paid.take(self._now(), None), meter.attempts[-1]
        if meter is not self.meter and error is None and not has_units(usage) and usage.dimensions is NO_DIMENSIONS:
            self._settle(meter)
            return
        attempt.ended = self._now() if attempt.ended is None else attempt.ended
        if isinstance(error, ProviderError):
            attempt.error = error
        self._bill(meter, attempt, usage)
        meter.finish(usage=usage, measured=None, error=error, cancelled=error is None)

    # ---- transcriptions beside the conversation

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

    def close(self, error: GwError | None) -> None:
        """Record what runs, and a session that had no response, or that failed between two of them."""
        running, self._running = self._running, {}
        for id_, each in running.items():
            counted = self._session.reader.counted(id_)
            self._finish(each, counted, each.refusal or error, cancelled=each.refusal is None and error is None)
        if self._paid is not None:
            self._close_waiting(self._paid, error)
            return
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

