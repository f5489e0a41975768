"""Entry points of the data plane: chat, transcribe, speak, and the live sessions listen and speak_live.

Each is an async context manager around one request: entering it admits, picks a candidate and waits for its first
content; inside, the dialect reads the answer; leaving it closes the upstream and has written exactly one record,
however it is left. `Response.receive` makes the record before it lets the last event out, so whoever got the last byte
has one.

    async with relay.chat(request, caller) as response:
        while not response.done:
            send(encode(await response.receive()))
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import TypeAlias

import attrs
import trio
from msgspec.structs import replace

from gw.config.settings import Routing
from gw.errors import (
    CandidateSkipped,
    ProviderError,
    UnknownProviderError,
    UpstreamProtocolError,
)
from gw.net.prewarm import PrewarmedSockets
from gw.policy import hedge
from gw.policy.answer_times import AnswerTimes
from gw.policy.phrase_cache import PhraseCache, Take
from gw.policy.respelling import RespelledText, respelled
from gw.policy.turn_finder import TurnFinder
from gw.policy.turns import Turns
from gw.providers.spec import Account, ChatStream, ProviderSpec, SpeakStream, TranscribeStream, spec_of
from gw.registry.catalog import Model
from gw.relay import transcoding, usage_counters
from gw.relay.attempts import OpenAttempt
from gw.relay.audio_supply import PATIENCE_S
from gw.relay.cached_session import CachedSpeakingSession, can_join
from gw.relay.cached_speech import CachedCall, CachedSpeech, is_kept
from gw.relay.candidate_voice import voice_for
from gw.relay.candidates import CandidatePlanner, offered
from gw.relay.conversing import ConversingSession
from gw.relay.dial_ahead import QUIET_S, ConnectionAhead, is_warmed, low_s
from gw.relay.dial_order import served_s
from gw.relay.honoured import unsupported
from gw.relay.in_flight import InFlight
from gw.relay.in_turn import try_in_turn
from gw.relay.large_requests import TranslatedCall, is_large
from gw.relay.listening import ListeningSession
from gw.relay.prepared_call import OpenCall, PreparedCall
from gw.relay.request import AnsweredRequest
from gw.relay.request_context import RefusedAttempt
from gw.relay.request_spec import RequestSpec
from gw.relay.respelled_speech import RespelledStream, with_respelling
from gw.relay.response import Response, UsageCounter
from gw.relay.session_run import SessionRun
from gw.relay.shadowing import Shadows
from gw.relay.speaking import SpeakingSession
from gw.relay.speech_ids import SpeechIds
from gw.relay.speech_response import SpeechResponse
from gw.relay.transcoding import TranscodedCall, provider_format
from gw.relay.transcription import AnsweredTranscription, transcription_spec
from gw.relay.voice_pace import VoicePace, VoicePaces
from gw.types.audio import AudioFormat
from gw.types.conversation import ConverseRequest
from gw.types.ids import Caller, Modality
from gw.types.llm import ChatEvent, ChatRequest
from gw.types.pending import Pending
from gw.types.shadow import ShadowSettings
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage
from gw.wire.chat_messages import last_user

ChatAnswer: TypeAlias = Response[ChatStream, ChatEvent]
TranscribeAnswer: TypeAlias = Response[TranscribeStream, TranscribeEvent]
SpeakAnswer: TypeAlias = Response[SpeakStream, SpeakEvent]


class Relay:
    def __init__(
        self, planner: CandidatePlanner, turns: TurnFinder | None = None, shadow: ShadowSettings | None = None
    ) -> None:
        """`turns`: finds turns in another place than this process."""
        self.planner = planner
        self.accounting = planner.accounting
        self.turns: TurnFinder = Turns() if turns is None else turns
        self.paces = VoicePaces()
        self.answer_times = AnswerTimes(planner.routes.note_listening)
        self.in_flight = InFlight()
        self.speech_ids = SpeechIds()
        self.phrases = PhraseCache()
        self.shadows = Shadows(self.listen, self.transcribe)
        self.configure(planner.routing, shadow)

    async def run(self) -> None:
        """Run what ends late attempts and watches live transcriptions, and the shadows of calls."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.in_flight.keeper.run)
            nursery.start_soon(self.in_flight.silence.watch_sessions)
            nursery.start_soon(self.shadows.run)

    def configure(self, routing: Routing, shadow: ShadowSettings | None) -> None:
        """Put settings in force for requests that begin from now on."""
        self.shadows.settings = shadow
        self.planner.shadows = None if shadow is None else self.shadows
        self.planner.routing = routing
        self.phrases.limit(int(routing.phrase_cache_mb * 1_000_000))
        hedge_s = hedge.MIN_AFTER_S if routing.hedge == "auto" else hedge.after_s(routing.hedge, None)
        shortest_s = min(
            QUIET_S, PATIENCE_S, routing.whole_answer_s, routing.idle_s, hedge_s or math.inf, *routing.first_event_s.values()
        )
        self.in_flight.keeper.set_shortest(shortest_s)

    def chat(self, request: ChatRequest, caller: Caller) -> AbstractAsyncContextManager[ChatAnswer]:
        estimate = usage_counters.estimate_chat(request)
        spec = RequestSpec(
            modality="llm", requested=request.model, stream=request.stream, estimate=estimate, needs=request.needs, chat=request
        )
        return _Chat(self.planner, self.in_flight, self.turns, request, caller, spec)

    def transcribe(self, request: TranscribeRequest, caller: Caller) -> AbstractAsyncContextManager[TranscribeAnswer]:
        return AnsweredTranscription(self.planner, self.in_flight, self.turns, request, caller, transcription_spec(request))

    def speak(self, request: SpeakRequest, caller: Caller) -> AbstractAsyncContextManager[SpeakAnswer]:
        estimate = usage_counters.estimate_speak(request)
        spec = RequestSpec(
            modality="tts", requested=request.model, stream=True, estimate=estimate, call="speak", settings=request
        )
        return _Speech(self, request, caller, spec)

    def listen(self, request: ListenRequest, caller: Caller, *, driven: bool = True) -> SessionRun[ListeningSession]:
        """Hold a live session for the block, to be served if not `driven`. Entering raises admission errors, `receive` provider errors."""
        session = ListeningSession(self.planner, self.in_flight, self.turns, self.answer_times, request)
        return SessionRun(session, caller, driven=driven)

    def speak_live(
        self, request: SpeakLiveRequest, caller: Caller, prewarmed: PrewarmedSockets | None = None
    ) -> AbstractAsyncContextManager[SpeakingSession]:
        """Like `listen`, for speech. `prewarmed`: sockets of a caller who speaks more than once."""
        parts = (self.planner, self.in_flight, self.turns, request, prewarmed, self.paces)
        project = self.planner.current.catalog.projects.get(caller.project)
        if project is None or project.phrase_cache is None or not is_kept(project, request) or not can_join(request.format):
            return SessionRun(SpeakingSession(*parts), caller)
        return SessionRun(CachedSpeakingSession(*parts, self.phrases, project.phrase_cache), caller)

    def converse(self, request: ConverseRequest, caller: Caller) -> AbstractAsyncContextManager[ConversingSession]:
        """Hold a conversation with a model that hears and speaks itself. Entering raises admission and provider errors."""
        return ConversingSession(self.planner, self.in_flight, request).run(caller)

    def refuse_unsupported(self, request: TranscribeRequest | ListenRequest, caller: Caller) -> None:
        """Raise UnsupportedSetting if no candidate honours the settings, for a request that is made later."""
        if isinstance(request, TranscribeRequest):
            spec = transcription_spec(request)
        else:
            spec = RequestSpec(
                modality="stt", requested=request.model, stream=True, estimate=Usage(), call="listen", settings=request
            )
        if skipped := self.planner.unsupported(spec, self.planner.plan(spec, caller)):
            raise unsupported([skip for _, skip in skipped])

    def resolve(self, requested: str, modality: Modality, caller: Caller) -> tuple[Model, ...]:
        """Return the models that a request would try, in order. Raise errors about a model's name.

        For sessions whose requests come later, one by one, and for previews.
        """
        spec = RequestSpec(modality=modality, requested=requested, stream=True, estimate=Usage())
        return self.planner.plan(spec, caller).models


_LET_GO = ChatRequest(model="", fields={})
"""Stands for a request that is being answered."""


class _Chat(AnsweredRequest[ChatRequest, ChatStream, ChatEvent]):
    __slots__ = ("_text",)

    def plan(self, caller: Caller) -> None:
        """Choose the candidates. Raise the request's own error if it needs a dialect that none speaks."""
        super().plan(caller)
        if self._request.document:
            models = self.candidates.models
            self.candidates = replace(self.candidates, models=tuple(model for model in models if model.name == models[0].name))
        only = self._request.only_native
        if only is not None and not any(self._is_native(model) for model in self.candidates.models):
            raise only

    def _is_native(self, model: Model) -> bool:
        try:
            spec = spec_of(self.candidates.catalog.provider(model.provider).type)
        except UnknownProviderError:  # of another version: the candidate is passed over
            return False
        return spec.takes_natively(self._request)

    def track_turn(self) -> None:
        meter = self.meter
        if self._request.document:
            self._text = None
            return
        answer = self._turns.chat(meter.place, lambda: last_user(self._request), meter.timestamp)
        self._text = None if answer is None else answer.pieces

    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[ChatStream]:
        call, request = offered(spec.chat, account), self._request
        if request.only_native is not None and not spec.takes_natively(request):
            raise CandidateSkipped(provider=account.provider_id, reason="missing_ability", detail=request.only_native.what)
        build = partial(call, request, account)
        return partial(TranslatedCall, self.in_flight.large, build) if is_large(request.fields.values()) else build

    def first_content(self, stream: ChatStream, provider: str) -> Awaitable[list[ChatEvent]]:
        return usage_counters.first_chat(stream, provider)

    def refused_answer(self, refusal: RefusedAttempt[ChatStream, ChatEvent]) -> OpenAttempt[ChatStream, ChatEvent]:
        return OpenAttempt(refusal.call, refusal.attempt, refusal.stream, usage_counters.refusal_answer(refusal.events))

    def counter_for(self, opened: OpenAttempt[ChatStream, ChatEvent]) -> UsageCounter[ChatEvent]:
        return usage_counters.ChatCounter(self._request, self._text)

    def let_request_go(self) -> None:
        self._request = _LET_GO
        self.spec = replace(self.spec, chat=None)


class _Speech(AnsweredRequest[SpeakRequest, SpeakStream, SpeakEvent]):
    """A request for speech. When a provider fails in the middle, the response asks it for a successor."""

    __slots__ = ("_cached", "_connection", "_goes_on", "_paces", "_respelled", "_voices")

    def __init__(self, relay: Relay, request: SpeakRequest, caller: Caller, spec: RequestSpec) -> None:
        super().__init__(relay.planner, relay.in_flight, relay.turns, request, caller, spec)
        self._paces = relay.paces
        self._voices: dict[str, str] = {}  # by model id
        self._respelled: RespelledText | None = None  # what the candidate that is prepared is sent
        self._goes_on = False  # some of the speech was sent before
        self._connection: ConnectionAhead | None = None
        self._cached = CachedSpeech(relay.phrases, request, caller)

    def note_wait(self, model: Model, seconds: float) -> None:
        if not self._cached.is_hit:
            super().note_wait(model, seconds)

    def note_speed(self, model: Model, seconds: float) -> None:
        if not self._cached.is_hit:
            super().note_speed(model, seconds)

    def lease_call(self, model: Model, now: float) -> Pending:
        if (recall := self._recall(model)) is not None:
            return self._lease_after(recall, model, now)
        return None if self._take_for(model) is not None else super().lease_call(model, now)

    async def _lease_after(self, recall: Awaitable[None], model: Model, now: float) -> None:
        await recall
        if self._take_for(model) is None and (lease := super().lease_call(model, now)) is not None:
            await lease

    def _recall(self, model: Model) -> Pending:
        """Return the wait for the cached speech of a candidate from the disk or the fleet; None where neither may have it."""
        if self._goes_on or self._cached.is_in_memory or not self._cached.applies(self.candidates.project):
            return None
        with suppress(ProviderError):  # `prepare` raises it
            provider, spec, account = self.planner.endpoint(self.candidates, model)
            sent = self._sent_to(spec, account, model)
            return self._cached.recall(self.candidates.project, provider, model, self._voice_for(model), sent)
        return None

    def _take_for(self, model: Model) -> Take | None:
        """Return the cached speech for a candidate, if the project keeps such texts."""
        if self._goes_on or not self._cached.applies(self.candidates.project):
            return None
        with suppress(ProviderError):  # `prepare` raises it
            provider, spec, account = self.planner.endpoint(self.candidates, model)
            sent = self._sent_to(spec, account, model)
            return self._cached.find(self.candidates.project, provider, model, self._voice_for(model), sent)
        return None

    async def first_content(self, stream: SpeakStream, provider: str) -> list[SpeakEvent]:
        events = await usage_counters.first_audio(stream, provider, self._request.text)
        if self._goes_on and not transcoding.continues(stream.format, self._request.format):
            detail = "audio in another format than what was sent before"
            raise UpstreamProtocolError(provider=provider, detail=detail)
        return events

    def track_turn(self) -> None:
        self._turns.speech(self.meter.place, self._request.text, self.meter.timestamp)

    def prepare(self, model: Model, now: float) -> PreparedCall[SpeakStream]:
        if (take := self._take_for(model)) is not None:
            provider, spec, _ = self.planner.endpoint(self.candidates, model)
            gate = self.planner.uncalled_gate(self.candidates, model, now)
            call = PreparedCall[SpeakStream](model, provider, spec, gate, partial(CachedCall, take), cache="hit")
        else:
            call = super().prepare(model, now)
            call.cache = "miss" if self._cached.asked else ""
            call.respelled = self._respelled
        voice = self._voice_for(model)
        call.voice = None if voice == self._request.voice else voice
        return call

    def _voice_for(self, model: Model) -> str:
        """Return the voice of a candidate. Raise what `voice_for` raises."""
        voice = self._voices.get(model.id)
        if voice is None:
            voice = self._voices[model.id] = voice_for(self.candidates, self._request, model)
        return voice

    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[SpeakStream]:
        call, request, provider = offered(spec.speak, account), self._request, account.provider_id
        voice = self._voice_for(model)
        fmt = provider_format(request.format, spec, provider, request.dialect)
        same = voice == request.voice and fmt is request.format
        custom = request.custom_voice and voice == request.voice
        sent = request if same else attrs.evolve(request, voice=voice, custom_voice=custom, format=fmt)
        self._respelled = changed = self._respelled_for(spec, account, model)
        sent = sent if changed is None else attrs.evolve(sent, text=changed.sent)
        goes_on = self._goes_on
        return lambda: TranscodedCall(
            with_respelling(call(sent, account), RespelledStream, changed), request.format, provider, idle_s=self.idle_s, goes_on=goes_on
        )

    def _respelled_for(self, spec: ProviderSpec, account: Account, model: Model) -> RespelledText | None:
        """Return the whole text as a candidate is sent it; None where nothing is respelled."""
        table = self.planner.respellings.table(self.candidates, spec, account, model, self._request)
        whole = None if table is None else respelled(table, self._request.text)
        return whole if whole is not None and whole.is_changed else None

    def _sent_to(self, spec: ProviderSpec, account: Account, model: Model) -> str:
        changed = self._respelled_for(spec, account, model)
        return self._request.text if changed is None else changed.sent

    def response_for(self, opened: OpenAttempt[SpeakStream, SpeakEvent]) -> SpeechResponse:
        catalog = self.candidates.catalog
        for attempt in self.meter.attempts:  # one that was overtaken has not failed, and may go on
            if attempt is not opened.attempt and attempt.error is None:
                self.order.put_back(attempt.model)
        response = SpeechResponse(self.meter, opened, self._request, catalog, self, idle_s=self.idle_s)
        if self._cached.asked:
            response.cached = self._cached
            self._cached.record(opened.call, opened.stream.format, self._voice_for(opened.call.model))
        return response

    def counter_for(self, opened: OpenAttempt[SpeakStream, SpeakEvent]) -> UsageCounter[SpeakEvent]:
        return usage_counters.SpeakCounter(self._request, opened.stream.format, opened.call.respelled)

    # ------------------------------------------------------------------ for its response: who goes on

    def pace_of(self, model: Model) -> VoicePace:
        return self._paces.of(model.id, self._voice_for(model), self._request.speed)

    def has_others(self) -> bool:
        return self.order.has_new

    def has_any(self) -> bool:
        answering = self.meter.answering
        return answering is not None and self.order.can_follow(answering.model, served_s(answering.ready_at, trio.current_time()))

    def low_s(self) -> float:
        return low_s(self.planner.response_times, self.order.following)

    def connect_at(self, time: float | None) -> None:
        deadlines, model = self.in_flight.keeper.deadlines, self.order.following
        if self._connection is not None:
            deadlines.pop(self._connection, None)
        if time is None or model is None:
            return
        if self._connection is None:
            with suppress(ProviderError):
                _, spec, account = self.planner.endpoint(self.candidates, model)
                if is_warmed(spec, account):
                    self._connection = ConnectionAhead(self.in_flight, account)
        if self._connection is not None:
            deadlines[self._connection] = time

    async def go_on(
        self, error: ProviderError, text: str, fmt: AudioFormat
    ) -> OpenAttempt[SpeakStream, SpeakEvent]:
        """Leave the attempt that failed with `error`, and try the next ones with the remaining `text`."""
        failed, self._open = self._open, nullcontext()
        assert failed is not None
        answering = self.meter.answering
        assert answering is not None
        with suppress(ProviderError):
            await failed.__aexit__(type(error), error, error.__traceback__)
        self._connection = None
        self.order.failed(answering.model, error, served_s(answering.ready_at, trio.current_time()))
        if not self.order.has_next:
            raise error
        self._request = attrs.evolve(self._request, text=text, format=fmt)
        self._goes_on = True
        self.meter.estimate = usage_counters.estimate_speak(self._request)
        try:
            return await try_in_turn(self.order, self._try)
        except BaseException:
            self._open = nullcontext()
            raise
