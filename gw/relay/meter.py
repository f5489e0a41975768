"""Marks and units of one request → its RequestRecord."""

from __future__ import annotations

import secrets
from types import NoneType
from typing import Protocol

import attrs
import msgspec
import trio

from gw.errors import (
    CandidateSkipped,
    GwError,
    ProviderError,
    RateLimitError,
    StaleConnection,
    UpstreamCut,
    UpstreamSlow,
)
from gw.policy.turns import Place
from gw.pricing.book import Price, PriceBook
from gw.registry.catalog import Model, Provider
from gw.relay.ledger import Ledger, Reservation
from gw.relay.waste import NO_WASTE, Waste
from gw.telemetry.clock import Clock, utc_day
from gw.types.caller import Caller
from gw.types.ids import Modality
from gw.types.usage import AttemptRecord, Cost, Intent, RequestRecord, Status, Usage


class Records(Protocol):
    """Where records go. Given to the relay, which knows no storage."""

    @property
    def accepting(self) -> bool: ...

    def intent(self, intent: Intent) -> None:
        """On return the line survives a kill -9."""

    def finish(self, record: RequestRecord) -> None:
        """On return the record survives a kill -9; it is queued for the database."""

    @property
    def commits_first(self) -> bool:
        """Durability `power`: the last byte waits for the commit."""

    async def settled(self, record_id: str) -> None:
        """Until the record is committed."""


class Observer(Protocol):
    """Told of every finished record (metrics, live views)."""

    def observe(self, record: RequestRecord) -> None: ...


class Attempt(msgspec.Struct, eq=False):
    """One attempt in the making. Times are monotonic seconds."""

    model: Model
    started: float
    ready_at: float | None = None
    ended: float | None = None
    error: ProviderError | None = None
    called: bool = False
    usage: Usage | None = None
    """Its own part of a live session."""
    cost: Cost | None = None


@attrs.frozen(kw_only=True)
class Accounting:
    """What the meter needs of the house."""

    clock: Clock
    book: PriceBook
    ledger: Ledger
    records: Records
    observer: Observer


def cost_of(
    book: PriceBook, usage: Usage, model: Model, provider: Provider, day: int, *, live: bool = False
) -> Cost:
    price = model.price or book.price(provider.type, model.name, at_day=day, live=live)
    return book.cost(usage, price, local=provider.location == "local")


def price_of(book: PriceBook, model: Model, provider: Provider, day: int, *, live: bool = False) -> Price | None:
    """The price of the configuration, else of the table."""
    return model.price or book.price(provider.type, model.name, at_day=day, live=live)


def total_cost(costs: list[Cost | None]) -> Cost:
    """Unknown when one of them is."""
    known = [cost for cost in costs if cost is not None]
    if not known:
        return Cost(nusd=0, source="")
    amounts = [cost.nusd for cost in known if cost.nusd is not None]
    source = " + ".join(dict.fromkeys(cost.source for cost in known if cost.source))
    return Cost(nusd=sum(amounts) if len(amounts) == len(known) else None, source=source)


class Meter:
    """Follows one request from its acceptance to its record."""

    def __init__(self, books: Accounting, caller: Caller, modality: Modality, requested: str, *, stream: bool) -> None:
        self._books = books
        self.caller = caller
        self.modality: Modality = modality
        self.requested = requested
        self.stream = stream
        self.id = caller.request_id or secrets.token_hex(16)
        self.place = Place(request_id=self.id, session_id=caller.session_id, turn_id=caller.turn_id)
        """Its session and turn, as far as they are known; the record takes what they are at its end."""
        self.timestamp = books.clock.now()
        self.day = utc_day(self.timestamp)
        self.started = trio.current_time()
        self.marks: list[Attempt] = []
        self.reservation: Reservation | None = None
        self.estimate = Usage(source="estimated")
        self.estimate_nusd: int | None = 0
        self.answering: Attempt | None = None
        """The attempt whose content goes to the caller."""
        self.first_call_at: float | None = None
        self.content_at: float | None = None
        self.last_event_at: float | None = None
        self.ended_at: float | None = None
        """When the request was over, if its record is made later."""
        self.record: RequestRecord | None = None

    def now(self) -> float:
        """Unix seconds."""
        return self._books.clock.now()

    def attempt(self, model: Model, now: float) -> Attempt:
        mark = Attempt(model, now)
        self.marks.append(mark)
        return mark

    def calling(self, mark: Attempt, model: Model) -> None:
        """Immediately before an upstream call: the intent goes to the journal."""
        mark.called = True
        if self.first_call_at is None:
            self.first_call_at = trio.current_time()
        caller = self.caller
        self._books.records.intent(
            Intent(
                id=self.id,
                attempt=len(self.marks) - 1,
                timestamp=self.timestamp,
                project=caller.project,
                modality=self.modality,
                model_id=model.id,
                requested_model=self.requested,
                estimate=self.estimate,
                estimate_nusd=self.estimate_nusd,
                stream=self.stream,
                session_id=self.place.session_id,
                turn_id=self.place.turn_id,
                key_id=caller.key_id,
                endpoint=caller.endpoint,
            )
        )

    def answered_by(self, mark: Attempt) -> None:
        """Its content goes to the caller from now on."""
        self.answering = mark
        mark.ready_at = self.content_at = self.last_event_at = trio.current_time()

    def ended(self, mark: Attempt, error: ProviderError | None, now: float) -> None:
        mark.ended = now
        mark.error = error

    def finish(
        self,
        *,
        usage: Usage,
        measured: Usage | None,
        cost: Cost,
        error: GwError | None,
        cancelled: bool,
        waste: Waste = NO_WASTE,
    ) -> RequestRecord:
        """Make the record, journal it, settle the budget. Everything here is synchronous, so cancellation cannot split it."""
        now = trio.current_time() if self.ended_at is None else self.ended_at
        caller, place = self.caller, self.place
        mark = self.answering or (self.marks[-1] if self.marks else None)
        model = mark.model if mark else None
        fell_back = self.answering is not None and self.answering is not self.marks[0]
        status: Status = "cancelled" if cancelled else "error" if error else "fallback" if fell_back else "success"
        record = RequestRecord(
            id=self.id,
            timestamp=self.timestamp,
            project=caller.project,
            modality=self.modality,
            model_id=model.id if model else self.requested,
            provider=model.provider if model else self.requested.partition("/")[0],
            requested_model=self.requested,
            status=status,
            total_latency_ms=_ms(now - self.started),
            ttfb_ms=None if self.content_at is None else _ms(self.content_at - self.started),
            gateway_ms=self._own_time(now, cancelled=cancelled),
            cost_nusd=cost.nusd,
            pricing_source=cost.source,
            wasted_units=waste.units,
            wasted_nusd=waste.nusd,
            usage=usage,
            measured=measured,
            attempts=tuple([self._attempt_record(m, now) for m in self.marks]),
            fallback_from=self.marks[0].model.id if fell_back else None,
            error_code=error.code if error else None,
            stream=self.stream,
            session_id=place.session_id,
            turn_id=place.turn_id,
            key_id=caller.key_id,
            endpoint=caller.endpoint,
            heard=place.heard,
            earlier=place.earlier,
        )
        self.record = record
        books = self._books
        books.records.finish(record)
        if self.reservation is not None:
            books.ledger.settle(self.reservation, cost.nusd or 0)
        books.observer.observe(record)
        return record

    def _own_time(self, now: float, *, cancelled: bool) -> float | None:
        """A caller who left did so while the upstream was waited for."""
        if self.first_call_at is None:
            return None
        after = 0.0 if cancelled or self.last_event_at is None else now - self.last_event_at
        return _ms(self.first_call_at - self.started + after)

    def _attempt_record(self, mark: Attempt, now: float) -> AttemptRecord:
        error, started, ready_at = mark.error, mark.started, mark.ready_at
        return AttemptRecord(
            model_id=mark.model.id,
            outcome="ok" if ready_at is not None and error is None else _outcome(error),
            started_ms=_ms(started - self.started),
            duration_ms=_ms((now if mark.ended is None else mark.ended) - started),
            ttfb_ms=None if ready_at is None else _ms(ready_at - started),
            error_code=error.code if error else None,
            upstream_status=None if error is None else getattr(error, "upstream_status", None) or _status(error),
            audio_seconds=mark.usage.audio_seconds or None if mark.usage else None,
            characters=mark.usage.characters or None if mark.usage else None,
            cost_nusd=mark.cost.nusd if mark.cost else None,
        )

    @property
    def lost(self) -> list[Attempt]:
        """Upstream calls that gave no content but may be charged for: the caller left, or it was too slow or cut.

        After a stale connection the same is asked again: only the last of them counts.
        """
        last = self.marks[-1] if self.marks else None
        return [
            mark
            for mark in self.marks
            if mark.called
            and mark is not self.answering
            and (isinstance(mark.error, _MAY_BE_CHARGED) or (mark is last and isinstance(mark.error, StaleConnection)))
        ]


_MAY_BE_CHARGED = (NoneType, UpstreamSlow, UpstreamCut)


def _outcome(error: ProviderError | None) -> str:
    if error is None:
        return "cancelled"
    return error.reason if isinstance(error, CandidateSkipped) else error.outcome


def _status(error: ProviderError) -> int | None:
    return 429 if isinstance(error, RateLimitError) and error.limit_source == "upstream" else None


def _ms(seconds: float) -> float:
    return int(seconds * 1_000_000) / 1000  # microseconds are kept; cheaper than round()
