"""The things that all attempts of a request share: its candidates, its meter, and how a candidate is called."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from functools import partial
from typing import ClassVar, Generic, TypeVar

import attrs
import trio

from gw.errors import ProviderError
from gw.policy import hedge
from gw.providers.spec import Account, ProviderSpec
from gw.registry.catalog import Model
from gw.relay.attempt import Attempt
from gw.relay.candidate_list import Candidates
from gw.relay.candidates import CandidatePlanner
from gw.relay.capture import begin_capture
from gw.relay.honoured import unsupported
from gw.relay.in_flight import InFlight
from gw.relay.meter import Meter
from gw.relay.prepared_call import OpenCall, PreparedCall
from gw.relay.request_spec import RequestSpec
from gw.types.compiled import mypyc_attr
from gw.types.ids import Caller, Modality
from gw.types.pending import Pending
from gw.types.stt import ListenRequest, TranscribeRequest

S = TypeVar("S")
E = TypeVar("E")


class RefusedAttempt(Generic[S, E]):
    """An attempt, closed, whose model refused to answer, with the events read until then."""

    __slots__ = ("attempt", "call", "events", "stream")

    def __init__(self, call: PreparedCall[S], attempt: Attempt, stream: S, events: list[E]) -> None:
        self.call = call
        self.attempt = attempt
        self.stream = stream
        self.events = events


@mypyc_attr(allow_interpreted_subclasses=True)
class RequestContext(ABC, Generic[S, E]):
    """A request that makes attempts: its candidates, its meter, and the call of a candidate."""

    __slots__ = ("candidates", "first_event_s", "idle_s", "in_flight", "meter", "planner", "racing", "refusal", "spec")

    pays_for_hedges: ClassVar[bool] = True
    """A candidate that starts beside a slow one is sent something that its vendor bills."""
    first_event: ClassVar[str] = "content"
    """Word for the thing that must be there after `first_event_s`."""
    candidates: Candidates
    meter: Meter

    def __init__(self, planner: CandidatePlanner, in_flight: InFlight, spec: RequestSpec, first_event_s: float) -> None:
        self.planner = planner
        self.in_flight = in_flight
        self.spec = spec
        self.first_event_s = first_event_s
        self.idle_s = planner.routing.idle_s
        self.racing = False
        """Candidates may be open at the same time."""
        self.refusal: RefusedAttempt[S, E] | None = None
        """The last one."""

    def plan(self, caller: Caller) -> None:
        """Choose the candidates and start the meter. Raise what `CandidatePlanner.plan` raises."""
        spec, planner = self.spec, self.planner
        self.candidates = candidates = planner.plan(spec, caller)
        self.meter = Meter(planner.accounting, caller, spec.modality, candidates.models[0].id, stream=spec.stream)
        self.meter.routed = candidates.routed
        if spec.modality != "llm":
            planner.begin_voice(self.meter, spec, candidates)
        if (capture := candidates.project.capture) is not None:
            self.meter.capture = begin_capture(capture, self.meter, spec)

    def prepare(self, model: Model, now: float) -> PreparedCall[S]:
        """Enter the gate. Raise ProviderError to have the model passed over."""
        return self.planner.prepare(self.spec, self.candidates, model, self.call_for, now)

    def lease_call(self, model: Model, now: float) -> Pending:
        """Return the wait for a call of a rate that a fleet shares; None: there is nothing to wait for."""
        return self.planner.lease_call(self.candidates, model, now) if self.planner.in_fleet else None

    def check_settings(self) -> None:
        """Raise UnsupportedSetting if no candidate honours the settings that the request needs, noting each as skipped."""
        skipped = self.planner.unsupported(self.spec, self.candidates)
        if skipped:
            now = trio.current_time()
            for model, skip in skipped:
                attempt = self.meter.begin_attempt(model, now)
                attempt.ended, attempt.error = now, skip
            raise unsupported([skip for _, skip in skipped])

    def first_event_due(self, now: float) -> float:
        """Return the time at which the first content of an attempt that begins `now` is due; infinite: nobody waits for it yet."""
        return now + self.first_event_s

    def fault_of_vendor(self, error: ProviderError | None) -> ProviderError | None:
        """Return the error with which an attempt ended, if it may say something of the vendor's health."""
        return error

    def note_speed(self, model: Model, seconds: float) -> None:
        """Note the time from the call to the first content."""
        self.planner.response_times.add(self.speed_key(model), seconds)
        self.note_wait(model, seconds)

    def note_wait(self, model: Model, seconds: float) -> None:
        """Note for routes by latency how long a candidate was waited for, also in vain."""
        if self.first_event == "content" and model.id in self.planner.routes.times.models:
            self.planner.routes.note_wait(model.id, self.spec, seconds)

    def is_hedged(self) -> bool:
        """Return whether the next candidate may start beside a slow one. `auto` hedges projects that speak or listen."""
        planner, project = self.planner, self.candidates.project
        if planner.routing.hedge == "off" or not self.in_flight.keeper.running:
            return False
        planner.hedge_budget.count_request(project.id, self.meter.day)
        return planner.routing.hedge != "auto" or planner.is_voice(project)

    def hedge_after_s(self, model: Model) -> float:
        planner = self.planner
        after_s = hedge.after_s(planner.routing.hedge, planner.response_times.p95(self.speed_key(model)))
        return math.inf if after_s is None else after_s

    def may_hedge(self, model: Model) -> bool:
        """Return whether a hedge by `model` is within the day's extra spend, and count it."""
        planner, project, meter = self.planner, self.candidates.project, self.meter
        if planner.routing.hedge != "auto":
            return True
        provider = self.candidates.catalog.provider(model.provider)
        budget, estimate_nusd = planner.hedge_budget, meter.cost_of(self.spec.estimate, model, provider).nusd
        taken = budget.take(
            project.id, meter.day, estimate_nusd=estimate_nusd, spent_nusd=planner.accounting.ledger.spent(project.id),
            share=planner.routing.hedge_spend,
        )  # fmt: skip
        if taken:
            meter.settle_hedges = partial(budget.settle, project.id, meter.day, estimate_nusd=estimate_nusd or 0)
        return taken

    def speed_key(self, model: Model) -> tuple[str, Modality, bool, str]:
        return model.id, self.spec.modality, self.spec.stream, self.first_event

    def note_billed_options(
        self, call: PreparedCall[S], request: TranscribeRequest | ListenRequest, attempt: Attempt
    ) -> PreparedCall[S]:
        """Note what the vendor of this attempt bills on top of a transcription: options and channels."""
        if (options := call.spec.billed_options) is not None:
            language = request.language or call.model.default_language
            call.addons = options(attrs.evolve(request, language=language), call.model.name)
            attempt.addons = call.addons
        if (channels := call.spec.billed_channels) is not None:
            call.channels = attempt.channels = channels(request, call.model.name)
        return call

    @abstractmethod
    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[S]: ...

    @abstractmethod
    def first_content(self, stream: S, provider: str, /) -> Awaitable[list[E]]:
        """Read up to the first content."""
