from __future__ import annotations

import pytest

from gw.config.settings import BreakerSettings
from gw.errors import CandidateSkipped, ProviderFailed, ProviderRejected, RateLimitError
from gw.registry.catalog import Provider
from gw.relay.limits import ProviderLimits
from gw.types.secret import Secret


def provider(**kw) -> Provider:
    return Provider(id="p", type="openai", location="cloud", **kw)


def gate(now: float = 0.0, **kw):
    return ProviderLimits(BreakerSettings(failures=2, open_s=10)).gate(provider(**kw), now)


def test_an_empty_bucket_says_when_to_come_back():
    g = gate(requests_per_minute=2)
    g.enter(0)
    g.enter(0)
    with pytest.raises(RateLimitError) as caught:
        g.enter(0)
    assert caught.value.limit_source == "configured"
    assert caught.value.retry_after_s == pytest.approx(30)
    g.enter(30.01)


def test_the_vendors_retry_after_closes_the_gate_and_an_absurd_one_does_not_close_it_for_ever():
    g = gate()
    g.enter(0)
    g.leave(0, RateLimitError(provider="p", limit_source="upstream", retry_after_s=1e9), answered=False)
    with pytest.raises(RateLimitError):
        g.enter(119)
    g.enter(121)


def test_failures_in_a_row_open_the_breaker_and_one_trial_closes_it():
    g = gate()
    for _ in range(2):
        g.enter(0)
        g.leave(0, ProviderFailed(provider="p", upstream_status=500), answered=False)
    with pytest.raises(CandidateSkipped) as caught:
        g.enter(5)
    assert caught.value.reason == "breaker_open"
    g.enter(11)
    with pytest.raises(CandidateSkipped):
        g.enter(11)  # one trial at a time
    g.leave(11, None, answered=True)
    g.enter(11)


def test_a_rejection_of_the_request_is_a_sign_of_life():
    g = gate()
    for _ in range(5):
        g.enter(0)
        g.leave(0, ProviderRejected(provider="p", upstream_status=400), answered=False)
    g.enter(0)


def test_a_cancelled_trial_gives_its_place_back():
    g = gate()
    for _ in range(2):
        g.enter(0)
        g.leave(0, ProviderFailed(provider="p", upstream_status=500), answered=False)
    g.enter(11)
    g.leave(12, None, answered=False)
    g.enter(12)


def test_max_concurrent():
    g = gate(max_concurrent=1)
    g.enter(0)
    with pytest.raises(CandidateSkipped) as caught:
        g.enter(0)
    assert caught.value.reason == "busy"
    g.leave(0, None, answered=True)
    g.enter(0)


def test_an_empty_bucket_does_not_use_up_the_breakers_trial():
    g = gate(requests_per_minute=2)
    for _ in range(2):
        g.enter(0)
        g.leave(0, ProviderFailed(provider="p", upstream_status=500), answered=False)
    with pytest.raises(RateLimitError):
        g.enter(11)
    g.enter(60)


def test_a_changed_provider_keeps_its_breaker_and_gets_a_new_bucket():
    limits = ProviderLimits(BreakerSettings(failures=1, open_s=10))
    g = limits.gate(provider(requests_per_minute=1), 0)
    g.enter(0)
    g.leave(0, ProviderFailed(provider="p", upstream_status=500), answered=False)
    again = limits.gate(provider(requests_per_minute=5), 1)
    assert again is g
    assert again.bucket is not None
    assert again.bucket.remaining(1) == 5
    assert limits.view(1)["p"].breaker == "open"


def test_the_fill_of_a_bucket_outlives_a_new_catalog():
    limits = ProviderLimits(BreakerSettings())
    limits.gate(provider(requests_per_minute=60), 0).enter(0)
    again = limits.gate(provider(requests_per_minute=60, max_concurrent=5), 0)
    assert again.bucket is not None
    assert (again.bucket.remaining(0), again.in_flight) == (59, 1)


@pytest.mark.parametrize("changed", [{"api_key": Secret("another")}, {"base_url": "https://other.example"}])
def test_another_key_or_address_starts_over(changed):
    limits = ProviderLimits(BreakerSettings(failures=1, open_s=10))
    for error in (
        ProviderFailed(provider="p", upstream_status=500),
        RateLimitError(provider="p", limit_source="upstream", retry_after_s=60),
    ):
        g = limits.gate(provider(), 0)
        g.enter(0)
        g.leave(0, error, answered=False)
        limits.gate(provider(**changed), 0).enter(0)
        assert limits.view(0)["p"].in_flight == 1
        limits.gate(provider(**changed), 0).leave(0, None, answered=True)
        limits.gate(provider(), 0)


def test_gates_of_deleted_providers_are_forgotten():
    limits = ProviderLimits(BreakerSettings())
    running = limits.gate(provider(), 0)
    running.enter(0)
    limits.gate(provider(), 0, owner="shop")
    limits.keep(["q"])
    assert limits.view(0) == {}
    running.leave(1, None, answered=True)
    assert limits.gate(provider(), 1).in_flight == 0
