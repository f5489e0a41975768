from __future__ import annotations

import pytest

from gw.policy.hedge import MIN_AFTER_S, UNKNOWN_AFTER_S, HedgeBudget, HedgeSpend, after_s


@pytest.mark.parametrize(
    ("hedge", "p95_s", "seconds"),
    [
        ("off", 0.5, None),
        (300.0, 0.5, 0.3),
        ("auto", 0.5, 0.5),
        ("auto", 0.02, MIN_AFTER_S),
        ("auto", None, UNKNOWN_AFTER_S),
    ],
)
def test_when_the_next_candidate_starts(hedge, p95_s, seconds):
    assert after_s(hedge, p95_s) == seconds


def take(budget, nusd, spent, day=1, project="p"):
    return budget.take(project, day, estimate_nusd=nusd, spent_nusd=spent, share=0.05)


def test_the_extra_spend_is_a_share_of_the_days():
    budget = HedgeBudget()
    assert not take(budget, 6, spent=100)
    assert take(budget, 3, spent=100)
    assert take(budget, 2, spent=100)
    assert not take(budget, 1, spent=100)
    assert take(budget, 1, spent=120)
    assert take(budget, 5, spent=100, project="other")
    assert take(budget, 5, spent=100, day=2)


def test_without_a_price_hedges_are_a_share_of_the_requests():
    budget = HedgeBudget()
    assert not take(budget, None, spent=0)
    for _ in range(40):
        budget.count_request("p", 1)
    assert [take(budget, None, spent=0) for _ in range(3)] == [True, True, False]


def test_what_costs_nothing_may_always_be_hedged():
    assert take(HedgeBudget(), 0, spent=0)


def test_what_was_recorded_before_a_restart_counts():
    budget = HedgeBudget()
    budget.load(1, {"p": HedgeSpend(nusd=3, hedges=1, requests=39)})
    assert not take(budget, 3, spent=100)
    assert take(budget, 2, spent=100)
    assert not take(budget, None, spent=0), "two hedges of 39 requests are more than the share already"
    assert take(budget, 5, spent=100, day=2)


def test_what_a_hedge_has_cost_counts_in_place_of_its_estimate():
    budget = HedgeBudget()
    assert budget.take("p", 1, estimate_nusd=50, spent_nusd=1_000, share=0.05)
    assert not budget.take("p", 1, estimate_nusd=50, spent_nusd=1_000, share=0.05)
    budget.settle("p", 1, estimate_nusd=50, cost_nusd=8)
    assert budget.spent_nusd("p") == 8
    assert budget.take("p", 1, estimate_nusd=42, spent_nusd=1_000, share=0.05)
    restarted = HedgeBudget()
    restarted.load(1, {"p": HedgeSpend(nusd=8, hedges=1, requests=2)})
    assert not restarted.take("p", 1, estimate_nusd=43, spent_nusd=1_000, share=0.05)
    budget.settle("p", 2, estimate_nusd=50, cost_nusd=8)
    assert budget.spent_nusd("p") == 50, "a hedge of another day"
