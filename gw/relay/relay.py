"""The only doors of the data plane: chat, transcribe, speak.

Each is an async context manager around one request: entering it admits, picks a candidate and waits for its first
content; inside, the dialect reads the answer; leaving it closes the upstream and has written exactly one record, however
it is left. `Response.receive` makes the record before it lets the last event out, so whoever got the last byte has one.

    async with relay.chat(request, caller) as answer:
        while not answer.done:
            send(encode(await answer.receive()))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Generic, TypeAlias, TypeVar

import attrs

from gw.config.settings import CostTracking, Routing
from gw.errors import CandidateSkipped, GwError, Stopping
from gw.net.http1 import Pool
from gw.net.prewarm import PrewarmedSockets
from gw.policy import capabilities, hedge
from gw.policy.turns import Turns
from gw.providers.spec import Account, ChatStream, ProviderSpec, SpeakStream, TranscribeStream
from gw.registry.catalog import Catalog, Model
from gw.registry.current import CurrentCatalog
from gw.relay import admission, open_session, turn_tracking, usage_counters
from gw.relay.admission import Kind, caller_left, offered
from gw.relay.attempts import AttemptScope, InFlight, OpenAttempt, PreparedCall, first_ready
from gw.relay.endpoints import Endpoints
from gw.relay.limits import ProviderLimits
from gw.relay.listening import ListeningSession
from gw.relay.meter import Accounting, Meter, cost_of, price_of, total_cost
from gw.relay.response import Response, UsageCounter
from gw.relay.speaking import SpeakingSession
from gw.relay.transcoding import AsAsked, asked_of
from gw.relay.waste import Lost, Waste, times, units_of
from gw.telemetry.clock import utc_day
from gw.types.caller import Caller
from gw.types.ids import Modality
from gw.types.llm import ChatEvent, ChatRequest
from gw.types.project import Project
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage

S = TypeVar("S")
E = TypeVar("E")

Opener = Callable[[ProviderSpec, Account, Model], Callable[[], AbstractAsyncContextManager[S]]]
Follow = Callable[[OpenAttempt[S, E], Meter], tuple[Callable[[], Awaitable[list[E]]], UsageCounter[E]]]
ChatAnswer: TypeAlias = Response[ChatStream, ChatEvent]
TranscribeAnswer: TypeAlias = Response[TranscribeStream, TranscribeEvent]
SpeakAnswer: TypeAlias = Response[SpeakStream, SpeakEvent]


class Relay:
    def __init__(
        self, *, live: CurrentCatalog, pool: Pool, limits: ProviderLimits, books: Accounting, routing: Routing, cost_tracking: CostTracking
    ) -> None:
        self.limits = limits
        self.in_flight = 0
        self.turns = Turns()
        self.running = InFlight()
        self._routed: Catalog | None = None
        self._routes: dict[tuple[str, Modality, str, str, bool], tuple[Model, ...]] = {}
        self.live = live
        self._accounts = Endpoints(pool)
        self._accounts.warm(live.catalog)
        self.books = books
        self.configure(routing)
        self._refuse_unpriced = cost_tracking.on_unpriced == "refuse"

    def configure(self, routing: Routing) -> None:
        """For requests that begin from now on."""
        self.routing = routing
        self.hedge_after_s = hedge.begin_after(routing.hedge_after_ms)
        self.running.within(min(routing.whole_answer_s, routing.idle_s, *routing.first_event_s.values()))

    def chat(self, request: ChatRequest, caller: Caller) -> AbstractAsyncContextManager[ChatAnswer]:
        kind = Kind(
            modality="llm",
            requested=request.model,
            stream=request.stream,
            estimate=usage_counters.estimate_chat(request),
            needs=request.needs,
        )

        said: list[str] | None = None

        def begin(meter: Meter) -> None:
            nonlocal said
            said = turn_tracking.asks(self.turns, meter, request)

        def opener(
            spec: ProviderSpec, account: Account, model: Model
        ) -> Callable[[], AbstractAsyncContextManager[ChatStream]]:
            return partial(offered(spec.chat, account), request, account)

        return _Request(
            self,
            kind,
            caller,
            opener,
            usage_counters.first_chat,
            lambda ready, meter: (ready.stream.receive, usage_counters.ChatTally(request, said)),
            begin,
        )

    def transcribe(self, request: TranscribeRequest, caller: Caller) -> AbstractAsyncContextManager[TranscribeAnswer]:
        kind = Kind(
            modality="stt", requested=request.model, stream=request.stream, estimate=usage_counters.estimate_transcribe(request)
        )

        def opener(
            spec: ProviderSpec, account: Account, model: Model
        ) -> Callable[[], AbstractAsyncContextManager[TranscribeStream]]:
            call = offered(spec.transcribe, account)
            language = request.language or model.default_language
            made = request if language == request.language else attrs.evolve(request, language=language)
            return partial(call, made, account)

        return self._run(
            kind,
            caller,
            opener,
            usage_counters.first_transcript,
            lambda ready, meter: (
                ready.stream.receive,
                usage_counters.TranscribeTally(
                    request, ready.call.spec.rounds_audio_up_to_s, partial(turn_tracking.transcribed, self.turns, meter)
                ),
            ),
        )

    def speak(self, request: SpeakRequest, caller: Caller) -> AbstractAsyncContextManager[SpeakAnswer]:
        kind = Kind(modality="tts", requested=request.model, stream=True, estimate=usage_counters.estimate_speak(request))
        catalog = self.live.catalog

        def opener(
            spec: ProviderSpec, account: Account, model: Model
        ) -> Callable[[], AbstractAsyncContextManager[SpeakStream]]:
            call = offered(spec.speak, account)
            voice = catalog.voice(request.voice, catalog.provider(model.provider)) or model.default_voice or ""
            fmt = asked_of(request.format, spec, account.provider_id)
            same = voice == request.voice and fmt is request.format
            made = request if same else attrs.evolve(request, voice=voice, format=fmt)
            return lambda: AsAsked(call(made, account), request.format, account.provider_id, idle_s=self.routing.idle_s)

        return self._run(
            kind,
            caller,
            opener,
            usage_counters.first_audio,
            lambda ready, meter: (ready.stream.receive, usage_counters.SpeakTally(request, ready.stream.format)),
            lambda meter: turn_tracking.speaks(self.turns, meter, request.text),
        )

    def listen(self, request: ListenRequest, caller: Caller) -> AbstractAsyncContextManager[ListeningSession]:
        """A live session. Entering raises what stands against the request itself; a provider's failure comes out of `receive`."""
        return open_session.listening(self, request, caller)

    def speak_live(
        self, request: SpeakLiveRequest, caller: Caller, spares: PrewarmedSockets | None = None
    ) -> AbstractAsyncContextManager[SpeakingSession]:
        """As `listen`, for text that is spoken as it comes. `spares`: of a caller who speaks more than once."""
        return open_session.speaking(self, request, caller, spares)

    def _run(
        self,
        kind: Kind,
        caller: Caller,
        opener: Opener[S],
        first_content: Callable[[S, str], Awaitable[list[E]]],
        follow: Follow[S, E],
        begin: Callable[[Meter], None] = lambda meter: None,
    ) -> AbstractAsyncContextManager[Response[S, E]]:
        return _Request(self, kind, caller, opener, first_content, follow, begin)

    def check(self, requested: str, modality: Modality, caller: Caller) -> None:
        """Raises what stands against a model's name. For sessions whose requests come later, one by one."""
        kind = Kind(modality=modality, requested=requested, stream=True, estimate=Usage())
        catalog = self.live.catalog
        self.candidates(catalog, kind, catalog.project(caller.project), caller)

    def candidates(self, catalog: Catalog, kind: Kind, project: Project, caller: Caller) -> tuple[Model, ...]:
        """Who may answer, the model asked for first. Looked up once per catalog; raises what `Catalog.resolve` raises."""
        if catalog is not self._routed:
            self._routed, self._routes = catalog, {}
        key = (kind.requested, kind.modality, project.id, caller.dialect, caller.fallback)
        found = self._routes.get(key)
        if found is None:
            model = catalog.resolve(kind.requested, kind.modality, project, dialect_provider=caller.dialect)
            found = catalog.candidates(model, project, fallback=caller.fallback)
            self._routes[key] = found  # only names that resolve, so callers cannot fill it
        if caller.candidates and caller.fallback:
            named = (catalog.resolve(n, kind.modality, project, dialect_provider=caller.dialect) for n in caller.candidates)
            found = tuple(dict.fromkeys((found[0], *named)))
        return found

    def lost(self, meter: Meter, catalog: Catalog) -> Lost:
        """What the attempts that gave no content used and cost, each noted on its own: what was sent to them, where a vendor
        may charge for it."""
        estimate = meter.estimate
        sent = Usage(
            input_tokens=estimate.input_tokens,
            audio_seconds=estimate.audio_seconds,
            characters=estimate.characters,
            source="estimated",
        )
        marks = meter.lost
        for mark in marks:
            provider = catalog.provider(mark.model.provider)
            mark.usage = sent
            mark.cost = cost_of(self.books.book, sent, mark.model, provider, meter.day)
        cost = total_cost([mark.cost for mark in marks])
        return Lost(times(sent, len(marks)), cost, Waste(units_of(meter.modality, sent) * len(marks), cost.nusd))

    def patience(self, kind: Kind) -> float:
        """Seconds until the first content; where the answer comes whole, that is all of it."""
        return self.routing.first_event_s[kind.modality] if kind.stream else self.routing.whole_answer_s

    def admit(self, meter: Meter, kind: Kind, catalog: Catalog, model: Model, project: Project) -> None:
        estimate = cost_of(self.books.book, kind.estimate, model, catalog.provider(model.provider), meter.day).nusd
        meter.estimate = kind.estimate
        meter.estimate_nusd = estimate
        meter.reservation = admission.admit(
            self.books.ledger, project, estimate or 0, store_accepts=self.books.records.accepting
        )

    def prepare(
        self, catalog: Catalog, model: Model, project: Project, kind: Kind, opener: Opener[S], now: float
    ) -> PreparedCall[S]:
        """Account, abilities and gate of one candidate. Raises ProviderError to have it passed over."""
        provider, spec, account = self._accounts.get(catalog, model, project)
        if kind.needs and (lacking := capabilities.missing(spec.abilities, kind.needs)):
            raise CandidateSkipped(
                provider=provider.id, reason="missing_ability", detail="cannot do " + ", ".join(sorted(lacking))
            )
        if (
            self._refuse_unpriced
            and provider.location != "local"
            and price_of(self.books.book, model, provider, utc_day(self.books.clock.now()), live=True) is None
        ):
            raise CandidateSkipped(
                provider=provider.id, reason="unpriced", detail="no price known and cost_tracking.on_unpriced is refuse"
            )
        call = opener(spec, account, model)
        gate = self.limits.gate(provider, now, owner=project.id if provider.id in project.provider_keys else "")
        gate.enter(now)
        return PreparedCall(model, provider, spec, gate, call)


class _Request(AbstractAsyncContextManager["Response[S, E]"], Generic[S, E]):
    """One request: entering admits it and finds who answers, leaving it has written its record.

    Raises, without a record, what `Catalog.project` and `Catalog.resolve` raise: there is no model to write it to.
    """

    __slots__ = (
        "_answer", "_begin", "_caller", "_catalog", "_follow", "_kind", "_open", "_opener", "_project", "_relay",
        "first_content", "first_event_s", "meter", "running",
    )  # fmt: skip

    def __init__(
        self,
        relay: Relay,
        kind: Kind,
        caller: Caller,
        opener: Opener[S],
        first_content: Callable[[S, str], Awaitable[list[E]]],
        follow: Follow[S, E],
        begin: Callable[[Meter], None],
    ) -> None:
        self._relay = relay
        self._kind = kind
        self._caller = caller
        self._opener = opener
        self.first_content = first_content
        self.first_event_s = relay.patience(kind)
        self.running = relay.running
        self._follow = follow
        self._begin = begin
        self._answer: Response[S, E] | None = None
        self._open: AbstractAsyncContextManager[OpenAttempt[S, E]] | None = None

    def prepare(self, model: Model, now: float) -> PreparedCall[S]:
        return self._relay.prepare(self._catalog, model, self._project, self._kind, self._opener, now)

    async def __aenter__(self) -> Response[S, E]:
        relay, kind, caller = self._relay, self._kind, self._caller
        self._catalog = catalog = relay.live.catalog
        self._project = project = catalog.project(caller.project)
        models = relay.candidates(catalog, kind, project, caller)
        self.meter = meter = Meter(relay.books, caller, kind.modality, models[0].id, stream=kind.stream)
        self._begin(meter)
        relay.in_flight += 1
        try:
            relay.admit(meter, kind, catalog, models[0], project)
            self._open = opening = first_ready(models, partial(AttemptScope, self), hedge_after_s=relay.hedge_after_s)
            ready = await opening.__aenter__()
        except BaseException as error:
            self._end(error)
            raise
        meter.answered_by(ready.mark)
        books, idle_s = relay.books, relay.routing.idle_s
        receive, counted = self._follow(ready, meter)
        lost = partial(relay.lost, meter, catalog)  # not of ourselves, who hold the answer: a cycle per request
        self._answer = Response(
            meter, ready, receive, counted, lost=lost, book=books.book, records=books.records, idle_s=idle_s
        )
        return self._answer

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
        answer = self._answer
        self._open = self._answer = None  # they know us: else a cycle per request
        self._relay.in_flight -= 1
        if raised is None and self.meter.record is not None:
            return
        error = raised if isinstance(raised, GwError) else None
        if error is None and not caller_left(raised):
            error = GwError()
        elif error is None and raised is not None and self._relay.running.stopping:
            error = Stopping()  # cut while it waited for a slow caller, which no upstream tells
        if answer is not None:
            if raised is not None or not answer.held:
                answer.close(error=error, cancelled=error is None)
            return
        lost = self._relay.lost(self.meter, self._catalog)
        self.meter.finish(
            usage=lost.usage, measured=None, cost=lost.cost, error=error, cancelled=error is None, waste=lost.waste
        )
