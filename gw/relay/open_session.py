"""Live sessions begun and booked: admission, a candidate's session made callable, and the one record at the end.

Each vendor bills what it was given, so the cost of a session that moved is the sum over its attempts, and each attempt
keeps its own part.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import trio

from gw.codecs.compressed import converter
from gw.errors import CandidateSkipped, GwError, one_error
from gw.net.prewarm import PrewarmedSockets
from gw.providers.spec import Account, ListenSession, ProviderSpec, SpeakSession
from gw.registry.catalog import Model
from gw.relay import turn_tracking
from gw.relay.admission import Kind, caller_left, offered
from gw.relay.attempts import PreparedCall
from gw.relay.listening import ListeningSession
from gw.relay.live_session import LiveSession, SessionPlan
from gw.relay.meter import Attempt, Meter, cost_of, total_cost
from gw.relay.session_audio import SessionAudio, passed_over
from gw.relay.speaking import SpeakingSession, SpeakLeg
from gw.relay.waste import NO_WASTE, heard_of, waste_of
from gw.types.audio import AudioFormat
from gw.types.caller import Caller
from gw.types.ids import Modality
from gw.types.stt import Final, ListenRequest
from gw.types.tts import SpeakLiveRequest
from gw.types.usage import Usage, UsageSource
from gw.wire import convert as samples
from gw.wire.convert import CannotConvert, Converter

if TYPE_CHECKING:
    from gw.relay.relay import Relay

S = TypeVar("S")

RESERVED_S = 60.0
"""Held against the budget for a session whose length nobody knows."""
RESERVED_CHARACTERS = 1_000
OPEN_S = 5.0
"""For a vendor's handshake: a voice that waits longer has been lost already."""


def heard_as(fmt: AudioFormat, spec: ProviderSpec) -> AudioFormat:
    """The format a provider is sent: the caller's where it takes that, else plain samples at a rate it takes."""
    rates = spec.listen_rates_hz
    fits = not rates or fmt.sample_rate_hz in rates
    if fmt.encoding in spec.listen_formats and (fits or not fmt.bytes_per_second):
        return fmt
    rate = fmt.sample_rate_hz if fits and fmt.sample_rate_hz else _nearest(rates, fmt.sample_rate_hz)
    return AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate)


def spoken_as(fmt: AudioFormat, spec: ProviderSpec) -> AudioFormat:
    """The format a provider is asked for: the caller's where it can make that, else plain samples to be converted."""
    rates = spec.speak_rates_hz
    fits = not rates or fmt.sample_rate_hz in rates
    if fmt.encoding in spec.speak_live_formats and (fits or not fmt.bytes_per_second):
        return fmt
    rate = fmt.sample_rate_hz if fits and fmt.sample_rate_hz else _nearest(rates, fmt.sample_rate_hz)
    return AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate)


def _nearest(rates: frozenset[int], wanted_hz: int) -> int:
    """The lowest rate that loses nothing, else the highest there is."""
    above = [rate for rate in rates if rate >= wanted_hz]
    return min(above) if above else max(rates, default=16_000)


@asynccontextmanager
async def listening(relay: Relay, request: ListenRequest, caller: Caller) -> AsyncIterator[ListeningSession]:
    """Admit, then hold a session for the block; its record is written when it ends, however it ends."""
    begun = _Begun(relay, caller, "stt", request.model, Usage(audio_seconds=RESERVED_S, source="estimated"))

    def opener(
        spec: ProviderSpec, account: Account, model: Model
    ) -> Callable[[], AbstractAsyncContextManager[ListenSession]]:
        call = offered(spec.listen, account)
        language = request.language or model.default_language
        fmt = _given(session.hearing, spec, account)
        return lambda: call(attrs.evolve(request, format=fmt, language=language), account)

    def convert(call: PreparedCall[ListenSession]) -> Converter | None:
        source = session.hearing.source_for(call.spec)
        return samples.converter(source, heard_as(source, call.spec))

    def finish(error: GwError | None, cancelled: bool) -> None:
        parts = [
            _Part(
                leg.mark,
                leg.reported,
                Usage(audio_seconds=session.seconds_of(leg)),
                Usage(audio_seconds=session.of_use(leg)),
            )
            for leg in session.legs
        ]
        begun.book(parts, error, cancelled=cancelled)

    def told(call: PreparedCall[ListenSession], final: Final, heard_s: float) -> None:
        turn_tracking.heard(relay.turns, begun.meter, final, call.model.id, heard_s, partial(begun.price, call.model))

    session = ListeningSession(request, begun.settled(opener), convert, finish, told)
    async with begun.running(session):
        yield session


@asynccontextmanager
async def speaking(
    relay: Relay, request: SpeakLiveRequest, caller: Caller, spares: PrewarmedSockets | None = None
) -> AsyncIterator[SpeakingSession]:
    """Admit, then hold a session for the block; its record is written when it ends, however it ends."""
    begun = _Begun(relay, caller, "tts", request.model, Usage(characters=RESERVED_CHARACTERS, source="estimated"))

    def opener(
        spec: ProviderSpec, account: Account, model: Model
    ) -> Callable[[], AbstractAsyncContextManager[SpeakSession]]:
        call = offered(spec.speak_live, account)
        fmt = spoken_as(request.format, spec)
        _convertible(converter, fmt, request.format, account)
        voice = begun.catalog.voice(request.voice, begun.catalog.provider(model.provider)) or model.default_voice or ""
        warm = account if spares is None else attrs.evolve(account, prewarmed=spares)
        return lambda: call(attrs.evolve(request, format=fmt, voice=voice), warm)

    def convert(fmt: AudioFormat) -> Converter | None:
        return converter(fmt, request.format)

    def finish(error: GwError | None, cancelled: bool) -> None:
        voice.read(session.script.text, whole=True)
        begun.book([_spoken(leg, *session.heard_of(leg)) for leg in session.legs], error, cancelled=cancelled)

    voice = turn_tracking.Voice(relay.turns, begun.meter)
    first_audio_s = relay.routing.first_event_s["tts"]
    session = SpeakingSession(request, begun.settled(opener), convert, finish, first_audio_s=first_audio_s, turn=voice)
    async with begun.running(session):
        yield session


def _given(hearing: SessionAudio, spec: ProviderSpec, account: Account) -> AudioFormat:
    """The form a provider is sent the caller's audio in. Raises CandidateSkipped, PluginMissing."""
    try:
        source = hearing.source_for(spec)
    except CannotConvert as error:
        skipped = CandidateSkipped(provider=account.provider_id, reason="missing_ability", detail=str(error))
        raise passed_over(error, account.provider_id) or skipped from None
    fmt = heard_as(source, spec)
    _convertible(samples.converter, source, fmt, account)
    return fmt


def _convertible(
    between: Callable[[AudioFormat, AudioFormat], Converter | None],
    source: AudioFormat,
    target: AudioFormat,
    account: Account,
) -> None:
    """Raises CandidateSkipped. What callers send is converted as samples only: containers are read when they are whole."""
    try:
        between(source, target)
    except CannotConvert as error:
        raise CandidateSkipped(
            provider=account.provider_id, reason="missing_ability", detail=str(error)
        ) from None


@attrs.frozen
class _Part:
    """One vendor's part of a session: what it says it bills, and what we counted."""

    mark: Attempt
    reported: Usage | None
    counted: Usage
    reached: Usage
    """The part that was of use."""


def _spoken(leg: SpeakLeg, heard: int, heard_s: float) -> _Part:
    counted = Usage(characters=leg.characters, audio_seconds=leg.progress.audio_s)
    return _Part(leg.mark, leg.reported, counted, heard_of(leg.reported or counted, heard, heard_s))


class _Begun:
    """A live request that has been resolved: who may answer, and its meter."""

    def __init__(self, relay: Relay, caller: Caller, modality: Modality, model: str, estimate: Usage) -> None:
        self.catalog = catalog = relay.live.catalog
        self._relay = relay
        self._kind = Kind(modality=modality, requested=model, stream=True, estimate=estimate)
        self._project = catalog.project(caller.project)
        self._models = relay.candidates(catalog, self._kind, self._project, caller)
        self.meter = Meter(relay.books, caller, modality, self._models[0].id, stream=True)

    def settled(
        self, opener: Callable[[ProviderSpec, Account, Model], Callable[[], AbstractAsyncContextManager[S]]]
    ) -> SessionPlan[S]:
        relay, catalog, project, kind = self._relay, self.catalog, self._project, self._kind
        return SessionPlan(
            self._models,
            self.meter,
            relay.running,
            lambda model, now: relay.prepare(catalog, model, project, kind, opener, now),
            open_s=OPEN_S,
            idle_s=relay.routing.idle_s,
        )

    @asynccontextmanager
    async def running(self, session: LiveSession[Any, Any, Any]) -> AsyncIterator[None]:
        """The session's driver beside the block. Raises what admission raises, with a record."""
        relay = self._relay
        relay.in_flight += 1
        try:
            with one_error():
                relay.admit(self.meter, self._kind, self.catalog, self._models[0], self._project)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(session.drive)
                    yield
                    nursery.cancel_scope.cancel()
        except BaseException as raised:
            error = raised if isinstance(raised, GwError) else None
            if error is None and not caller_left(raised):
                error = GwError()
            session.close(error, cancelled=error is None)
            raise
        else:
            session.close(None, cancelled=True)
        finally:
            relay.in_flight -= 1

    def price(self, model: Model, audio_seconds: float) -> int | None:
        """Of speech heard live, in nano-USD; None where the price is not known."""
        used, provider = Usage(audio_seconds=audio_seconds), self.catalog.provider(model.provider)
        return cost_of(self._relay.books.book, used, model, provider, self.meter.day, live=True).nusd

    def book(self, parts: list[_Part], error: GwError | None, *, cancelled: bool) -> None:
        """Usage and cost of every part into its attempt, and their sums into the record."""
        book, waste = self._relay.books.book, NO_WASTE
        for part in parts:
            mark = part.mark
            mark.usage = part.reported or part.counted
            provider = self.catalog.provider(mark.model.provider)
            cost = partial(cost_of, book, model=mark.model, provider=provider, day=self.meter.day, live=True)
            mark.cost = cost(mark.usage)
            waste += waste_of(self.meter.modality, mark.usage, part.reached, cost)
        used = [part.reported or part.counted for part in parts]
        by_vendor = bool(parts) and all(part.reported is not None for part in parts)
        total = used[0] if len(used) == 1 else _sum_of(used, "vendor" if by_vendor else "measured")
        counted = _sum_of([part.counted for part in parts], "measured")
        self.meter.finish(
            usage=total,
            measured=counted if by_vendor else None,
            cost=total_cost([part.mark.cost for part in parts]),
            error=error,
            cancelled=cancelled,
            waste=waste,
        )


def _sum_of(usages: list[Usage], source: UsageSource) -> Usage:
    return Usage(
        audio_seconds=sum(usage.audio_seconds for usage in usages),
        characters=sum(usage.characters for usage in usages),
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        source=source,
    )

