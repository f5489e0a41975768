import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gw.policy import budget
from gw.types.usage import NANO

BUDGET = 10 * NANO


class LedgerMachine(RuleBasedStateMachine):
    """A ledger that reserves what `decide` admitted and settles for at most that."""

    def __init__(self):
        super().__init__()
        self.spent = 0
        self.flights = []
        self.largest = 0

    def admitted(self, estimate):
        reserved = sum(self.flights)
        decision = budget.decide(
            committed_nusd=self.spent + reserved, estimate_nusd=estimate, budget_nusd=BUDGET, action="block"
        )
        if not self.flights:
            assert (decision == "block") == (self.spent >= BUDGET)   # alone, only what is spent counts
        return decision != "block"

    @rule(estimate=st.integers(0, 12 * NANO))
    def request(self, estimate):
        if self.admitted(estimate):
            self.flights.append(estimate)
            self.largest = max(self.largest, estimate)

    @rule(n=st.integers(1, 200), estimate=st.integers(1, NANO))
    def burst(self, n, estimate):
        for _ in range(n):
            self.request(estimate)

    @rule(share=st.floats(0, 1), which=st.integers(0, 1_000))
    def settle(self, share, which):
        if self.flights:
            self.spent += int(self.flights.pop(which % len(self.flights)) * share)

    @rule()
    def settle_all(self):
        self.spent += sum(self.flights)
        self.flights.clear()

    @invariant()
    def never_beyond_the_budget_by_more_than_one_reservation(self):
        committed = self.spent + sum(self.flights)
        assert committed < BUDGET + self.largest or committed == 0


LedgerMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestLedger = LedgerMachine.TestCase


def decide(spent, reserved, estimate, limit=100, action="block"):
    return budget.decide(committed_nusd=spent + reserved, estimate_nusd=estimate, budget_nusd=limit, action=action)


@pytest.mark.parametrize("action", ["warn", "block"])
def test_no_budget_is_always_ok(action):
    assert decide(10**18, 10**18, 10**18, 0, action) == "ok"


def test_a_single_request_on_an_untouched_budget_is_admitted_however_large():
    assert decide(0, 0, 10_000) == "warn"


def test_a_used_up_budget_blocks_or_warns():
    assert decide(100, 0, 0) == "block"
    assert decide(60, 40, 1) == "block"
    assert decide(100, 0, 0, action="warn") == "warn"


def test_below_the_budget_an_estimate_warns_but_does_not_block():
    assert decide(99, 0, 1) == "ok"
    assert decide(99, 0, 2) == "warn"


@given(costs=st.lists(st.integers(0, 60), max_size=30))
def test_a_burst_goes_as_far_as_the_same_requests_one_by_one(costs):
    """True where the estimates are exact."""
    spent, reserved, one_by_one, at_once = 0, 0, [], []
    for cost in costs:
        one_by_one.append(decide(spent, 0, cost))
        spent += cost if one_by_one[-1] != "block" else 0
    for cost in costs:
        at_once.append(decide(0, reserved, cost))
        reserved += cost if at_once[-1] != "block" else 0
    assert at_once == one_by_one


@pytest.mark.parametrize(
    ("spent", "limit", "expected"),
    [(0, 0, "ok"), (5, 0, "ok"), (79, 100, "ok"), (80, 100, "warning"), (99, 100, "warning"), (100, 100, "exceeded"),
     (101, 100, "exceeded"), (0, 100, "ok"), (4, 5, "warning")],
)  # fmt: skip
def test_status(spent, limit, expected):
    assert budget.status(spent, limit) == expected
