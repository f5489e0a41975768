"""The only doors of the data plane: chat, transcribe, speak.

Each is an async context manager around one request: entering it admits, picks a candidate and waits for its first
content; inside, the dialect reads the answer; leaving it closes the upstream and has written exactly one record, however
it is left. `Answer.receive` makes the record before it lets the last event out, so whoever got the last byte has one.

    async with relay.chat(request, caller) as answer:
        while not answer.done:
            send(encode(await answer.receive()))
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias, TypeVar

import attrs
import msgspec
import trio

from gw.config.settings import CostTracking, Routing
from gw.errors import CandidateSkipped, GwError, leaves_of
from gw.net.http1 import Pool
from gw.policy import hedge, plan
from gw.providers.spec import Account, ChatStream, ProviderSpec, SpeakStream, TranscribeStream
from gw.registry.catalog import Catalog, Model
from gw.registry.live import Live
from gw.relay import tally
from gw.relay.accounts import Accounts
from gw.relay.admission import admit
from gw.relay.answer import Answer, Tally
from gw.relay.attempts import Call, Ready, Running, Trying, first_ready
from gw.relay.limits import Limits
from gw.relay.meter import Books, Meter, cost_of, price_of
from gw.telemetry.clock import utc_day
from gw.types.caller import Caller
from gw.types.ids import Modality
from gw.types.llm import Ability, ChatEvent, ChatRequest
from gw.types.project import Project
from gw.types.stt import TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakRequest
from gw.types.usage import Cost, Usage

S = TypeVar("S")
E = TypeVar("E")

Opener = Callable[[ProviderSpec, Account, Model], Callable[[], AbstractAsyncContextManager[S]]]
ChatAnswer: TypeAlias = Answer[ChatStream, ChatEvent]
TranscribeAnswer: TypeAlias = Answer[TranscribeStream, TranscribeEvent]
SpeakAnswer: TypeAlias = Answer[SpeakStream, SpeakEvent]
_NOTHING = Usage()


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between the modalities, beside the request itself."""

    modality: Modality
    requested: str
    stream: bool
    estimate: Usage
    needs: frozenset[Ability] = frozenset()


class Relay:
    def __init__(
        self, *, live: Live, pool: Pool, limits: Limits, books: Books, routing: Routing, cost_tracking: CostTracking
    ) -> None:
        self.limits = limits
        self.in_flight = 0
        self.running = Running()
        self._routed: Catalog | None = None
        self._routes: dict[tuple[str, Modality, str, str, bool], tuple[Model, ...]] = {}
        self._live = live
        self._accounts = Accounts(pool)
        self._accounts.warm(live.catalog)
        self._books = books
        self._routing = routing
        self._hedge_after_s = hedge.begin_after(routing.hedge_after_ms, None)
        self._refuse_unpriced = cost_tracking.on_unpriced == "refuse"

    def chat(self, request: ChatRequest, caller: Caller) -> AbstractAsyncContextManager[ChatAnswer]:
        kind = _Kind(
            modality="llm",
            requested=request.model,
            stream=request.stream,
            estimate=tally.estimate_chat(request),
            needs=request.needs,
        )

        def opener(
            spec: ProviderSpec, account: Account, model: Model
        ) -> Callable[[], AbstractAsyncContextManager[ChatStream]]:
            call = _offered(spec.chat, account)
            return lambda: call(request, account)

        return self._run(
            kind, caller, opener, tally.first_chat, lambda ready: (ready.stream.receive, tally.ChatTally(request))
        )

    def transcribe(self, request: TranscribeRequest, caller: Caller) -> AbstractAsyncContextManager[TranscribeAnswer]:
        kind = _Kind(
            modality="stt", requested=request.model, stream=request.stream, estimate=tally.estimate_transcribe(request)
        )

        def opener(
            spec: ProviderSpec, account: Account, model: Model
        ) -> Callable[[], AbstractAsyncContextManager[TranscribeStream]]:
            call = _offered(spec.transcribe, account)
            language = request.language or model.default_language
            return lambda: call(attrs.evolve(request, language=language), account)

        return self._run(
            kind,
            caller,
            opener,
            tally.first_transcript,
            lambda ready: (ready.stream.receive, tally.TranscribeTally(request, ready.call.spec.rounds_audio_up_to_s)),
        )

    def speak(self, request: SpeakRequest, caller: Caller) -> AbstractAsyncContextManager[SpeakAnswer]:
        kind = _Kind(modality="tts", requested=request.model, stream=True, estimate=tally.estimate_speak(request))
        catalog = self._live.catalog

        def opener(
            spec: ProviderSpec, account: Account, model: Model
        ) -> Callable[[], AbstractAsyncContextManager[SpeakStream]]:
            call = _offered(spec.speak, account)
            voice = catalog.voice(request.voice, catalog.provider(model.provider)) or model.default_voice or ""
            return lambda: call(attrs.evolve(request, voice=voice), account)

        return self._run(
            kind,
            caller,
            opener,
            tally.first_audio,
            lambda ready: (ready.stream.receive, tally.SpeakTally(request, ready.stream.format)),
        )

    @asynccontextmanager
    async def _run(
        self,
        kind: _Kind,
        caller: Caller,
        opener: Opener[S],
        first_content: Callable[[S, str], Awaitable[list[E]]],
        follow: Callable[[Ready[S, E]], tuple[Callable[[], Awaitable[list[E]]], Tally[E]]],
    ) -> AsyncIterator[Answer[S, E]]:
        catalog = self._live.catalog
        project = catalog.project(caller.project)
        models = self._candidates(catalog, kind, project, caller)
        model = models[0]
        meter = Meter(self._books, caller, kind.modality, model.id, stream=kind.stream)
        answer: Answer[S, E] | None = None
        error: GwError | None = None
        self.in_flight += 1
        try:
            self._admit(meter, kind, catalog, model, project)
            trying = Trying(
                prepare=lambda m: self._prepare(catalog, m, project, kind, opener),
                first_content=first_content,
                first_event_s=self._patience(kind),
                meter=meter,
                running=self.running,
            )
            async with first_ready(models, trying.attempt, hedge_after_s=self._hedge_after_s) as ready:
                meter.answered_by(ready.mark)
                answer = Answer(
                    meter,
                    ready,
                    *follow(ready),
                    book=self._books.book,
                    records=self._books.records,
                    idle_s=self._routing.idle_s,
                )
                yield answer
        except GwError as failure:
            error = failure
            raise
        finally:
            self.in_flight -= 1
            if error is None and not _caller_left(sys.exc_info()[1]):
                error = GwError()
            if answer is not None:
                answer.close(error=error, cancelled=error is None)
            else:
                usage, cost = self._without_answer(meter, catalog)
                meter.finish(usage=usage, measured=None, cost=cost, error=error, cancelled=error is None)

    def _candidates(self, catalog: Catalog, kind: _Kind, project: Project, caller: Caller) -> tuple[Model, ...]:
        """Who may answer, the model asked for first. Looked up once per catalog; raises what `Catalog.resolve` raises."""
        if catalog is not self._routed:
            self._routed, self._routes = catalog, {}
        key = (kind.requested, kind.modality, project.id, caller.dialect, caller.fallback)
        found = self._routes.get(key)
        if found is None:
            model = catalog.resolve(kind.requested, kind.modality, project, dialect_provider=caller.dialect)
            found = catalog.candidates(model, project, fallback=caller.fallback)
            self._routes[key] = found  # only names that resolve, so callers cannot fill it
        return found

    def _without_answer(self, meter: Meter, catalog: Catalog) -> tuple[Usage, Cost]:
        """What a request costs that got no content: what was sent, where a vendor may charge for it."""
        mark = meter.unanswered
        if mark is None:
            return _NOTHING, Cost(nusd=0, source="")
        estimate = meter.estimate
        sent = Usage(
            input_tokens=estimate.input_tokens,
            audio_seconds=estimate.audio_seconds,
            characters=estimate.characters,
            source="estimated",
        )
        return sent, cost_of(self._books.book, sent, mark.model, catalog.provider(mark.model.provider), meter.day)

    def _patience(self, kind: _Kind) -> float:
        """Seconds until the first content; where the answer comes whole, that is all of it."""
        return self._routing.first_event_s[kind.modality] if kind.stream else self._routing.whole_answer_s

    def _admit(self, meter: Meter, kind: _Kind, catalog: Catalog, model: Model, project: Project) -> None:
        estimate = cost_of(self._books.book, kind.estimate, model, catalog.provider(model.provider), meter.day).nusd
        meter.estimate = kind.estimate
        meter.estimate_nusd = estimate
        meter.reservation = admit(
            self._books.ledger, project, estimate or 0, store_accepts=self._books.records.accepting
        )

    def _prepare(self, catalog: Catalog, model: Model, project: Project, kind: _Kind, opener: Opener[S]) -> Call[S]:
        """Account, abilities and gate of one candidate. Raises ProviderError to have it passed over."""
        now = trio.current_time()
        provider, spec, account = self._accounts.get(catalog, model, project)
        if lacking := plan.missing(spec.abilities, kind.needs):
            raise CandidateSkipped(
                provider=provider.id, reason="missing_ability", detail="cannot do " + ", ".join(sorted(lacking))
            )
        if (
            self._refuse_unpriced
            and provider.location != "local"
            and price_of(self._books.book, model, provider, utc_day(self._books.clock.now())) is None
        ):
            raise CandidateSkipped(
                provider=provider.id, reason="unpriced", detail="no price known and cost_tracking.on_unpriced is refuse"
            )
        call = opener(spec, account, model)
        gate = self.limits.gate(provider, now, owner=project.id if provider.id in project.provider_keys else "")
        gate.enter(now)
        return Call(model, provider, spec, gate, call)


def _caller_left(error: BaseException | None) -> bool:
    """Nothing wrong here: the dialect stopped reading, its connection broke, or it was cancelled. A defect is none of these."""
    return error is None or all(isinstance(e, (trio.Cancelled, OSError, GeneratorExit)) for e in leaves_of(error))


def _offered(
    call: Callable[..., AbstractAsyncContextManager[S]] | None, account: Account
) -> Callable[..., AbstractAsyncContextManager[S]]:
    if call is None:
        raise CandidateSkipped(
            provider=account.provider_id, reason="missing_ability", detail="its type does not offer this"
        )
    return call
