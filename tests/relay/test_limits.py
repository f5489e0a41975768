from __future__ import annotations

import pytest

from gw.config.settings import BreakerSettings
from gw.errors import (
    CandidateSkipped,
    ProviderError,
    ProviderFailed,
    ProviderRefused,
    ProviderRejected,
    ProviderUnreachable,
    RateLimitError,
)
from gw.registry.catalog import Model, Provider
from gw.relay.limits import ProviderLimits
from gw.types.ids import Modality
from gw.types.notices import GateNotice
from gw.types.secret import Secret


def provider(**kw) -> Provider:
    return Provider(id="p", type="openai", location="cloud", **kw)


def model(name: str = "m", modality: Modality = "llm") -> Model:
    return Model(id=f"p/{name}", modality=modality, provider="p", name=name)


M = model()


def gate(now: float = 0.0, **kw):
    return ProviderLimits(BreakerSettings(failures=2, open_s=10)).gate(provider(**kw), M, now)


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
    g = limits.gate(provider(requests_per_minute=1), M, 0)
    g.enter(0)
    g.leave(0, ProviderFailed(provider="p", upstream_status=500), answered=False)
    again = limits.gate(provider(requests_per_minute=5), M, 1)
    assert again is g
    assert again.bucket is not None
    assert again.bucket.remaining(1) == 5
    assert limits.view(1)["p"].breaker == "open"


def test_the_fill_of_a_bucket_outlives_a_new_catalog():
    limits = ProviderLimits(BreakerSettings())
    limits.gate(provider(requests_per_minute=60), M, 0).enter(0)
    again = limits.gate(provider(requests_per_minute=60, max_concurrent=5), M, 0)
    assert again.bucket is not None
    assert (again.bucket.remaining(0), again.in_flight) == (59, 1)


@pytest.mark.parametrize("changed", [{"api_key": Secret("another")}, {"base_url": "https://other.example"}])
def test_another_key_or_address_starts_over(changed):
    limits = ProviderLimits(BreakerSettings(failures=1, open_s=10))
    for error in (
        ProviderFailed(provider="p", upstream_status=500),
        RateLimitError(provider="p", limit_source="upstream", retry_after_s=60),
    ):
        g = limits.gate(provider(), M, 0)
        g.enter(0)
        g.leave(0, error, answered=False)
        limits.gate(provider(**changed), M, 0).enter(0)
        assert limits.view(0)["p"].in_flight == 1
        limits.gate(provider(**changed), M, 0).leave(0, None, answered=True)
        limits.gate(provider(), M, 0)


def test_gates_of_deleted_providers_are_forgotten():
    limits = ProviderLimits(BreakerSettings())
    running = limits.gate(provider(), M, 0)
    running.enter(0)
    limits.gate(provider(), M, 0, owner="shop")
    limits.keep(["q"], [])
    assert limits.view(0) == {}
    running.leave(1, None, answered=True)
    assert limits.gate(provider(), M, 1).in_flight == 0


def fail(g, error: ProviderError, times: int = 2) -> None:
    for _ in range(times):
        g.enter(0)
        g.leave(0, error, answered=False)


def is_open(g) -> bool:
    try:
        g.enter(0)
    except (CandidateSkipped, RateLimitError):
        return True
    g.leave(0, None, answered=True)
    return False


LIMIT = RateLimitError(provider="p", limit_source="upstream", retry_after_s=60)
REJECTED = {"provider": "p", "upstream_status": 400}


@pytest.mark.parametrize(
    ("error", "times", "own", "others"),
    [
        (ProviderFailed(provider="p", upstream_status=500), 2, True, False),
        (LIMIT, 1, True, False),
        (ProviderRejected(provider="p", upstream_status=404, fault="candidate"), 2, True, False),
        (ProviderRejected(provider="p", upstream_status=403, fault="candidate"), 2, True, False),
        (ProviderUnreachable(provider="p", cause="lost"), 2, True, False),
        (ProviderRejected(provider="p", upstream_status=401, fault="candidate"), 2, True, True),
        (ProviderFailed(provider="p", upstream_status=402, out_of_credit=True), 2, True, True),
        (ProviderUnreachable(provider="p", cause="refused"), 2, True, True),
        (ProviderUnreachable(provider="p", cause="timeout"), 2, True, True),
        (ProviderRejected(**REJECTED, fault="caller"), 9, False, False),
        (ProviderRejected(**REJECTED, fault="request"), 9, False, False),
        (ProviderRefused(provider="p"), 9, False, False),
    ],
)
def test_what_closes_a_model_and_what_its_provider(error, times, own, others):
    limits = ProviderLimits(BreakerSettings(failures=2, open_s=10))
    fail(limits.gate(provider(), M, 0), error, times)
    assert is_open(limits.gate(provider(), M, 0)) == own
    assert is_open(limits.gate(provider(), model("n"), 0)) == others
    assert is_open(limits.gate(provider(), model("m", "tts"), 0)) == others


def test_a_provider_counts_as_broken_when_all_models_called_are():
    limits = ProviderLimits(BreakerSettings(failures=1, open_s=10))
    one, other = (limits.gate(provider(), model(name), 0) for name in ("one", "other"))
    fail(one, ProviderFailed(provider="p", upstream_status=500), 1)
    view = limits.view(0)["p"]
    assert (view.breaker, view.models) == ("closed", {"llm:p/one": "open"})
    fail(other, ProviderFailed(provider="p", upstream_status=500), 1)
    assert limits.view(0)["p"].breaker == "open"
    assert limits.view(11)["p"].models == {"llm:p/one": "half_open", "llm:p/other": "half_open"}
    limits.keep(["p"], ["llm:p/one"])
    assert limits.view(0)["p"].models == {"llm:p/one": "open"}


def fleet_of_two():
    """Return two gateways' limits, which pass each other what they learn, and what was passed."""
    passed = []

    def announce(gate, model, retry_after_s):
        passed.append((gate, model, retry_after_s))
        second.heed(GateNotice("a", gate, model, retry_after_s), 1.0)

    settings = BreakerSettings(failures=2, open_s=10)
    first, second = ProviderLimits(settings, announce=announce), ProviderLimits(settings)
    return first.gate(provider(), M, 0), second.gate(provider(), M, 0), passed


def fail_at(gate, error, now):
    gate.enter(now)
    gate.leave(now, error, answered=False)


def test_a_breaker_that_opens_leaves_one_trial_to_the_other_gateways():
    first, second, passed = fleet_of_two()
    for _ in range(2):
        fail_at(first, ProviderFailed(provider="p", upstream_status=500), 0)
    assert passed == [("p", "llm:p/m", 0.0)]
    fail_at(second, ProviderFailed(provider="p", upstream_status=500), 1)
    with pytest.raises(CandidateSkipped):
        second.enter(2)
    fail_at(first, ProviderFailed(provider="p", upstream_status=500), 11)
    assert len(passed) == 1  # a trial that fails is no news


def test_a_host_that_is_not_reached_is_passed_on_for_all_models():
    first, second, passed = fleet_of_two()
    for _ in range(2):
        fail_at(first, ProviderUnreachable(provider="p", cause="refused"), 0)
    assert passed == [("p", "", 0.0)]
    second.enter(1)
    with pytest.raises(CandidateSkipped):
        second.enter(1)


def test_a_retry_after_is_passed_on_once():
    first, second, passed = fleet_of_two()
    first.enter(0)
    fail_at(first, RateLimitError(provider="p", limit_source="upstream", retry_after_s=30), 0)
    first.leave(0.5, RateLimitError(provider="p", limit_source="upstream", retry_after_s=30), answered=False)
    assert passed == [("p", "llm:p/m", 30)]
    with pytest.raises(RateLimitError):
        second.enter(20)
    second.enter(40)


def test_a_notice_about_what_was_never_called_changes_nothing():
    limits = ProviderLimits(BreakerSettings())
    limits.heed(GateNotice("a", "other", "", 0.0), 0)
    limits.gate(provider(), M, 0)
    limits.heed(GateNotice("a", "p", "llm:other", 5.0), 0)
    assert [view.breaker for view in limits.view(0).values()] == ["closed"]
