"""One gate per provider: token bucket, circuit breaker, concurrency, and the vendor's own Retry-After.

Plain objects, no tasks: nothing here waits. An empty bucket or an open breaker means the next candidate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gw.config.settings import BreakerSettings
from gw.errors import (
    CandidateSkipped,
    PluginMissing,
    ProviderError,
    ProviderRefused,
    ProviderRejected,
    RateLimitError,
    StaleConnection,
)
from gw.policy.breaker import Breaker, GateView, gate_name
from gw.policy.bucket import Bucket
from gw.registry.catalog import Provider

_LONGEST_RETRY_AFTER_S = 120.0
"""Upper bound on a vendor's Retry-After: an absurd one must not switch a provider off for a day."""


class Gate:
    """Limits and health of one provider. `enter` before a call, `leave` after it."""

    def __init__(self, provider: Provider, breaker: BreakerSettings, now: float) -> None:
        self.provider = provider
        self.in_flight = 0
        self.breaker = Breaker(breaker.failures, breaker.open_s)
        self.bucket = Bucket(provider.requests_per_minute, now) if provider.requests_per_minute else None
        self._closed_until = 0.0

    def enter(self, now: float) -> None:
        """Take a place. Raise RateLimitError or CandidateSkipped with the reason to pass this provider over."""
        provider = self.provider
        if self._closed_until > now:
            wait, detail = self._closed_until - now, "its Retry-After has not passed"
            raise RateLimitError(provider=provider.id, limit_source="upstream", retry_after_s=wait, detail=detail)
        if provider.max_concurrent is not None and self.in_flight >= provider.max_concurrent:
            raise CandidateSkipped(provider=provider.id, reason="busy", detail="max_concurrent reached")
        if not self.breaker.allow(now):
            raise CandidateSkipped(provider=provider.id, reason="breaker_open", detail="circuit breaker open")
        if self.bucket is not None and (wait := self.bucket.take(now)):
            self.breaker.abandoned()
            detail = f"requests_per_minute {provider.requests_per_minute} used up"
            raise RateLimitError(provider=provider.id, limit_source="configured", retry_after_s=wait, detail=detail)
        self.in_flight += 1

    def leave(self, now: float, error: ProviderError | None, *, answered: bool) -> None:
        """Release the place. `answered`: content came. A call without content or error was cancelled."""
        self.in_flight -= 1
        if isinstance(error, RateLimitError) and error.retry_after_s:
            self._closed_until = now + min(error.retry_after_s, _LONGEST_RETRY_AFTER_S)
        if (error is None and not answered) or isinstance(error, (StaleConnection, PluginMissing)):
            self.breaker.abandoned()
        elif error is None or isinstance(error, (ProviderRejected, ProviderRefused, RateLimitError)):
            self.breaker.success()
        else:
            self.breaker.failure(now)

    def reset_health(self, breaker: BreakerSettings) -> None:
        """Forget failures and Retry-After, not the calls in flight."""
        self.breaker = Breaker(breaker.failures, breaker.open_s)
        self._closed_until = 0.0

    def view(self, now: float) -> GateView:
        remaining, reset_s = self.bucket.left(now) if self.bucket else (None, None)
        breaker, limit = self.breaker.state(now), self.provider.requests_per_minute
        return GateView(self.provider.id, breaker, self.in_flight, limit, remaining, reset_s)


class ProviderLimits:
    """The gates by provider id.

    A provider keeps its gate when the catalog changes; with another rate it gets a new bucket, and with another key or
    address a new breaker, since the vendor's answers were about the old account.
    """

    def __init__(self, breaker: BreakerSettings) -> None:
        self._breaker = breaker
        self._gates: dict[str, Gate] = {}

    def configure(self, breaker: BreakerSettings) -> None:
        """Reset the breakers where the settings changed; buckets and counts stay."""
        if breaker != self._breaker:
            self._breaker = breaker
            for gate in self._gates.values():
                gate.breaker = Breaker(breaker.failures, breaker.open_s)

    def gate(self, provider: Provider, now: float, *, owner: str = "") -> Gate:
        """Return a provider's gate. `owner`: a project whose calls use its own key, which has its own limits."""
        name = gate_name(provider.id, owner)
        gate = self._gates.get(name)
        if gate is None:
            gate = self._gates[name] = Gate(provider, self._breaker, now)
        elif gate.provider is not provider:
            old = gate.provider
            if old.requests_per_minute != provider.requests_per_minute:
                gate.bucket = Bucket(provider.requests_per_minute, now) if provider.requests_per_minute else None
            if (old.type, old.base_url, old.api_key) != (provider.type, provider.base_url, provider.api_key):
                gate.reset_health(self._breaker)
            gate.provider = provider
        return gate

    def keep(self, providers: Collection[str]) -> None:
        """Drop the gates of all but these; calls in flight keep theirs until they end."""
        self._gates = {name: gate for name, gate in self._gates.items() if gate.provider.id in providers}

    def view(self, now: float) -> Mapping[str, GateView]:
        return {name: gate.view(now) for name, gate in self._gates.items()}
