import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gw.policy.bucket import Bucket

PER_MINUTE = 7


class BucketMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now = 1_000.0
        self.bucket = Bucket(PER_MINUTE, self.now)
        self.granted = []

    @rule(dt=st.floats(0, 120))
    def wait(self, dt):
        self.now += dt

    @rule()
    def take(self):
        left = self.bucket.remaining(self.now)
        wait = self.bucket.take(self.now)
        assert (wait == 0) == (left > 0)
        if wait == 0:
            self.granted.append(self.now)

    @rule()
    def wait_as_told(self):
        wait = self.bucket.take(self.now)
        if wait == 0:
            self.granted.append(self.now)
            return
        assert 0 < wait <= 60 / PER_MINUTE * 1.001
        self.now += wait
        assert self.bucket.take(self.now) == 0
        self.granted.append(self.now)

    @rule(back=st.floats(0, 100))
    def ask_with_an_earlier_now(self, back):
        assert self.bucket.remaining(self.now - back) == self.bucket.remaining(self.now)

    @invariant()
    def no_more_than_the_rate_plus_one_burst(self):
        assert sum(t > self.now - 60 for t in self.granted) <= 2 * PER_MINUTE

    @invariant()
    def no_more_than_the_rate_in_the_long_run(self):
        assert len(self.granted) <= PER_MINUTE + (self.now - 1_000) * PER_MINUTE / 60 + 1e-6

    @invariant()
    def told_numbers_are_sane(self):
        assert 0 <= self.bucket.remaining(self.now) <= PER_MINUTE
        assert 0 <= self.bucket.left(self.now)[1] <= 60.001


BucketMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestBucket = BucketMachine.TestCase


def test_a_full_bucket_gives_one_minutes_tokens_at_once_and_then_says_how_long():
    bucket = Bucket(60, 0.0)
    assert [bucket.take(0.0) for _ in range(60)] == [0.0] * 60
    assert bucket.take(0.0) == pytest.approx(1.0)
    assert bucket.remaining(0.0) == 0
    assert bucket.left(0.0)[1] == pytest.approx(60.0)
    assert bucket.remaining(30.0) == 30


@given(per_minute=st.integers(1, 300), now=st.floats(0, 1e6))
def test_waiting_exactly_as_told_is_enough_at_any_rate(per_minute, now):
    bucket = Bucket(per_minute, now)
    while (wait := bucket.take(now)) == 0:
        pass
    assert bucket.take(now + wait) == 0


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_below_one_is_an_error(rate):
    with pytest.raises(ValueError, match="at least 1"):
        Bucket(rate, 0.0)
