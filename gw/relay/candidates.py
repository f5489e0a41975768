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
from gw.relay.key_limits import allowed, budgets_of
from gw.relay.leased_limits import LeasedBucket, LeasedSlots
from gw.relay.limits import Gate, ProviderLimits, UncalledGate
from gw.relay.meter import Meter, cost_of, price_of
from gw.relay.prepared_call import OpenCall, PreparedCall
from gw.relay.request_spec import RequestSpec
from gw.relay.residency import within
from gw.relay.respelled_speech import Respellings
from gw.relay.route_choice import RouteChooser
from gw.relay.shared_key import SharedKey
from gw.telemetry.clock import utc_day
from gw.types.entities import Project
from gw.types.ids import Caller, Modality, split_model_id
from gw.types.pending import Pending

_TRIES = 4
"""Waits of a request for what it has to lease: each lasts for 50 ms, or in a queue for a second, and usually the first one does."""
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
        if candidates.project.regions or caller.regions:
            candidates = replace(candidates, models=within(candidates.models, catalog, candidates.project, caller))
        if caller.limits is not None:
            candidates = replace(candidates, models=allowed(candidates.models, caller.limits))
        return candidates

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

    def lease(self, candidates: Candidates, caller: Caller, estimate_nusd: int) -> Pending:
        """Return the wait for room in limits of the project or the key that several processes share; None if there is room, or no limit."""
        return request_limits.room(self.accounting.ledger, candidates, caller, estimate_nusd)

    async def wait_for_lease(self, room: Awaitable[None], candidates: Candidates, caller: Caller, estimate_nusd: int) -> None:
        """Wait for room, which has to be leased, and again for the place, which another request may have taken meanwhile."""
        await room
        for _ in range(_TRIES):
            if (place := self.place(candidates, caller)) is None:
                return
            await place
            if (again := self.lease(candidates, caller, estimate_nusd)) is None:
                return
            await again

    def lease_call(self, candidates: Candidates, model: Model, now: float) -> Pending:
        """Return the wait for a call of a provider whose limits a fleet shares; None if there is one, or no such limit."""
        provider = candidates.catalog.provider(model.provider)
        if provider.requests_per_minute is None and provider.max_concurrent is None:
            return None
        gate = self._gate(candidates, model, now)
        pending = _wait_of(gate)
        return None if pending is None else self._wait_for_call(pending, gate)

    async def _wait_for_call(self, pending: Awaitable[None], gate: Gate) -> None:
        await pending
        for _ in range(_TRIES):  # what was leased may have been taken by another request while this one waited for the rest
            if (again := _wait_of(gate)) is None:
                return
            await again

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

    def count(self, candidates: Candidates, caller: Caller) -> Reservation:
        """Return a reservation of no money and without any check, which counts as a request at once until it is settled."""
        ledger = self.accounting.ledger
        leases = tuple([one.lease for one in ledger.budget_leases(candidates.budgets)])
        reservation = ledger.reserve(candidates.project.id, 0, leases)
        if caller.key_id is not None:
            ledger.charge_key(reservation, caller.key_id, request_limits.key_leases(ledger, candidates, caller))
        return reservation

    def _check_limits(
        self, candidates: Candidates, caller: Caller, estimate_nusd: int, *, accepting: bool, has_place: bool
    ) -> None:
        """Check the limits of the caller's key, and the project's budgets of more than a day."""
        longer, limits = candidates.longer, caller.limits
        must_hold = (longer is not None and longer.blocks) or (limits is not None and bool(budgets_of(limits)))
        if must_hold and not accepting and self._on_full_disk == "budgets":
            raise StoreUnavailable(what="usage cannot be recorded now, and the budget of this project or key must hold")
        now = trio.current_time()
        request_limits.check_limits(self.accounting.ledger, candidates, caller, estimate_nusd, now, has_place=has_place)

    def place(self, candidates: Candidates, caller: Caller) -> Pending:
        """Return the wait of a request whose key, project or only provider has as many at once as it may; else None."""
        if self.in_fleet and (key := request_limits.shared_key(self.accounting.ledger, caller)) is not None and key.is_full():
            return self._wait_for_key(key, candidates, caller)
        return self._place_of_all(candidates, caller)

    def _place_of_all(self, candidates: Candidates, caller: Caller) -> Pending:
        project = candidates.project
        if project.max_concurrent is not None and self.accounting.ledger.is_full(project):
            return self._wait_in_project(candidates, caller)
        if candidates.limited is None:
            return None
        gate, now = self._only_gate(candidates), trio.current_time()
        return self._wait_for_provider(gate, project, caller) if gate is not None and gate.is_full(now) else None

    async def _wait_for_key(self, key: SharedKey, candidates: Candidates, caller: Caller) -> None:
        await key.wait_for_slot()
        if (place := self._place_of_all(candidates, caller)) is not None:
            await place

    async def _wait_in_project(self, candidates: Candidates, caller: Caller) -> None:
        project, ledger = candidates.project, self.accounting.ledger
        if await _slot_there(ledger.slots(project)) and not ledger.is_full(project):
            is_there = True
        else:
            is_there = await ledger.place(project, caller.key_id or "")
        if is_there:
            gate = self._only_gate(candidates)
            if gate is not None and gate.is_full(trio.current_time()):
                await self._wait_for_provider(gate, project, caller)

    async def _wait_for_provider(self, gate: Gate, project: Project, caller: Caller) -> None:
        if not (await _slot_there(gate.shared.slots) and not gate.is_full(trio.current_time())):
            await gate.place(project.id, caller.key_id or "", project.weight, trio.current_time())

    def _only_gate(self, candidates: Candidates) -> Gate | None:
        """Return the gate of the only candidate, if there is, or may be, a limit of calls at once."""
        return None if candidates.limited is None else self._gate(candidates, candidates.models[0], trio.current_time())

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
        gate = self._gate(candidates, model, now)
        beside = gate.enter(now)
        own = spec.settings is not None and takes_own(spec.settings, provider_spec, account)
        return PreparedCall(model, provider, provider_spec, gate, call, beside, ignored, takes_own=own)

    def uncalled_gate(self, candidates: Candidates, model: Model, now: float) -> UncalledGate:
        """Return a gate for a candidate that is answered for without a call."""
        return UncalledGate(self._gate(candidates, model, now).shared, model.id, self.routing.breaker)

    def _gate(self, candidates: Candidates, model: Model, now: float) -> Gate:
        provider, project = candidates.catalog.provider(model.provider), candidates.project
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


def _wait_of(gate: Gate) -> Awaitable[None] | None:
    """Return the wait for a slot or a call that has to be leased; None: both are there, or none can be had."""
    slots, bucket = gate.shared.slots, gate.bucket
    if slots is not None and (slot := slots.wait()) is not None:
        return slot
    return bucket.leases.wait(bucket.lease, 1) if isinstance(bucket, LeasedBucket) else None


async def _slot_there(slots: LeasedSlots | None) -> bool:
    """Wait for the bank, if that may help. Return whether there was something to wait for."""
    if slots is None or (wait := slots.wait()) is None:
        return False
    await wait
    return True


def offered(
    call: Callable[..., AbstractAsyncContextManager[S]] | None, account: Account
) -> Callable[..., AbstractAsyncContextManager[S]]:
    """Return a provider type's call. Raise CandidateSkipped where the type does not offer it."""
    check_offered(call, account)
    assert call is not None
    return call
