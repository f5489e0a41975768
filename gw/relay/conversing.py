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
The first response takes over the meter that dialled; a session without any response has that one's record (`MeteredResponses`).
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Self

import msgspec
import trio

from gw.errors import GwError, ProviderError, UpstreamCut, UpstreamSlow
from gw.pricing.stand_in import CONVERSATION_STAND_IN
from gw.providers.spec import Account, ProviderSpec, spec_of
from gw.registry.catalog import Model, Provider
from gw.relay.attempts import AttemptScope, OpenAttempt
from gw.relay.candidates import CandidatePlanner, offered
from gw.relay.in_flight import InFlight
from gw.relay.in_turn import try_in_turn
from gw.relay.metered_responses import MeteredResponses
from gw.relay.paid_duration import PaidDuration
from gw.relay.prepared_call import OpenCall
from gw.relay.session_run import SessionRecording
from gw.types.conversation import (
    ConversationDialect,
    ConversationEvent,
    ConverseRequest,
    ConverseSession,
    Frame,
    ResumableSession,
)
from gw.types.ids import Caller

_CANCEL_WITHIN_S = 2.0  # time for the vendor to end a response that was cancelled, and to say what it has used


class ConversingSession(MeteredResponses):
    def __init__(self, planner: CandidatePlanner, in_flight: InFlight, request: ConverseRequest) -> None:
        super().__init__(planner, in_flight, request.model)
        self._request = request
        self._last_frame_at = 0.0
        """When the vendor sent something that is no sign of life alone, or the caller asked for a response."""
        self._first_events: Sequence[ConversationEvent] = ()
        self._receiving = trio.CancelScope()
        """Around the wait for the vendor's next frame."""
        self.opening: Sequence[Frame] = ()
        """Frames that came while the session was opened."""

    @asynccontextmanager
    async def run(self, caller: Caller) -> AsyncIterator[Self]:
        """Admit the session, dial a vendor and hold it for the block; leaving writes the records of what still runs."""
        try:
            with SessionRecording(self, caller):
                await self._admit_session(caller)
                async with _Dialled(self) as opened:
                    self._use(opened)
                    await self._reserve_ahead()
                    try:
                        yield self
                    except OSError:  # the caller's connection broke
                        await self._end_responses()
                        raise
                    await self._end_responses()
        finally:
            self._leave_place()  # last: a record may need a place once more

    def plan(self, caller: Caller) -> None:
        """Choose the candidates that hear and speak themselves, in the caller's dialect. Raise what `CandidatePlanner.plan` raises."""
        session_id = caller.session_id or caller.request_id
        super().plan(msgspec.structs.replace(caller, session_id=session_id, turn_id=caller.turn_id or caller.request_id))
        catalog = self.candidates.catalog
        dialect = self._request.dialect
        models = tuple(model for model in self.candidates.models if converses(catalog.provider(model.provider), model, dialect))
        self.candidates = msgspec.structs.replace(self.candidates, models=models)

    async def _admit_session(self, caller: Caller) -> None:
        planner, meter = self.planner, self.meter
        estimate_nusd = planner.estimate(meter, self.spec, self.candidates)
        if (room := planner.room(self.candidates, caller, estimate_nusd)) is not None:
            await room
        planner.admit(meter, self.candidates, 0)
        self._place, meter.reservation = meter.reservation, None

    def _use(self, opened: OpenAttempt[ConverseSession, Frame]) -> None:
        self._model, self._provider, self._session = opened.call.model, opened.call.provider, opened.stream
        self._attempt = opened.attempt
        self.opening = first = opened.take_events()
        self._last_frame_at = now = self._now()
        if (counter := opened.call.spec.converse_counter) is not None:
            self._paid, self._waiting = PaidDuration(counter(), now), self.meter
            self.meter.reservation, self._place = self._place, None
            self.meter.stand_in_price = CONVERSATION_STAND_IN
        for event in self._first_events:
            self._note_settings(event)
        for frame in first:
            if self._paid is not None:
                self._paid.received(frame, now)

    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[ConverseSession]:
        call, request = offered(spec.converse, account), self._request
        return lambda: call(request, account)

    async def first_content(self, stream: ConverseSession, provider: str) -> list[Frame]:
        """Read the first event. Raise the error that it may be."""
        frame = await stream.receive()
        if frame is None:
            raise UpstreamCut(provider=provider, detail="closed the session before its first event")
        self._first_events = stream.reader.received(frame)
        for event in self._first_events:
            if event.error is not None:
                raise event.error
        return [frame]

    # ---- the caller's frames

    @property
    def provider_id(self) -> str:
        return self._provider.id

    @property
    def model_name(self) -> str:
        """Return the vendor's name of the model that holds the conversation."""
        return self._model.name

    async def expect_response(self) -> None:
        """Admit a response that the caller requests with its next frames. Raise the limit that stands against it."""
        if self._admitted is None:
            meter = self._next_meter()
            await self._admit_response(meter)
            self._admitted = meter
        self._began = self._last_frame_at = self._now()
        self._limit_silence()

    async def reopen(self, first: Sequence[Frame]) -> None:
        """Go on in another session of the vendor, which `receive` opens with these frames."""
        assert isinstance(self._session, ResumableSession)
        await self._session.reopen(first)

    async def send(self, frame: Frame) -> None:
        """Pass on a frame. Raise ClientProtocolError, or the limit that stands against a response; the session goes on."""
        reader = self._session.reader
        waited_s = reader.patience_s
        step = reader.sent(frame)
        if step == "asks":
            await self.expect_response()
        elif step == "ends_turn":
            self._began = self._now()
        if waited_s == math.inf:  # the vendor may have waited for this frame
            self._last_frame_at = self._now()
        self._limit_silence()
        frame = reader.for_vendor(frame, self._model.name)
        with suppress(ProviderError):  # the task that reads the vendor meets it, too
            await self._session.send(frame)
        if self._paid is not None:
            self._paid.sent(frame)

    # ---- the vendor's frames

    async def receive(self) -> Frame | None:
        """Return the vendor's next frame; None when it has closed the session normally. Raise ProviderError, or a limit."""
        with trio.CancelScope() as self._receiving:
            self._limit_silence()
            frame = await self._session.receive()
            if frame is not None:
                if self._paid is not None:
                    self._paid.received(frame, self._now())
                for event in self._session.reader.received(frame):
                    await self._note(event)
            return frame
        for running in self._running.values():
            if running.refusal is not None:
                raise running.refusal
        raise UpstreamSlow(provider=self._provider.id, after_s=self.idle_s, detail=f"silent for {self.idle_s:g} s in a response")

    def _limit_silence(self) -> None:
        """Set for how long the vendor may be silent from now on, also where that is being waited for already."""
        within_s = math.inf
        if any(running.refusal for running in self._running.values()):
            within_s = _CANCEL_WITHIN_S
        elif self.is_busy:
            within_s = self._last_frame_at + self.idle_s + self._session.reader.patience_s - self._now()
        self._receiving.deadline = trio.current_time() + max(0.0, within_s)

    async def _note(self, event: ConversationEvent) -> None:
        if event.kind != "alive":
            self._last_frame_at = self._now()
        match event.kind:
            case "content":
                running = self._running.get(event.response_id)
                if running is not None and running.attempt.ready_at is None:
                    running.meter.answered_by(running.attempt)
            case "speech_ended":
                self._began = self._now() if self._began is None else self._began
            case "began":
                await self._begin(event.response_id)
            case "ended":
                self._end(event)
                await self._begin_waiting()
            case "transcribed":
                self._record_transcription(event.usage)
            case _:
                self._note_settings(event)

    def _note_settings(self, event: ConversationEvent) -> None:
        if event.transcription_model is not None:
            self._transcription_model = event.transcription_model

    # ---- the end

    async def _end_responses(self) -> None:
        """Cancel what still runs for a caller who has left, where the vendor can, and read what it counts of it."""
        with trio.move_on_after(_CANCEL_WITHIN_S), suppress(GwError):
            for id_ in self._running:
                await self._cancel(id_)
            while self._running and await self.receive() is not None:
                pass


class _Dialled(AbstractAsyncContextManager[OpenAttempt[ConverseSession, Frame]]):
    """The first candidate that answers, held open."""

    def __init__(self, session: ConversingSession) -> None:
        self._session = session
        self._scope: AttemptScope[ConverseSession, Frame] | None = None

    def _dial(self, model: Model) -> Awaitable[OpenAttempt[ConverseSession, Frame]]:
        self._scope = scope = AttemptScope(self._session, model)
        return scope.__aenter__()

    async def __aenter__(self) -> OpenAttempt[ConverseSession, Frame]:
        return await try_in_turn(self._session.candidates.models, self._dial)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._scope is not None
        await self._scope.__aexit__(kind, error, trace)


def converses(provider: Provider, model: Model, dialect: ConversationDialect = "openai") -> bool:
    """Return whether a model hears and speaks itself, in a protocol."""
    spec = spec_of(provider.type)
    return spec.converses is not None and spec.converse_dialect == dialect and spec.converses(model.name)
