"""Measure one request, attempt by attempt, and make its RequestRecord."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    Stopping,
    UpstreamCut,
    UpstreamSlow,
    leaves_of,
)  # fmt: skip
from gw.policy.turns import TurnPlace
from gw.pricing.book import PriceBook
from gw.pricing.stand_in import STAND_IN
from gw.registry.catalog import Catalog, Model, Provider
from gw.relay.admission import Ledger, Reservation
from gw.relay.waste import NO_WASTE, Waste, units_of, with_estimated_length
from gw.telemetry.clock import Clock, RequestIds, utc_day
from gw.types.entities import Price
from gw.types.ids import Caller, Modality
from gw.types.usage import AttemptRecord, Cost, Intent, RequestRecord, Status, Usage, has_units


class Records(Protocol):
    """Sink of intents and records. The relay is handed one, since it knows no storage."""

    @property
    def accepting(self) -> bool: ...

    def intent(self, intent: Intent) -> None:
        """Write the journal line: on return it survives a kill -9."""

    def finish(self, record: RequestRecord) -> None:
        """Journal the record and queue it for the database: on return it survives a kill -9."""

    @property
    def commits_first(self) -> bool:
        """Durability `power`: the last byte waits for the commit."""

    async def wait_committed(self, record_id: str) -> None: ...


class Observer(Protocol):
    """Receives every finished record (metrics, live views)."""

    def observe(self, record: RequestRecord) -> None: ...


_NOTHING = Usage(source="estimated")


class Attempt(msgspec.Struct, eq=False):
    """Measurements of one attempt. Times are monotonic seconds."""

    model: Model
    started: float
    ready_at: float | None = None
    ended: float | None = None
    error: ProviderError | None = None
    called: bool = False
    addons: tuple[str, ...] = ()  # options of the request that the vendor bills on top
    """Something was sent to the vendor, or may have been."""
    refused: bool = False
    """The model refused, in an answer."""
    hedges: bool = False
    estimate: Usage = _NOTHING
    """Units that it is sent, as far as they are known before an answer."""
    ignored_settings: tuple[str, ...] = ()
    """Settings, and later changes of settings, that the vendor did without."""
    voice: str | None = None
    usage: Usage | None = None
    """Units that the vendor may charge for, with their cost and waste; None for a call that costs nothing (`Meter.bill`)."""
    measured: Usage | None = None
    cost: Cost | None = None
    estimated_nusd: int = 0
    waste: Waste = NO_WASTE
    lost_s: float = 0.0


@attrs.frozen(kw_only=True)
class Accounting:
    """The parts that number, price and record requests."""

    clock: Clock
    book: PriceBook
    ledger: Ledger
    records: Records
    observer: Observer
    request_ids: RequestIds = attrs.field(default=attrs.Factory(lambda self: RequestIds(self.clock), takes_self=True))


def price_of(book: PriceBook, model: Model, provider: Provider, day: int, *, live: bool = False) -> Price | None:
    """Return the price from the configuration, else from the rate table."""
    return (model.prices and model.price(day)) or book.price(provider.type, model.name, at_day=day, live=live)


def cost_of(book: PriceBook, usage: Usage, model: Model, provider: Provider, day: int, *, live: bool = False) -> Cost:
    usage = usage.in_region(provider.region) if provider.region else usage
    return book.cost(usage, price_of(book, model, provider, day, live=live), local=provider.location == "local")


def total_cost(costs: Sequence[Cost]) -> Cost:
    """Add costs up. The sum is unknown when all of them are; when some are, its source says so."""
    known = [cost.nusd for cost in costs if cost.nusd is not None]
    source = " + ".join(dict.fromkeys(cost.source for cost in costs if cost.source))
    return Cost(nusd=sum(known) if known or not costs else None, source=source)


def record_error(raised: BaseException | None, *, stopping: bool) -> GwError | None:
    """Return the error that the record of a request that ended by `raised` names; None where its caller left.

    A caller left when the dialect stopped reading, its connection broke, or its task was cancelled while the gateway
    was not stopping. Any other exception is a defect of ours.
    """
    if isinstance(raised, GwError):
        return raised
    if raised is not None and not all(
        isinstance(e, (trio.Cancelled, OSError, GeneratorExit)) for e in leaves_of(raised)
    ):
        return GwError()
    return Stopping() if raised is not None and stopping else None


class Meter:
    """Measurements of one request, from its acceptance to its record."""

    def __init__(
        self, accounting: Accounting, caller: Caller, modality: Modality, requested: str, *, stream: bool
    ) -> None:
        self.accounting = accounting
        self.caller = caller
        self.modality: Modality = modality
        self.requested = requested
        self.stream = stream
        self.id = caller.request_id or accounting.request_ids.new()
        key = (caller.project, caller.key_id)
        self.place = TurnPlace(request_id=self.id, key=key, session_id=caller.session_id, turn_id=caller.turn_id)
        """Session and turn, as far as they are known; the record takes the values they have at its end."""
        self.timestamp = accounting.clock.now()
        self.day = utc_day(self.timestamp)
        self.started = trio.current_time()
        self.attempts: list[Attempt] = []
        self.reservation: Reservation | None = None
        self.estimate = Usage(source="estimated")
        self.estimate_nusd: int | None = 0
        self.estimated_nusd = 0  # stands in for an unknown `estimate_nusd`
        self.answering: Attempt | None = None  # the attempt whose content goes to the caller
        self.first_call_at: float | None = None
        self.content_at: float | None = None
        self.last_event_at: float | None = None
        self.ended_at: float | None = None  # when the request was over, if its record is made later
        self.record: RequestRecord | None = None

    def now(self) -> float:
        """Return the wall time in Unix seconds."""
        return self.accounting.clock.now()

    def cost_of(self, usage: Usage, model: Model, provider: Provider, *, live: bool = False) -> Cost:
        """Price `usage` as of the day the request began."""
        return cost_of(self.accounting.book, usage, model, provider, self.day, live=live)

    def priced(self, usage: Usage, measured: Usage | None, cost_of: Callable[[Usage], Cost]) -> tuple[Usage, Cost]:
        """Return the usage to bill, with its cost.

        It is the vendor's or the measured one; where the price does not know its units, with the length of its audio
        estimated.
        """
        cost = cost_of(usage)
        if not cost.nusd and measured is not None and (counted := cost_of(measured)).nusd:
            return usage, counted  # the vendor's report is empty, or in units that the price does not know
        if cost.nusd is None:
            estimated = with_estimated_length(measured or usage)
            if estimated.source == "estimated" and (guessed := cost_of(estimated)).nusd is not None:
                return estimated, guessed
        return usage, cost

    def begin_attempt(self, model: Model, now: float) -> Attempt:
        attempt = Attempt(model, now)
        self.attempts.append(attempt)
        return attempt

    def calling(self, attempt: Attempt, model: Model) -> None:
        """Write the intent to the journal; called immediately before an upstream call."""
        attempt.called = True
        attempt.estimate = self.estimate
        if self.first_call_at is None:
            self.first_call_at = trio.current_time()
        caller = self.caller
        self.accounting.records.intent(
            Intent(
                id=self.id,
                attempt=len(self.attempts) - 1,
                timestamp=self.timestamp,
                project=caller.project,
                modality=self.modality,
                model_id=model.id,
                requested_model=self.requested,
                estimate=self.estimate,
                estimate_nusd=self.estimate_nusd,
                estimated_nusd=self.estimated_nusd,
                stream=self.stream,
                session_id=self.place.session_id,
                turn_id=self.place.turn_id,
                key_id=caller.key_id,
                endpoint=caller.endpoint,
            )
        )

    def answered_by(self, attempt: Attempt) -> None:
        """Note that the attempt's content goes to the caller from now on."""
        self.answering = attempt
        attempt.ready_at = self.last_event_at = now = trio.current_time()
        if self.content_at is None:
            self.content_at = now

    def bill(
        self, attempt: Attempt, usage: Usage, cost: Cost, waste: Waste = NO_WASTE, measured: Usage | None = None
    ) -> None:
        """Note what the vendor of this attempt may charge. A part of unknown cost counts against the budget as estimated.

        `measured`: our own count, where `usage` is the vendor's.
        """
        if cost.nusd is None:
            used = usage if has_units(usage) else measured or usage
            if not has_units(used):  # nothing was sent: that has no price to be known
                cost = Cost(nusd=0, source="")
            attempt.estimated_nusd = self.stand_in(used)
        attempt.usage, attempt.cost, attempt.waste, attempt.measured = usage, cost, waste, measured

    def stand_in(self, usage: Usage) -> int:
        """Return the stand-in for an unknown cost; where the units are implausible, that of the request's estimate."""
        cost = self.accounting.book.cost
        nusd = cost(usage, STAND_IN, local=False).nusd
        return nusd if nusd is not None else cost(self.estimate, STAND_IN, local=False).nusd or 0

    def bill_unanswered_calls(self, catalog: Catalog) -> Usage:
        """Bill the upstream calls that gave no content but may be charged for; return what was sent to all of them.

        These are the calls that the caller did not wait for, or that were too slow or cut: what was sent to them is
        billed, as an estimate, and all of it is waste. After a stale connection the same request is sent again, so only
        the last of them counts.
        """
        last = self.attempts[-1] if self.attempts else None
        unanswered = [
            attempt
            for attempt in self.attempts
            if attempt.called
            and attempt.ready_at is None
            and (
                isinstance(attempt.error, _MAY_BE_CHARGED)
                or attempt.refused
                or (attempt is last and isinstance(attempt.error, StaleConnection))
            )
        ]
        for attempt in unanswered:
            sent = _sent([attempt]).with_addons(attempt.addons)
            cost = self.cost_of(sent, attempt.model, catalog.provider(attempt.model.provider))
            self.bill(attempt, sent, cost, Waste(units_of(self.modality, sent), cost.nusd))
        return _sent(unanswered)

    def finish(
        self, *, usage: Usage, measured: Usage | None, error: GwError | None, cancelled: bool, cost: Cost | None = None
    ) -> RequestRecord:
        """Make the record, journal it, settle the budget. All of it is synchronous, so cancellation cannot split it.

        The cost is the sum of what was billed to the attempts; `cost` is that of a request without any.
        """
        now = trio.current_time() if self.ended_at is None else self.ended_at
        caller, place, attempts = self.caller, self.place, self.attempts
        last = self.answering or (attempts[-1] if attempts else None)
        model = last.model if last else None
        fell_back = self.answering is not None and self.answering.model is not attempts[0].model
        status: Status = "cancelled" if cancelled else "error" if error else "fallback" if fell_back else "success"
        if cost is None:
            cost, estimated_nusd, waste = self._billed()
        else:
            estimated_nusd, waste = self.stand_in(usage) if cost.nusd is None else 0, NO_WASTE
        record = RequestRecord(
            id=self.id, timestamp=self.timestamp, project=caller.project, key_id=caller.key_id, endpoint=caller.endpoint,
            session_id=place.session_id, turn_id=place.turn_id, heard=place.heard, earlier=place.earlier,
            modality=self.modality, requested_model=self.requested, stream=self.stream,
            model_id=model.id if model else self.requested,
            provider=model.provider if model else self.requested.partition("/")[0],
            status=status, error_code=error.code if error else None,
            attempts=tuple([self._attempt_record(attempt, now) for attempt in attempts]),
            fallback_from=attempts[0].model.id if fell_back else None,
            total_latency_ms=_ms(now - self.started),
            ttfb_ms=None if self.content_at is None else _ms(self.content_at - self.started),
            gateway_ms=self._gateway_ms(now, cancelled=cancelled),
            usage=usage, measured=measured, cost_nusd=cost.nusd, pricing_source=cost.source,
            estimated_nusd=estimated_nusd, wasted_units=waste.units, wasted_nusd=waste.nusd,
        )  # fmt: skip
        self.record = record
        accounting = self.accounting
        accounting.records.finish(record)
        if self.reservation is not None:
            accounting.ledger.settle(self.reservation, cost.nusd or 0, estimated_nusd)
        accounting.observer.observe(record)
        return record

    def _billed(self) -> tuple[Cost, int, Waste]:
        """Return the sums of what was billed to the attempts: cost, estimate for unknown costs, waste."""
        if len(self.attempts) == 1 and (only := self.attempts[0]).cost is not None:
            return only.cost, only.estimated_nusd, only.waste
        billed = [attempt for attempt in self.attempts if attempt.cost is not None]
        cost = total_cost([attempt.cost for attempt in billed if attempt.cost is not None])
        waste = sum([attempt.waste for attempt in billed], NO_WASTE)
        return cost, sum([attempt.estimated_nusd for attempt in billed]), waste

    def _gateway_ms(self, now: float, *, cancelled: bool) -> float | None:
        """Return the time spent in the gateway itself. A caller who left did so while the upstream was waited for."""
        if self.first_call_at is None:
            return None
        after = 0.0 if cancelled or self.last_event_at is None else now - self.last_event_at
        return _ms(self.first_call_at - self.started + after)

    def _attempt_record(self, attempt: Attempt, now: float) -> AttemptRecord:
        error, started, ready_at = attempt.error, attempt.started, attempt.ready_at
        record = AttemptRecord(
            model_id=attempt.model.id,
            provider=_other_provider(attempt.model),
            outcome=_outcome(attempt),
            started_ms=_ms(started - self.started),
            duration_ms=_ms((now if attempt.ended is None else attempt.ended) - started),
            ttfb_ms=None if ready_at is None else _ms(ready_at - started),
            error_code=error.code if error else None,
            upstream_status=None if error is None else getattr(error, "upstream_status", None) or _status(error),
            detail=error.detail if isinstance(error, CandidateSkipped) else "", ignored_settings=attempt.ignored_settings,
            lost_s=attempt.lost_s or None, voice=attempt.voice, hedges=attempt.hedges,
        )
        return record if attempt.cost is None or len(self.attempts) == 1 else _with_part(record, attempt)


def _other_provider(model: Model) -> str:
    """Return the model's provider where its id begins with another one, else ""."""
    model_id, provider = model.id, model.provider
    return "" if model_id.startswith(provider) and model_id[len(provider) :].startswith("/") else provider


def _with_part(record: AttemptRecord, attempt: Attempt) -> AttemptRecord:
    """Add the vendor's part of the request, which has other parts as well."""
    usage, cost = attempt.usage, attempt.cost
    assert usage is not None
    assert cost is not None
    measured = attempt.measured or usage
    return msgspec.structs.replace(
        record,
        input_tokens=usage.input_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        output_tokens=usage.output_tokens,
        audio_seconds=usage.audio_seconds or measured.audio_seconds or None,
        characters=usage.characters or measured.characters or None,
        cost_nusd=cost.nusd,
        pricing_source=cost.source,
        estimated_nusd=attempt.estimated_nusd,
        wasted_nusd=attempt.waste.nusd,
    )


def _sent(attempts: list[Attempt]) -> Usage:
    """Return the units sent in these upstream calls: what is known of them before an answer."""
    return Usage(
        input_tokens=sum(attempt.estimate.input_tokens for attempt in attempts),
        audio_seconds=sum(attempt.estimate.audio_seconds for attempt in attempts),
        characters=sum(attempt.estimate.characters for attempt in attempts),
        source="estimated",
    )


_MAY_BE_CHARGED = (NoneType, UpstreamSlow, UpstreamCut)


def _outcome(attempt: Attempt) -> str:
    error = attempt.error
    if error is None:
        if attempt.ready_at is None:
            return "cancelled"
        return "refused" if attempt.refused else "ok"
    return error.reason if isinstance(error, CandidateSkipped) else error.outcome


def _status(error: ProviderError) -> int | None:
    return 429 if isinstance(error, RateLimitError) and error.limit_source == "upstream" else None


def _ms(seconds: float) -> float:
    """Return milliseconds cut to whole microseconds; cheaper than round()."""
    return int(seconds * 1_000_000) / 1000
