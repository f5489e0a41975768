"""Limits and health in front of each call: token bucket, concurrency, circuit breakers, and the vendor's own Retry-After.

What is counted where:

    provider (one key)            token bucket, concurrency; a breaker for a wrong key, no credit, a host that is not reached
    candidate (one model of it)   a breaker for everything else that fails, Retry-After, and the slots that the vendor's answers tell:
                                  one model's limit is not another's

A fault of the caller's request counts nowhere. Plain objects, no tasks. An empty bucket or an open breaker means the next
candidate; only a request without another one waits, and only for a place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from gw.config.settings import BreakerSettings
from gw.errors import (
    CandidateSkipped,
    EmptyAnswer,
    OutOfDescriptors,
    PluginMissing,
    ProviderError,
    ProviderFailed,
    ProviderRefused,
    ProviderRejected,
    ProviderUnreachable,
    RateLimitError,
    StaleConnection,
)
from gw.policy.breaker import Breaker, gate_name
from gw.policy.bucket import Bucket
from gw.policy.learnt_slots import LearntSlots
from gw.registry.catalog import Model, Provider
from gw.relay.leased_limits import LeasedBucket, LeasedSlots, why_refused
from gw.relay.leases import Leases
from gw.relay.places import Places
from gw.types.gate_view import BreakerState, GateView, of_all_processes
from gw.types.notices import GateNotice

Announce: TypeAlias = Callable[[str, str, float], None]
"""Tells the other gateways of a fleet: name of a gate, model ("" = all), and Retry-After in seconds or 0 for an open breaker."""
_LONGEST_RETRY_AFTER_S = 120.0
"""Upper bound on a vendor's Retry-After: an absurd one must not switch a model off for a day."""
_SAME_S = 1.0
"""A Retry-After that ends about when the last one does is no news to other gateways."""
_MOST_MODELS = 1_000  # of a provider: callers may name models that are not listed
_SAYS_NOTHING_OF_HEALTH = (EmptyAnswer, StaleConnection, PluginMissing, OutOfDescriptors)


class ProviderGate:
    """Limits and health that all models of a provider share."""

    def __init__(
        self, provider: Provider, breaker: BreakerSettings, now: float, *, name: str = "", leases: Leases | None = None,
        announce: Announce | None = None,
    ) -> None:  # fmt: skip
        self.provider = provider
        self._name = name
        self._announce = announce
        self._leases = leases
        self.in_flight = 0
        self.places: Places | None = None  # for requests that have no other candidate, once one had to wait
        self.bucket: Bucket | LeasedBucket | None = None
        self.slots: LeasedSlots | None = None
        self.begin_bucket(provider.requests_per_minute, now)
        self.begin_slots(provider.max_concurrent)
        self.models: dict[str, Gate] = {}
        self.reset_health(breaker)

    def reset_health(self, breaker: BreakerSettings) -> None:
        """Forget failures and Retry-After, not the calls in flight."""
        self._breaker_settings = breaker
        self.breaker = Breaker(breaker.failures, breaker.open_s)
        for gate in self.models.values():
            gate.reset_health(breaker)

    def begin_bucket(self, per_minute: int | None, now: float) -> None:
        """Begin to count calls, in a bucket of this process or in one that the fleet shares."""
        if isinstance(self.bucket, LeasedBucket):
            self.bucket.end()
        if not per_minute:
            self.bucket = None
        elif self._leases is None:
            self.bucket = Bucket(per_minute, now)
        else:
            self.bucket = LeasedBucket(self._leases, f"rate:{self._name}", per_minute)

    def begin_slots(self, most: int | None) -> None:
        """Begin to share the calls at once with the fleet, if there is one; those in flight are counted."""
        if most is None:
            if self.slots is not None:
                self.slots.end()
            self.slots = None
        elif self._leases is not None:
            self.slots = LeasedSlots(self._leases, f"slots:provider:{self._name}", most, lambda: self.in_flight, self.hand_over)

    def end(self) -> None:
        """Stop sharing limits with the fleet: the provider was deleted."""
        if self.slots is not None:
            self.slots.end()
        if isinstance(self.bucket, LeasedBucket):
            self.bucket.end()
        self.slots = self.bucket = None

    def hand_over(self) -> None:
        """Give a free place to the request whose turn it is."""
        if (places := self.places) is not None:
            if self.slots is not None:
                places.most = self.slots.most
            places.hand_over()

    def new_model(self, key: str) -> Gate:
        """Return the gate of a model that has none yet."""
        if len(self.models) >= _MOST_MODELS:
            del self.models[next(iter(self.models))]  # the oldest; calls in flight keep theirs until they end
        gate = self.models[key] = Gate(self, key, self._breaker_settings)
        return gate

    def announce(self, model: str, retry_after_s: float = 0.0) -> None:
        """Tell the other gateways of a fleet what was learnt about the vendor. `model`: "" = all of them."""
        if self._announce is not None:
            self._announce(self._name, model, retry_after_s)

    def view(self, now: float) -> GateView:
        remaining, reset_s = self.bucket.left(now) if self.bucket else (None, None)
        states = {key: gate.breaker.state(now) for key, gate in self.models.items()}
        broken = {key: state for key, state in states.items() if state != "closed"}
        slots = {key: view for key, gate in self.models.items() if (view := gate.learnt.view(now)) is not None}
        return GateView(
            self.provider.id, self._state(now, states), self.in_flight, self.provider.requests_per_minute, remaining, reset_s,
            broken, slots,
        )  # fmt: skip

    def _state(self, now: float, models: Mapping[str, BreakerState]) -> BreakerState:
        """Return the state of the provider as a whole: broken if it is, or if all models called so far are."""
        own = self.breaker.state(now)
        if own != "closed" or not models or "closed" in models.values():
            return own
        return "half_open" if "half_open" in models.values() else "open"


class Gate:
    """Limits and health of one candidate. `enter` before a call, `leave` after it."""

    def __init__(self, shared: ProviderGate, key: str, breaker: BreakerSettings) -> None:
        self.shared = shared
        self._key = key
        self.learnt = LearntSlots()
        self._places: Places | None = None  # for requests that have no other candidate, once one had to wait for a learnt slot
        self.reset_health(breaker)

    def reset_health(self, breaker: BreakerSettings) -> None:
        self.breaker = Breaker(breaker.failures, breaker.open_s)
        self._closed_until = 0.0

    @property
    def bucket(self) -> Bucket | LeasedBucket | None:
        return self.shared.bucket

    @property
    def in_flight(self) -> int:
        return self.shared.in_flight

    def is_full(self, now: float) -> bool:
        """Return whether as many calls run, or are about to, as the provider's settings or its vendor allow at once."""
        return self._has_most() or (self.learnt.known_until > now and self._vendor_is_full(now))

    def _vendor_is_full(self, now: float) -> bool:
        room = self.learnt.room(now)
        return room is not None and room <= (self._places.promised if self._places is not None else 0)

    def _has_most(self) -> bool:
        most, places = self.shared.provider.max_concurrent, self.shared.places
        if most is None:
            return False
        if self.shared.slots is not None:
            most = self.shared.slots.most
        return self.shared.in_flight + (places.promised if places is not None else 0) >= most

    def place(self, project: str, key: str, weight: int, now: float) -> Awaitable[bool]:
        """Wait for a place at the provider, which is full; return whether there is one."""
        shared = self.shared
        if not self._has_most():
            if self._places is None:
                self._places = Places(1, lambda: self.learnt.in_flight)
            self._places.most = self.learnt.most_here(now)
            return self._places.wait(project, key, weight)
        most = shared.provider.max_concurrent or 1
        if shared.places is None:
            shared.places = Places(most, lambda: shared.in_flight)
        shared.places.most = most if shared.slots is None else shared.slots.most
        place = shared.places.wait(project, key, weight)
        return place if shared.slots is None else shared.slots.queue(place)

    def hand_over(self) -> None:
        """Give a free place of the provider to the request whose turn it is."""
        self.shared.hand_over()
        if self._places is not None:
            self._places.hand_over()

    def enter(self, now: float) -> int:
        """Take a place, and return how many calls of the candidate ran before.

        Raise RateLimitError or CandidateSkipped with the reason to pass this candidate over.
        """
        shared, provider = self.shared, self.shared.provider
        if self._closed_until > now:
            wait, detail = self._closed_until - now, "its Retry-After has not passed"
            raise RateLimitError(provider=provider.id, limit_source="upstream", retry_after_s=wait, detail=detail)
        if provider.max_concurrent is not None and self._has_most():
            detail = why_refused(shared.slots, f"max_concurrent {provider.max_concurrent}", "max_concurrent reached")
            raise CandidateSkipped(provider=provider.id, reason="busy", detail=detail)
        if self.learnt.known_until > now and self._vendor_is_full(now):
            raise CandidateSkipped(provider=provider.id, reason="busy", detail=self._full_detail(now))
        if not self.breaker.allow(now):
            raise CandidateSkipped(provider=provider.id, reason="breaker_open", detail="circuit breaker of the model open")
        if not shared.breaker.allow(now):
            self.breaker.abandoned()
            raise CandidateSkipped(provider=provider.id, reason="breaker_open", detail="circuit breaker open")
        if shared.bucket is not None and (wait := shared.bucket.take(now)):
            self.breaker.abandoned()
            shared.breaker.abandoned()
            limit = f"requests_per_minute {provider.requests_per_minute}"
            detail = why_refused(shared.bucket, limit, f"{limit} used up")
            raise RateLimitError(provider=provider.id, limit_source="configured", retry_after_s=wait, detail=detail)
        shared.in_flight += 1
        if shared.slots is not None:
            shared.slots.enter()
        self.learnt.in_flight += 1
        return self.learnt.in_flight - 1

    def _full_detail(self, now: float) -> str:
        view = self.learnt.view(now)
        slots = "has no slot free" if view is None or not view.most else f"has all its {view.most} slots in use"
        return f"the vendor {slots}, as its answers say"

    def leave(self, now: float, error: ProviderError | None, *, answered: bool, beside: int = 0) -> None:
        """Release the place. `answered`: content came. A call without content or error was cancelled.

        `beside`: what `enter` returned.
        """
        own, shared = self.breaker, self.shared.breaker
        self.shared.in_flight -= 1
        self.learnt.in_flight -= 1
        if isinstance(error, RateLimitError) and error.slots_full:
            self.learnt.refused(error.slots, beside, now)
        if self._places is not None:
            self._places.most = self.learnt.most_here(now)
            self._places.hand_over()
        if self.shared.slots is not None:
            self.shared.slots.leave()
        if self.shared.places is not None:
            self.shared.hand_over()
        if isinstance(error, RateLimitError) and error.retry_after_s and self.close_for(error.retry_after_s, now):
            self.shared.announce(self._key, error.retry_after_s)
        if answered and error is None:
            own.success()
            shared.success()
        elif error is None or isinstance(error, _SAYS_NOTHING_OF_HEALTH):
            own.abandoned()
            shared.abandoned()
        elif _is_alive(error):
            own.success()
            shared.success()
        elif _closes_provider(error):
            own.abandoned()
            if shared.failure(now):
                self.shared.announce("")
        else:
            if own.failure(now):
                self.shared.announce(self._key)
            shared.success()

    def close_for(self, retry_after_s: float, now: float) -> bool:
        """Make no calls for so long, as the vendor wants; return whether that changes more than _SAME_S."""
        before, self._closed_until = self._closed_until, now + min(retry_after_s, _LONGEST_RETRY_AFTER_S)
        return self._closed_until > max(now, before) + _SAME_S

    def withdraw_failure(self) -> None:
        """Note that the candidate did not fail the last time."""
        self.breaker.success()


def _is_alive(error: ProviderError) -> bool:
    """Return whether the failure is the caller's, or a limit: the candidate answers others."""
    if isinstance(error, ProviderRejected):
        return error.fault != "candidate"
    return isinstance(error, (ProviderRefused, RateLimitError))


def _closes_provider(error: ProviderError) -> bool:
    """Return whether the failure is one of the key, the account or the host, which every model would meet."""
    if isinstance(error, ProviderUnreachable):
        return error.cause not in ("", "lost")
    if isinstance(error, ProviderRejected):
        return error.upstream_status == 401
    return isinstance(error, ProviderFailed) and error.out_of_credit


class UncalledGate(Gate):
    """Stands for the gate of a candidate that is answered for without a call: nothing is counted."""

    def enter(self, now: float) -> int:
        """Let it pass."""
        return 0

    def leave(self, now: float, error: ProviderError | None, *, answered: bool, beside: int = 0) -> None:
        """Count nothing."""


class ProviderLimits:
    """The gates by provider id.

    A provider keeps its gates when the catalog changes; with another rate it gets a new bucket, and with another key or
    address new breakers, since the vendor's answers were about the old account.
    """

    def __init__(self, breaker: BreakerSettings, leases: Leases | None = None, announce: Announce | None = None) -> None:
        """`leases`: of rates and calls at once that a fleet shares; `announce` tells the others what was learnt about a vendor."""
        self._breaker = breaker
        self._leases = leases
        self._announce = announce
        self._gates: dict[str, ProviderGate] = {}
        self.elsewhere: Callable[[], Iterable[Mapping[str, GateView]]] = tuple
        """Gates of the other processes of this gateway."""

    def configure(self, breaker: BreakerSettings) -> None:
        """Reset the breakers where the settings changed; buckets and counts stay."""
        if breaker != self._breaker:
            self._breaker = breaker
            for gate in self._gates.values():
                gate.reset_health(breaker)

    def gate(self, provider: Provider, model: Model, now: float, *, owner: str = "") -> Gate:
        """Return a candidate's gate. `owner`: a project whose calls use its own key, which has its own limits."""
        name = gate_name(provider.id, owner) if owner else provider.id
        gate = self._gates.get(name)
        if gate is None:
            gate = self._gates[name] = ProviderGate(
                provider, self._breaker, now, name=name, leases=self._leases, announce=self._announce
            )
        elif gate.provider is not provider:
            old = gate.provider
            if old.requests_per_minute != provider.requests_per_minute:
                gate.begin_bucket(provider.requests_per_minute, now)
            if old.max_concurrent != provider.max_concurrent:
                gate.begin_slots(provider.max_concurrent)
            if (old.type, old.base_url, old.api_key) != (provider.type, provider.base_url, provider.api_key):
                gate.reset_health(self._breaker)
            gate.provider = provider
        key = f"{model.modality}:{model.id}"
        return gate.models.get(key) or gate.new_model(key)

    def keep(self, providers: Collection[str], models: Collection[str]) -> None:
        """Drop the gates of all but these providers and models; calls in flight keep theirs until they end."""
        for name in [name for name, gate in self._gates.items() if gate.provider.id not in providers]:
            self._gates.pop(name).end()
        for gate in self._gates.values():
            gate.models = {key: of_model for key, of_model in gate.models.items() if key in models}

    def heed(self, notice: GateNotice, now: float) -> None:
        """Take over what another gateway has learnt: leave a vendor alone, or let one trial call decide on a breaker."""
        shared = self._gates.get(notice.gate)
        if shared is None:
            return  # not called here yet
        model = shared.models.get(notice.model)
        if not notice.model:
            shared.breaker.suspect(now)
        elif model is None:
            return
        elif notice.retry_after_s:
            model.close_for(notice.retry_after_s, now)
        else:
            model.breaker.suspect(now)

    def view(self, now: float) -> Mapping[str, GateView]:
        """Return the gates by name, as they are in all processes of this gateway together."""
        return of_all_processes(({name: gate.view(now) for name, gate in self._gates.items()}, *self.elsewhere()))
