"""Entry points of the data plane: chat, transcribe, speak, and the live sessions listen and speak_live.

Each is an async context manager around one request: entering it admits, picks a candidate and waits for its first
content; inside, the dialect reads the answer; leaving it closes the upstream and has written exactly one record, however
it is left. `Response.receive` makes the record before it lets the last event out, so whoever got the last byte has one.

    async with relay.chat(request, caller) as response:
        while not response.done:
            send(encode(await response.receive()))
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Generic, TypeAlias, TypeVar

import attrs

from gw.config.settings import CostTracking, Routing
from gw.net.http1 import Pool
from gw.net.prewarm import PrewarmedSockets
from gw.policy.turns import Turns
from gw.providers.spec import Account, ChatStream, ProviderSpec, SpeakStream, TranscribeStream
from gw.registry.catalog import Model
from gw.registry.current import CurrentCatalog
from gw.relay import turn_tracking, usage_counters
from gw.relay.admission import RequestSpec
from gw.relay.attempts import AttemptScope, InFlight, OpenAttempt, first_ready
from gw.relay.candidates import CandidatePlanner, Candidates, Opener, PreparedCall, offered
from gw.relay.limits import ProviderLimits
from gw.relay.listening import ListeningSession
from gw.relay.live_session import SessionPlan
from gw.relay.meter import Accounting, Meter, record_error
from gw.relay.response import EventStream, Response, UsageCounter
from gw.relay.speaking import SpeakingSession
from gw.relay.transcoding import TranscodedCall, provider_format
from gw.types.caller import Caller
from gw.types.ids import Modality
from gw.types.llm import ChatEvent, ChatRequest
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage

S = TypeVar("S", bound=EventStream)
E = TypeVar("E")

FirstContent: TypeAlias = Callable[[S, str], Awaitable[list[E]]]
CounterFor: TypeAlias = Callable[[OpenAttempt[S, E], Meter], UsageCounter[E]]
"""Makes the counter of an answer whose first content has come."""
ChatAnswer: TypeAlias = Response[ChatStream, ChatEvent]
TranscribeAnswer: TypeAlias = Response[TranscribeStream, TranscribeEvent]
SpeakAnswer: TypeAlias = Response[SpeakStream, SpeakEvent]


class Relay:
    def __init__(
        self,
        *,
        live: CurrentCatalog,
        pool: Pool,
        limits: ProviderLimits,
        accounting: Accounting,
        routing: Routing,
        cost_tracking: CostTracking,
    ) -> None:
        self.live = live
        self.limits = limits
        self.accounting = accounting
        self.turns = Turns()
        self.in_flight = InFlight()
        self.planner = CandidatePlanner(live, pool, limits, accounting, cost_tracking)
        self.configure(routing)

    def configure(self, routing: Routing) -> None:
        """Put the routing settings in force for requests that begin from now on."""
        self.routing = routing
        self.hedge_after_s = math.inf if routing.hedge_after_ms is None else routing.hedge_after_ms / 1000
        shortest_s = min(routing.whole_answer_s, routing.idle_s, *routing.first_event_s.values())
        self.in_flight.keeper.set_shortest(shortest_s)

    def chat(self, request: ChatRequest, caller: Caller) -> AbstractAsyncContextManager[ChatAnswer]:
        spec = RequestSpec(
            modality="llm",
            requested=request.model,
            stream=request.stream,
            estimate=usage_counters.estimate_chat(request),
            needs=request.needs,
        )
        text: list[str] | None = None

        def begin(meter: Meter) -> None:
            nonlocal text
            text = turn_tracking.chat_begins(self.turns, meter, request)

        def opener(
            spec: ProviderSpec, account: Account, model: Model
        ) -> Callable[[], AbstractAsyncContextManager[ChatStream]]:
            return partial(offered(spec.chat, account), request, account)

        return _Request(
            self,
            spec,
            caller,
            opener,
            usage_counters.first_chat,
            lambda opened, meter: usage_counters.ChatCounter(request, text),
            begin,
        )

    def transcribe(self, request: TranscribeRequest, caller: Caller) -> AbstractAsyncContextManager[TranscribeAnswer]:
        estimate = usage_counters.estimate_transcribe(request)
        spec = RequestSpec(modality="stt", requested=request.model, stream=request.stream, estimate=estimate)

        def opener(
            spec: ProviderSpec, account: Account, model: Model
        ) -> Callable[[], AbstractAsyncContextManager[TranscribeStream]]:
            call = offered(spec.transcribe, account)
            language = request.language or model.default_language
            sent = request if language == request.language else attrs.evolve(request, language=language)
            return partial(call, sent, account)

        def counter(
            opened: OpenAttempt[TranscribeStream, TranscribeEvent], meter: Meter
        ) -> UsageCounter[TranscribeEvent]:
            on_text = partial(turn_tracking.recording_transcribed, self.turns, meter)
            return usage_counters.TranscribeCounter(request, opened.call.spec.rounds_audio_up_to_s, on_text)

        return _Request(self, spec, caller, opener, usage_counters.first_transcript, counter)

    def speak(self, request: SpeakRequest, caller: Caller) -> AbstractAsyncContextManager[SpeakAnswer]:
        estimate = usage_counters.estimate_speak(request)
        spec = RequestSpec(modality="tts", requested=request.model, stream=True, estimate=estimate)
        catalog = self.live.catalog

        def opener(
            spec: ProviderSpec, account: Account, model: Model
        ) -> Callable[[], AbstractAsyncContextManager[SpeakStream]]:
            call = offered(spec.speak, account)
            voice = catalog.voice(request.voice, catalog.provider(model.provider)) or model.default_voice or ""
            fmt = provider_format(request.format, spec, account.provider_id)
            same = voice == request.voice and fmt is request.format
            sent = request if same else attrs.evolve(request, voice=voice, format=fmt)
            idle_s = self.routing.idle_s
            return lambda: TranscodedCall(call(sent, account), request.format, account.provider_id, idle_s=idle_s)

        return _Request(
            self,
            spec,
            caller,
            opener,
            usage_counters.first_audio,
            lambda opened, meter: usage_counters.SpeakCounter(request, opened.stream.format),
            lambda meter: turn_tracking.speech_begins(self.turns, meter, request.text),
        )

    @asynccontextmanager
    async def listen(self, request: ListenRequest, caller: Caller) -> AsyncIterator[ListeningSession]:
        """Hold a live session for the block. Entering raises admission errors; `receive` raises a provider's failure."""
        session = ListeningSession(request, self._session_plan("stt", request.model, caller), self.turns)
        async with session.run():
            yield session

    @asynccontextmanager
    async def speak_live(
        self, request: SpeakLiveRequest, caller: Caller, prewarmed: PrewarmedSockets | None = None
    ) -> AsyncIterator[SpeakingSession]:
        """Like `listen`, for text that is spoken as it comes. `prewarmed`: sockets of a caller who speaks more than once."""
        plan = self._session_plan("tts", request.model, caller)
        session = SpeakingSession(
            request, plan, self.turns, prewarmed, first_audio_s=self.routing.first_event_s["tts"]
        )
        async with session.run():
            yield session

    def _session_plan(self, modality: Modality, model: str, caller: Caller) -> SessionPlan:
        return SessionPlan(self.planner, self.in_flight, modality, model, caller, idle_s=self.routing.idle_s)

    def check(self, requested: str, modality: Modality, caller: Caller) -> None:
        """Raise errors about a model's name. For sessions whose requests come later, one by one."""
        self.planner.plan(RequestSpec(modality=modality, requested=requested, stream=True, estimate=Usage()), caller)


class _Request(AbstractAsyncContextManager["Response[S, E]"], Generic[S, E]):
    """One request: entering admits it and finds the candidate that answers, leaving it has written its record.

    Raises, without a record, what `CandidatePlanner.plan` raises: there is no model to write it to.
    """

    __slots__ = (
        "_begin", "_caller", "_candidates", "_counter_for", "_open", "_opener", "_relay", "_response", "_spec",
        "first_content", "first_event_s", "in_flight", "meter",
    )  # fmt: skip

    first_event = "content"

    def __init__(
        self,
        relay: Relay,
        spec: RequestSpec,
        caller: Caller,
        opener: Opener[S],
        first_content: FirstContent[S, E],
        counter_for: CounterFor[S, E],
        begin: Callable[[Meter], None] | None = None,
    ) -> None:
        """`begin` is called before admission."""
        self._relay = relay
        self._spec = spec
        self._caller = caller
        self._opener = opener
        self._counter_for = counter_for
        self._begin = begin
        self._response: Response[S, E] | None = None
        self._open: AbstractAsyncContextManager[OpenAttempt[S, E]] | None = None
        self.first_content = first_content
        routing = relay.routing  # without a stream the first content is all of it
        self.first_event_s = routing.first_event_s[spec.modality] if spec.stream else routing.whole_answer_s
        self.in_flight = relay.in_flight

    def prepare(self, model: Model, now: float) -> PreparedCall[S]:
        return self._relay.planner.prepare(self._spec, self._candidates, model, self._opener, now)

    async def __aenter__(self) -> Response[S, E]:
        relay, spec, planner = self._relay, self._spec, self._relay.planner
        self._candidates: Candidates
        self._candidates = candidates = planner.plan(spec, self._caller)
        models = candidates.models
        self.meter = meter = Meter(relay.accounting, self._caller, spec.modality, models[0].id, stream=spec.stream)
        if self._begin is not None:
            self._begin(meter)
        self.in_flight.requests += 1
        try:
            planner.admit(meter, spec, candidates)
            self._open = opening = first_ready(models, partial(AttemptScope, self), hedge_after_s=relay.hedge_after_s)
            opened = await opening.__aenter__()
        except BaseException as error:
            self._end(error)
            raise
        meter.answered_by(opened.attempt)
        counter = self._counter_for(opened, meter)
        self._response = Response(meter, opened, counter, candidates.catalog, idle_s=relay.routing.idle_s)
        return self._response

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
        unanswered = meter.bill_unanswered_calls(self._candidates.catalog)
        meter.finish(
            usage=unanswered.usage,
            measured=None,
            cost=unanswered.cost,
            error=error,
            cancelled=error is None,
            waste=unanswered.waste,
        )
