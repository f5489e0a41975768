"""Measure one request, attempt by attempt, and make its RequestRecord."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import trio

from gw.errors import GwError, Stopping, is_refusal, leaves_of
from gw.policy.turn_texts import TurnPlace
from gw.pricing.book import PriceBook
from gw.pricing.stand_in import STAND_IN
from gw.registry.catalog import Catalog, Model, Provider
from gw.relay.accounting import Accounting
from gw.relay.admission import Reservation
from gw.relay.attempt import Attempt
from gw.relay.attempt_record import milliseconds, record_of, sent_to
from gw.relay.shadowing import Shadow
from gw.relay.waste import NO_WASTE, Waste, units_of, with_estimated_length
from gw.telemetry.clock import utc_day
from gw.types.audio import AudioFormat
from gw.types.captured import CaptureState
from gw.types.entities import Price
from gw.types.ids import Caller, Modality
from gw.types.model_routes import Routed
from gw.types.stt import AudioSource
from gw.types.usage import Cost, Intent, RequestRecord, Status, Usage, has_units


class Captured(Protocol):
    """Collects the words and the sound of one request (`gw.relay.capture`)."""

    def give(self, events: Sequence[Any]) -> None:
        """Note events of the answer."""

    def text(self, text: str) -> None:
        """Note a piece of text to speak."""

    def sound(self, data: bytes, fmt: AudioFormat) -> None:
        """Note a piece of the sound of the request or of its answer."""

    def recording(self, source: AudioSource, fmt: AudioFormat | None) -> AudioSource:
        """Return an uploaded recording in a form of which the first complete reading is noted."""

    def finish(self) -> CaptureState:
        """Hand over what was collected, and say what became of it."""


_LEFT = (trio.Cancelled, OSError, GeneratorExit)
"""Ways in which a caller leaves."""
_NOTHING = Usage(source="estimated")


def price_of(book: PriceBook, model: Model, provider: Provider, day: int, *, live: bool = False) -> Price | None:
    """Return the price from the configuration, else from the rate table."""
    return (model.prices and model.price(day)) or book.price(provider.type, model.name, at_day=day, live=live)


def cost_of(book: PriceBook, usage: Usage, model: Model, provider: Provider, day: int, *, live: bool = False) -> Cost:
    if provider.region:
        usage = usage.in_region(provider.region)
    return book.cost(usage, price_of(book, model, provider, day, live=live), local=provider.location == "local")


def hedged_nusd(record: RequestRecord) -> int:
    """Return what a request's hedges have cost, by estimate where that is unknown: as it is summed up from stored records."""
    costs = [a.estimated_nusd if a.cost_nusd is None else a.cost_nusd for a in record.attempts if a.hedges]
    return sum([cost or 0 for cost in costs])


def total_cost(costs: Sequence[Cost]) -> Cost:
    """Add costs up. The sum is unknown when all of them are; when some are, its source says so."""
    known = [cost.nusd for cost in costs if cost.nusd is not None]
    source = " + ".join(dict.fromkeys(cost.source for cost in costs if cost.source))
    return Cost(nusd=sum(known) if known or not costs else None, source=source)


def record_error(raised: BaseException | None, *, stopping: bool) -> GwError | None:
    """Return the error that the record of a request that ended by `raised` names; None where its caller left.

    A caller left when the dialect stopped reading, its connection broke, or its task was cancelled while the gateway
    was not stopping; a vendor that fails in the same instant changes nothing. Any other exception is a defect of ours.
    """
    if raised is None or isinstance(raised, GwError):
        return raised
    leaves = list(leaves_of(raised))
    failures = [e for e in leaves if not isinstance(e, _LEFT)]
    if not all(isinstance(e, GwError) for e in failures):
        return GwError()
    if stopping:
        return Stopping()
    return None if len(failures) < len(leaves) else failures[0]  # type: ignore[return-value]  # all are, as was just checked


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
        self.place = TurnPlace(
            request_id=self.id, key=(caller.project, caller.key_id, caller.session_id), session_id=caller.session_id,
            turn_id=caller.turn_id, link=caller.link, endpoint=caller.endpoint,
        )  # fmt: skip
        """Session and turn, as far as they are known; the record takes the values they have at its end."""
        self.timestamp = accounting.clock.now()
        self.day = utc_day(self.timestamp)
        self.started = accounting.monotonic()
        self.attempts: list[Attempt] = []
        self.reservation: Reservation | None = None
        self.estimate = Usage(source="estimated")
        self.estimate_nusd: int | None = 0
        self.estimated_nusd = 0  # stands in for an unknown `estimate_nusd`
        self.stand_in_price = STAND_IN
        self.notes_input = False
        """Whether the input is noted as it is sent (`note_input`), not estimated beforehand."""
        self.answering: Attempt | None = None  # the attempt whose content goes to the caller
        self.first_call_at: float | None = None
        self.content_at: float | None = None
        self.last_event_at: float | None = None
        self.ended_at: float | None = None  # when the request was over, if its record is made later
        self.record: RequestRecord | None = None
        self.routed: Routed | None = None
        """Why the first candidate is the first, if a route chose it."""
        self.capture: Captured | None = None
        """Keeps the request's words and sound, where its project wants that."""
        self.shadow: Shadow | None = None
        """Copies a transcription for a second model, if the call is of the share that has one."""
        self.settle_hedges: Callable[..., None] | None = None
        """Takes `cost_nusd`, what the hedges of the request have cost, in place of the estimate that was counted."""

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
        if self.routed is not None and not self.attempts:
            attempt.routed = self.routed
        self.attempts.append(attempt)
        return attempt

    def begin_now(self, now: float, estimate: Usage) -> None:
        """Count times from now on, and bill by `estimate`: the request is complete only now.

        Attempts may have begun while it arrived.
        """
        self.estimate = estimate
        self.timestamp += now - self.started
        self.started = now
        if self.first_call_at is not None:
            self.first_call_at = now
        for attempt in self.attempts:
            if attempt.ended is None:
                attempt.started = now
                attempt.estimate = estimate.times(attempt.channels)

    def calling(self, attempt: Attempt, model: Model) -> None:
        """Write the intent to the journal; called immediately before an upstream call."""
        if attempt.cache == "hit":
            return
        attempt.called = True
        attempt.estimate = self.estimate.times(attempt.channels)
        if self.first_call_at is None:
            self.first_call_at = self.accounting.monotonic()
        if self.notes_input:
            self._write_intent(attempt, model, _NOTHING, 0, 0)
            return
        nusd = None if self.estimate_nusd is None else self.estimate_nusd * attempt.channels
        self._write_intent(attempt, model, attempt.estimate, nusd, self.estimated_nusd * attempt.channels)

    def note_input(self, attempt: Attempt, sent: Usage, cost: Cost) -> None:
        """Note in the journal what a live session sends its vendor in all, so that a killed process has it billed."""
        stand_in = self.stand_in(sent) if cost.nusd is None else 0
        self._write_intent(attempt, attempt.model, sent, cost.nusd, stand_in)

    def _write_intent(
        self, attempt: Attempt, model: Model, estimate: Usage, nusd: int | None, stand_in_nusd: int
    ) -> None:
        caller = self.caller
        self.accounting.records.intent(
            Intent(
                id=self.id,
                attempt=self.attempts.index(attempt),
                timestamp=self.timestamp,
                project=caller.project,
                modality=self.modality,
                model_id=model.id,
                requested_model=self.requested,
                estimate=estimate,
                estimate_nusd=nusd,
                estimated_nusd=stand_in_nusd,
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
        attempt.ready_at = self.last_event_at = now = self.accounting.monotonic()
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
        nusd = cost(usage, self.stand_in_price, local=False).nusd
        return nusd if nusd is not None else cost(self.estimate, self.stand_in_price, local=False).nusd or 0

    def bill_unanswered_calls(self, catalog: Catalog) -> Usage:
        """Bill the upstream calls that gave no content but may be charged for; return what was sent to all of them.

        What was sent to them is billed, as an estimate, and all of it is waste (`Attempt.may_be_charged`).
        """
        last = self.attempts[-1] if self.attempts else None
        unanswered = [attempt for attempt in self.attempts if attempt.may_be_charged(is_last=attempt is last)]
        for attempt in unanswered:
            sent = sent_to([attempt]).with_addons(attempt.addons)
            cost = self.cost_of(sent, attempt.model, catalog.provider(attempt.model.provider))
            self.bill(attempt, sent, cost, Waste(units_of(self.modality, sent), cost.nusd))
        return sent_to(unanswered)

    def finish(
        self, *, usage: Usage, measured: Usage | None, error: GwError | None, cancelled: bool, cost: Cost | None = None
    ) -> RequestRecord:
        """Make the record, journal it, settle the budget. All of it is synchronous, so cancellation cannot split it.

        The cost is the sum of what was billed to the attempts; `cost` is that of a request without any.
        """
        now = self.accounting.monotonic() if self.ended_at is None else self.ended_at
        caller, place, attempts = self.caller, self.place, self.attempts
        last = self.answering or (attempts[-1] if attempts else None)
        model, is_only = last.model if last else None, len(attempts) == 1
        fell_back = self.answering is not None and self.answering.model is not attempts[0].model
        status: Status = "cancelled" if cancelled else "error" if error else "fallback" if fell_back else "success"
        if cost is None:
            cost, estimated_nusd, waste = self._billed()
        else:
            estimated_nusd, waste = self.stand_in(usage) if cost.nusd is None else 0, NO_WASTE
        record = RequestRecord(
            id=self.id, timestamp=self.timestamp, project=caller.project, key_id=caller.key_id, endpoint=caller.endpoint,
            session_id=place.session_id, turn_id=place.turn_id, heard=place.heard, earlier=place.earlier, trace=caller.trace,
            modality=self.modality, requested_model=self.requested, stream=self.stream,
            model_id=model.id if model else self.requested,
            provider=model.provider if model else self.requested.partition("/")[0],
            status=status, error_code=error.code if error else None,
            refused=error is not None and not cancelled and is_refusal(error),
            attempts=tuple([record_of(attempt, began=self.started, now=now, is_only=is_only) for attempt in attempts]),
            fallback_from=attempts[0].model.id if fell_back else None,
            total_latency_ms=milliseconds(now - self.started),
            ttfb_ms=None if self.content_at is None else milliseconds(self.content_at - self.started),
            gateway_ms=self._gateway_ms(now, cancelled=cancelled),
            usage=usage, measured=measured, cost_nusd=cost.nusd, pricing_source=cost.source,
            estimated_nusd=estimated_nusd, wasted_units=waste.units, wasted_nusd=waste.nusd,
            captured=None if self.capture is None else self.capture.finish(),
        )  # fmt: skip
        self.record = record
        place.end(failed=error is not None, cancelled=cancelled)
        accounting = self.accounting
        accounting.records.finish(record)
        if self.reservation is not None:
            accounting.ledger.settle(self.reservation, cost.nusd or 0, estimated_nusd)
        if self.settle_hedges is not None:
            self.settle_hedges(cost_nusd=hedged_nusd(record))
        accounting.observer.observe(record)
        if self.shadow is not None:
            self.shadow.end(record)
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
        return milliseconds(self.first_call_at - self.started + after)
