import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gw.policy.breaker import Breaker

FAILURES, OPEN_S = 3, 10.0


class BreakerMachine(RuleBasedStateMachine):
    """Calls that are let through end in any order. The model knows which of them is the trial."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.breaker = Breaker(FAILURES, OPEN_S)
        self.running = 0
        self.trials = 0
        self.opened_at = None
        self.in_a_row = 0

    def let_one_in(self):
        before = self.breaker.state(self.now)
        if self.breaker.allow(self.now):
            assert before in ("closed", "half_open")
            if before == "half_open":
                self.trials += 1
            else:
                self.running += 1
        else:
            assert before == "open" or self.trials

    @rule(dt=st.floats(0, 15))
    def wait(self, dt):
        self.now += dt

    @rule()
    def call(self):
        self.let_one_in()

    @precondition(lambda self: self.running and self.opened_at is None)
    @rule(ok=st.booleans())
    def a_call_ends(self, ok):
        self.running -= 1
        if ok:
            self.breaker.success()
            self.in_a_row = 0
            return
        self.breaker.failure(self.now)
        self.in_a_row += 1
        if self.in_a_row == FAILURES:
            self.opened_at = self.now

    @precondition(lambda self: self.running and self.opened_at is not None and not self.trials)
    @rule(how=st.sampled_from(["success", "failure", "abandoned"]))
    def a_late_call_ends_while_open(self, how):
        self.running -= 1
        state = self.breaker.state(self.now)
        self.breaker.failure(self.now) if how == "failure" else getattr(self.breaker, how)()
        assert self.breaker.state(self.now) == state

    @precondition(lambda self: self.trials)
    @rule(how=st.sampled_from(["success", "failure", "abandoned"]))
    def the_trial_ends(self, how):
        self.trials -= 1
        match how:
            case "success":
                self.breaker.success()
                self.opened_at, self.in_a_row = None, 0
            case "failure":
                self.breaker.failure(self.now)
                self.opened_at = self.now
            case "abandoned":
                self.breaker.abandoned()

    @invariant()
    def one_trial_at_a_time(self):
        assert self.trials <= 1

    @invariant()
    def the_state_is_the_models(self):
        if self.opened_at is None:
            expected = "closed"
        elif self.trials or self.now - self.opened_at >= OPEN_S:
            expected = "half_open"
        else:
            expected = "open"
        assert self.breaker.state(self.now) == expected


BreakerMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestBreaker = BreakerMachine.TestCase


def opened():
    breaker = Breaker(1, OPEN_S)
    assert breaker.allow(0.0)
    breaker.failure(0.0)
    return breaker


def test_failures_must_be_in_a_row():
    breaker = Breaker(2, OPEN_S)
    for _ in range(5):
        breaker.failure(0.0)
        breaker.success()
    assert breaker.state(0.0) == "closed"


def test_open_for_open_s_then_one_trial():
    breaker = opened()
    assert not breaker.allow(9.99)
    assert breaker.state(9.99) == "open"
    assert breaker.state(10.0) == "half_open"
    assert breaker.allow(10.0)
    assert not breaker.allow(10.0)


def test_a_trial_that_fails_opens_it_anew():
    breaker = opened()
    assert breaker.allow(11.0)
    breaker.failure(12.0)
    assert not breaker.allow(21.9)
    assert breaker.allow(22.0)


def test_a_trial_that_is_cancelled_gives_its_place_back():
    breaker = opened()
    assert breaker.allow(10.0)
    breaker.abandoned()
    assert breaker.allow(10.0)


def test_a_trial_that_succeeds_closes_it_and_forgets_the_failures():
    breaker = Breaker(2, OPEN_S)
    breaker.failure(0.0)
    breaker.failure(0.0)
    assert breaker.allow(10.0)
    breaker.success()
    breaker.failure(10.0)
    assert breaker.state(10.0) == "closed"


@pytest.mark.parametrize(("failures", "open_s"), [(0, 1.0), (1, -1.0)])
def test_senseless_settings_are_errors(failures, open_s):
    with pytest.raises(ValueError, match="must be"):
        Breaker(failures, open_s)


def test_one_trial_decides_where_the_breaker_of_another_gateway_has_opened():
    breaker = Breaker(5, OPEN_S)
    breaker.suspect(100.0)
    assert breaker.allow(100.0)
    assert not breaker.allow(100.0)
    assert not breaker.failure(100.0)
    assert breaker.state(100.1) == "open"
    breaker.suspect(100.2)  # is open already: that does not shorten it
    assert not breaker.allow(100.3)
    assert breaker.allow(100.0 + OPEN_S)
    breaker.success()
    assert breaker.state(200.0) == "closed"
