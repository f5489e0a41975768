"""Candidates: the models that may answer a request, and the call of one of them made ready.

Below attempts, responses and sessions: they are handed a `CandidatePlanner` and know neither catalog nor limits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeVar

import trio
from msgspec.structs import replace

from gw.config.settings import CostTracking, Routing
from gw.errors import (
    CandidateSkipped,
    ProviderError,
    StoreUnavailable,
)
from gw.net.http1 import Pool
from gw.policy.hedge import HedgeBudget
from gw.policy.response_times import ResponseTimes
from gw.providers.spec import Account, ProviderSpec
from gw.registry.catalog import Catalog, CurrentCatalog, Model, Provider
from gw.relay import admission, request_limits
from gw.relay.accounting import Accounting
from gw.relay.admission import Reservation
from gw.relay.candidate_list import Candidates
from gw.relay.endpoints import Endpoints
from gw.relay.honoured import chat_honoured, check_offered, honoured, takes_own
from gw.relay.key_limits import allowed, budgets_of, check_rate
from gw.relay.leased_limits import LeasedBucket, LeasedSlots
from gw.relay.limits import Gate, ProviderLimits, UncalledGate
from gw.relay.meter import Meter, cost_of, price_of
from gw.relay.places import PLACE_S
from gw.relay.prepared_call import OpenCall, PreparedCall
from gw.relay.request_spec import RequestSpec
from gw.relay.residency import is_limited, within
from gw.relay.respelled_speech import Respellings
from gw.relay.route_choice import RouteChooser
from gw.relay.shadowing import Shadows
from gw.telemetry.clock import utc_day
from gw.types.entities import Project
from gw.types.ids import Caller, Modality, split_model_id
from gw.types.pending import Pending
from gw.types.stt import ListenRequest, TranscribeRequest

_MOST_WAITS = 50
"""Waits of one request, most of which last no time: requests that pass two places on to each other come to an end."""
S = TypeVar("S")


class CandidatePlanner:
    """Finds the candidates of a request, admits it, and prepares the call of a candidate."""

    def __init__(
        self, current: CurrentCatalog, pool: Pool, limits: ProviderLimits, accounting: Accounting, routing: Routing,
        cost_tracking: CostTracking,
    ) -> None:  # fmt: skip
        self.current = current
        self.accounting = accounting
        self.in_fleet = accounting.ledger.leases is not None
        self.routing = routing  # for requests that begin from now on
        self._limits = limits
        self._on_full_disk = cost_tracking.on_full_disk
        self._refuse_unpriced = cost_tracking.on_unpriced == "refuse"
        self._endpoints = Endpoints(pool, lambda *of: limits.gate(of[0], of[1], accounting.monotonic(), owner=of[2]).learnt)
        self._endpoints.warm(current.catalog)
        self.response_times = ResponseTimes()
        self.hedge_budget = HedgeBudget()
        self.voice_projects: set[str] = set()
        """Projects that have transcribed or spoken something since the start."""
        self._catalog: Catalog | None = None
        self.shadows: Shadows | None = None
        """Copies a share of transcriptions for second models; None: the configuration has none."""
        self.routes = RouteChooser(accounting.monotonic)
        self.respellings = Respellings()
        self._cache: dict[tuple[str, Modality, str, str, bool], Candidates] = {}

    def plan(self, spec: RequestSpec, caller: Caller) -> Candidates:
        """Return the candidates, cached per catalog. Raise what `Catalog.project` and `Catalog.resolve` raise."""
        catalog, modality = self.current.catalog, spec.modality
        if catalog is not self._catalog:
            self._catalog, self._cache = catalog, {}
        vendor = self._vendor(spec.requested, caller) if caller.path_vendor else caller.vendor
        key = (spec.requested, modality, caller.project, vendor, caller.fallback)
        candidates = self._cache.get(key)
        if candidates is None:
            project = catalog.project(caller.project)
            if (route := catalog.route(spec.requested, modality, project)) is not None:
                priced = partial(self._cost_of, spec=spec, catalog=catalog)
                candidates = self.routes.candidates(catalog, project, route, spec, caller, priced)
            else:
                model = catalog.resolve(spec.requested, modality, project, dialect_provider=vendor)
                models = catalog.candidates(model, project, fallback=caller.fallback)
                candidates = Candidates(catalog, project, models)
                if catalog.is_listed(model):
                    self._cache[key] = candidates  # only names of the catalog, so callers cannot fill it
        if caller.candidates and caller.fallback:
            project, first, routed = candidates.project, candidates.models[0], candidates.routed
            others = [catalog.resolve(n, modality, project, dialect_provider=caller.vendor) for n in caller.candidates]
            named = zip(others, caller.candidate_voices, strict=False)
            voices = {model.id: voice for model, voice in named if voice and model is not first}
            if (voice := candidates.voices.get(first.id)) is not None:
                voices[first.id] = voice
            candidates = Candidates(catalog, project, tuple(dict.fromkeys((first, *others))), voices, routed=routed)
        if is_limited(candidates.project, caller):
            candidates = replace(candidates, models=within(candidates.models, catalog, candidates.project, caller))
        if caller.limits is not None:
            candidates = replace(candidates, models=allowed(candidates.models, caller.limits))
        return candidates

    def begin_voice(self, meter: Meter, spec: RequestSpec, candidates: Candidates) -> None:
        """Note that a project speaks or listens, and begin the shadow of a transcription that has one."""
        self.voice_projects.add(candidates.project.id)
        if self.shadows is not None and isinstance(request := spec.settings, (ListenRequest, TranscribeRequest)):
            meter.shadow = self.shadows.for_call(request, meter.caller, candidates.models[0].id, meter.id, candidates.project)

    def _cost_of(self, model: Model, spec: RequestSpec, catalog: Catalog) -> int | None:
        """Return the estimated cost of a request with a model; None without a price."""
        accounting = self.accounting
        return cost_of(accounting.book, spec.estimate, model, catalog.provider(model.provider), utc_day(accounting.clock.now())).nusd

    def _vendor(self, name: str, caller: Caller) -> str:
        """Return which of the two vendors that have the caller's path is meant by a name: the one that alone has such names."""
        book, maker = self.accounting.book, split_model_id(name)[0]
        if caller.path_vendor == "livekit":
            return caller.path_vendor if maker else caller.vendor
        is_other = book.has(caller.path_vendor, name) and not book.has(caller.vendor, name)
        if is_other or (maker and maker not in self.current.catalog.providers):
            return caller.path_vendor
        return caller.vendor

    def is_voice(self, project: Project) -> bool:
        """Return whether a project speaks or listens: it has, or its default stack would."""
        stack = self.current.catalog.stacks.get(project.default_stack or "")
        return project.id in self.voice_projects or bool(stack and (stack.stt or stack.tts))

    def room(self, candidates: Candidates, caller: Caller, estimate_nusd: int, *, has_place: bool = False) -> Pending:
        """Return the wait until a request finds all that it needs to be admitted: a place, and room in what several processes share.

        None if all is there, or if waiting cannot help. `has_place`: as for `admit`, which is to be called when the wait has ended.
        """
        if not (self.in_fleet or candidates.may_be_full):
            return None
        first = self._lacking(candidates, caller, estimate_nusd, has_place=has_place)
        if first is None:
            return None

        def lacking() -> Awaitable[bool] | None:
            if (wait := self._lacking(candidates, caller, estimate_nusd, has_place=has_place)) is not None:
                self.hand_over(candidates)  # a place that would be idle while this request waits for something else
            return wait

        return _all_there(first, lacking)

    def _lacking(self, candidates: Candidates, caller: Caller, estimate_nusd: int, *, has_place: bool) -> Awaitable[bool] | None:
        """Return the wait for the next thing that a request lacks; None if it lacks nothing."""
        if not has_place and (place := self._place(candidates, caller)) is not None:
            return place
        return request_limits.room(self.accounting.ledger, candidates, caller, estimate_nusd) if self.in_fleet else None

    def lease_call(self, candidates: Candidates, model: Model, now: float) -> Pending:
        """Return the wait for a call of a provider whose limits a fleet shares; None if there is one, or no such limit."""
        provider = candidates.catalog.provider(model.provider)
        if provider.requests_per_minute is None and provider.max_concurrent is None:
            return None
        gate = self._gate(candidates.project, provider, model, now)
        first = _wait_of(gate)
        return None if first is None else _all_there(first, partial(_wait_of, gate))

    def estimate(self, meter: Meter, spec: RequestSpec, candidates: Candidates) -> int:
        """Return the estimated cost in nano-USD, priced as the first candidate or by the stand-in, and note it in the meter."""
        model = candidates.models[0]
        estimate = meter.cost_of(spec.estimate, model, candidates.catalog.provider(model.provider)).nusd
        meter.estimate = spec.estimate
        meter.estimate_nusd = estimate
        if estimate is None:
            meter.estimated_nusd = estimate = meter.stand_in(spec.estimate)
        return estimate

    def admit(self, meter: Meter, candidates: Candidates, estimate_nusd: int, *, has_place: bool = False) -> None:
        """Reserve the estimate. Raise what `admission.admit`, `gw.relay.key_limits` and `SharedBudgets.check` raise.

        `has_place`: the caller gives up a place among the requests at once for this one, which is not refused as one too many.
        """
        accounting, caller, project = self.accounting, meter.caller, candidates.project
        ledger, accepting = accounting.ledger, accounting.records.accepting
        if caller.limits is not None or candidates.longer is not None:
            self._check_limits(candidates, caller, estimate_nusd, accepting=accepting, has_place=has_place)
        if has_place and project.max_concurrent is not None:
            project = replace(project, max_concurrent=None)
        meter.reservation = reservation = admission.admit(
            ledger, project, estimate_nusd, store_accepts=accepting, on_full_disk=self._on_full_disk, budgets=candidates.budgets,
        )  # fmt: skip
        if caller.key_id is not None:
            ledger.charge_key(reservation, caller.key_id, request_limits.key_leases(ledger, candidates, caller))

    def admit_more(self, meter: Meter, candidates: Candidates, nusd: int, used_nusd: int) -> None:
        """Reserve more for a request that runs, and has used `used_nusd` of it. Raise what `admit` raises for want of money."""
        accounting, caller, reservation = self.accounting, meter.caller, meter.reservation
        assert reservation is not None
        ledger, accepting = accounting.ledger, accounting.records.accepting
        if caller.limits is not None or candidates.longer is not None:
            self._check_limits(candidates, caller, nusd, accepting=accepting, has_place=True, is_new=False)
        admission.check_budget(
            ledger, candidates.project, nusd, used_nusd=used_nusd, store_accepts=accepting, on_full_disk=self._on_full_disk,
            budgets=candidates.budgets,
        )  # fmt: skip
        ledger.extend(reservation, nusd)

    def count_response(self, caller: Caller) -> None:
        """Count a response of a session for the rate of the caller's key. Raise KeyRateLimited for one too many."""
        if caller.limits is not None and caller.key_id is not None:
            key = self.accounting.ledger.limited_key(caller.key_id, caller.limits)
            check_rate(key, caller.limits, caller.key_id, trio.current_time())

    def count(self, candidates: Candidates, caller: Caller) -> Reservation:
        """Return a reservation of no money and without any check, which counts as a request at once until it is settled."""
        ledger = self.accounting.ledger
        leases = tuple([one.lease for one in ledger.budget_leases(candidates.budgets)])
        reservation = ledger.reserve(candidates.project.id, 0, leases)
        if caller.key_id is not None:
            ledger.charge_key(reservation, caller.key_id, request_limits.key_leases(ledger, candidates, caller))
        return reservation

    def _check_limits(
        self, candidates: Candidates, caller: Caller, estimate_nusd: int, *, accepting: bool, has_place: bool, is_new: bool = True
    ) -> None:
        """Check the limits of the caller's key, and the project's budgets of more than a day."""
        longer, limits = candidates.longer, caller.limits
        must_hold = (longer is not None and longer.blocks) or (limits is not None and bool(budgets_of(limits)))
        if must_hold and not accepting and self._on_full_disk == "budgets":
            raise StoreUnavailable(what="usage cannot be recorded now, and the budget of this project or key must hold")
        now = trio.current_time()
        request_limits.check_limits(self.accounting.ledger, candidates, caller, estimate_nusd, now, has_place=has_place, is_new=is_new)

    def _place(self, candidates: Candidates, caller: Caller) -> Awaitable[bool] | None:
        """Return the wait of a request whose key, project or only provider has as many at once as it may; else None."""
        ledger, project = self.accounting.ledger, candidates.project
        if self.in_fleet and (key := request_limits.shared_key(ledger, caller)) is not None and key.is_full():
            return key.wait_for_slot()
        if project.max_concurrent is not None and ledger.is_full(project):
            return self._wait_in_project(project, caller)
        if candidates.limited is None:
            return None
        gate, now = self._only_gate(candidates), trio.current_time()
        return self._wait_for_provider(gate, project, caller) if gate is not None and gate.is_full(now) else None

    async def _wait_in_project(self, project: Project, caller: Caller) -> bool:
        ledger = self.accounting.ledger
        if await _slot_there(ledger.slots(project)) and not ledger.is_full(project):
            return True
        return await ledger.place(project, caller.key_id or "")

    async def _wait_for_provider(self, gate: Gate, project: Project, caller: Caller) -> bool:
        if await _slot_there(gate.shared.slots) and not gate.is_full(trio.current_time()):
            return True
        return await gate.place(project.id, caller.key_id or "", project.weight, trio.current_time())

    def _only_gate(self, candidates: Candidates) -> Gate | None:
        """Return the gate of the only candidate, if there is, or may be, a limit of calls at once."""
        if candidates.limited is None:
            return None
        return self._gate(candidates.project, candidates.limited, candidates.models[0], trio.current_time())

    def hand_over(self, candidates: Candidates) -> None:
        """Give on the places of a request that failed, perhaps without having taken them."""
        if candidates.project.max_concurrent is not None:
            self.accounting.ledger.hand_over(candidates.project.id)
        if (gate := self._only_gate(candidates)) is not None:
            gate.hand_over()

    def endpoint(self, candidates: Candidates, model: Model) -> tuple[Provider, ProviderSpec, Account]:
        """Return where a candidate is. Raise ProviderError if it cannot be called."""
        return self._endpoints.get(candidates.catalog, model, candidates.project)

    def prepare(
        self, spec: RequestSpec, candidates: Candidates, model: Model,
        call_for: Callable[[ProviderSpec, Account, Model], OpenCall[S]], now: float,
    ) -> PreparedCall[S]:  # fmt: skip
        """Check one candidate and enter its gate. Raise ProviderError, also from `call_for`, to have it passed over."""
        provider, provider_spec, account = self.endpoint(candidates, model)
        if spec.needs and (missing := spec.needs - provider_spec.abilities):
            names = tuple(sorted(missing))
            detail = "cannot do " + ", ".join(names)
            raise CandidateSkipped(provider=provider.id, reason="missing_ability", detail=detail, settings=names)
        ignored: tuple[str, ...] = ()
        if spec.settings is not None:
            ignored = honoured(spec.settings, spec.call, provider_spec, account)
        elif provider_spec.chat_variant is not None and spec.chat is not None:
            ignored = chat_honoured(spec.chat, provider_spec, provider.id)
        if self._refuse_unpriced and provider.location != "local" and not self._is_priced(model, provider):
            detail = "no price known and cost_tracking.on_unpriced is refuse"
            raise CandidateSkipped(provider=provider.id, reason="unpriced", detail=detail)
        call = call_for(provider_spec, account, model)
        gate = self._gate(candidates.project, provider, model, now)
        beside = gate.enter(now)
        own = spec.settings is not None and takes_own(spec.settings, provider_spec, account)
        return PreparedCall(model, provider, provider_spec, gate, call, beside, ignored, takes_own=own)

    def uncalled_gate(self, candidates: Candidates, model: Model, now: float) -> UncalledGate:
        """Return a gate for a candidate that is answered for without a call."""
        gate = self._gate(candidates.project, candidates.catalog.provider(model.provider), model, now)
        return UncalledGate(gate.shared, model.id, self.routing.breaker)

    def _gate(self, project: Project, provider: Provider, model: Model, now: float) -> Gate:
        return self._limits.gate(provider, model, now, owner=project.id if provider.id in project.provider_keys else "")

    def unsupported(self, spec: RequestSpec, candidates: Candidates) -> list[tuple[Model, CandidateSkipped]]:
        """Return all candidates with why they cannot honour the settings; nothing if one of them may."""
        skipped: list[tuple[Model, CandidateSkipped]] = []
        if spec.settings is None or not spec.settings.needs:
            return []
        for model in candidates.models:
            try:
                _, provider_spec, account = self._endpoints.get(candidates.catalog, model, candidates.project)
                honoured(spec.settings, spec.call, provider_spec, account)
            except CandidateSkipped as skip:
                if not skip.settings:
                    return []  # it fails for another reason, which the attempt will show
                skipped.append((model, skip))
            except ProviderError:
                return []
            else:
                return []
        return skipped

    def _is_priced(self, model: Model, provider: Provider) -> bool:
        day = utc_day(self.accounting.clock.now())
        return price_of(self.accounting.book, model, provider, day, live=True) is not None


async def _all_there(wait: Awaitable[bool] | None, lacking: Callable[[], Awaitable[bool] | None]) -> None:
    """Wait for one thing after another, since others may take the one while a request waits for the next: PLACE_S in all, about.

    `lacking` returns the next wait; None if there is nothing more to wait for. A wait that was in vain is the last.
    """
    ends = trio.current_time() + PLACE_S
    waits = 0
    while wait is not None and await wait:
        waits += 1
        wait = lacking() if waits < _MOST_WAITS and trio.current_time() < ends else None


def _wait_of(gate: Gate) -> Awaitable[bool] | None:
    """Return the wait for a slot or a call that has to be leased; None: both are there, or none can be had."""
    slots, bucket = gate.shared.slots, gate.bucket
    if slots is not None and (slot := slots.wait()) is not None:
        return slot
    return bucket.leases.wait(bucket.lease, 1) if isinstance(bucket, LeasedBucket) else None


async def _slot_there(slots: LeasedSlots | None) -> bool:
    """Wait for the bank, if that may help. Return whether it has granted a slot."""
    return slots is not None and (wait := slots.wait()) is not None and await wait


def offered(
    call: Callable[..., AbstractAsyncContextManager[S]] | None, account: Account
) -> Callable[..., AbstractAsyncContextManager[S]]:
    """Return a provider type's call. Raise CandidateSkipped where the type does not offer it."""
    check_offered(call, account)
    assert call is not None
    return call
