from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from gw.policy.quickest import HOLD_S, Quickest
from gw.policy.recent_times import RecentTimes

MODELS = ["a", "b"]


class Traffic:
    """Requests at a rate, each from a session of its own, answered after a time that depends on the model and the moment."""

    def __init__(self, took_s, per_s=10.0):
        self.times, self.choice = RecentTimes(), Quickest(2)
        self.times.follow(MODELS)
        self.took_s, self.per_s, self.now = took_s, per_s, 0.0
        self.random = Random(7)
        self.chosen = []
        """Time, leader, and whether the request was a probe."""

    def run(self, seconds):
        for _ in range(int(seconds * self.per_s)):
            self.now += 1 / self.per_s
            samples = [self.times.of(model, "chat") for model in MODELS]
            index, is_probe = self.choice.choose(samples, f"call-{self.now:.3f}", self.now)
            self.chosen.append((self.now, self.choice.leader, is_probe))
            self.times.add(MODELS[index], "chat", self.took_s(MODELS[index], self.now, self.random), self.now)

    def moves(self):
        leaders = [(at, leader) for at, leader, _ in self.chosen]
        return [(now, after) for (_, before), (now, after) in pairwise(leaders) if before != after]


def test_a_worse_p95_moves_the_lead_within_30_s_and_back_within_30_s():
    slow = (300.0, 600.0)
    traffic = Traffic(lambda model, now, random: (1.5 if model == "a" and slow[0] < now < slow[1] else
                                                  0.3 if model == "a" else 0.5) * random.uniform(0.8, 1.2))  # fmt: skip
    traffic.run(900.0)
    (away, to_b), (back, to_a) = traffic.moves()
    assert (to_b, to_a) == (1, 0)
    assert 0 < away - slow[0] <= 30
    assert 0 < back - slow[1] <= 30


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.0])
def test_equals_do_not_flap(spread):
    traffic = Traffic(lambda model, now, random: 0.3 * random.lognormvariate(0, spread / 2))
    traffic.run(1_200.0)
    assert len(traffic.moves()) <= 2


def test_one_slow_answer_moves_nothing():
    traffic = Traffic(lambda model, now, random: 3.0 if abs(now - 200) < 0.01 else 0.3 if model == "a" else 0.29)
    traffic.run(400.0)
    assert traffic.moves() == []


def test_probes_are_a_small_share_and_measure_the_others():
    traffic = Traffic(lambda model, now, random: 0.3)
    traffic.run(1_000.0)
    probes = sum(is_probe for *_, is_probe in traffic.chosen)
    assert 0.04 <= probes / len(traffic.chosen) <= 0.06
    assert len(traffic.times.of("b", "chat")) > 200


def test_a_busy_session_that_probes_gets_at_most_a_tenth():
    choice = Quickest(2)
    for n in range(19):
        assert choice.choose([(), ()], f"s{n}", 0.0) == (0, False)
    made = [choice.choose([(), ()], "busy", float(n)) for n in range(981)]
    assert sum(is_probe for _, is_probe in made) == 100
    assert {index for index, is_probe in made if is_probe} == {1}


def steady(seconds, count=50, until=0.0):
    return [(until - n * 0.1, seconds) for n in reversed(range(count))]


@pytest.mark.parametrize(("own", "other"), [
    (steady(0.5), steady(0.1, 7)), (steady(0.5, 7), steady(0.1)), (steady(0.5), steady(0.45)),
    (steady(0.03), steady(0.015)), (steady(0.5), ()),
])  # fmt: skip
def test_few_samples_move_nothing_and_neither_does_a_small_difference(own, other):
    choice = Quickest(2)
    for n in range(40):
        choice.choose([own, other], "s", n / 10)
    assert choice.leader == 0


def test_the_lead_moves_only_after_the_difference_has_lasted():
    choice = Quickest(3)
    for now, second in ((0.0, 0.2), (HOLD_S - 0.1, 0.2), (HOLD_S + 0.6, 0.49), (HOLD_S + 1.2, 0.2), (2 * HOLD_S + 1.1, 0.2)):
        choice.choose([steady(0.5, until=now), steady(second, until=now), steady(0.4, until=now)], "s", now)
        assert choice.leader == 0
    now = 2 * HOLD_S + 1.8
    choice.choose([steady(0.5, until=now), steady(0.2, until=now), steady(0.4, until=now)], "s", now)
    assert choice.leader == 1


def test_sessions_probe_the_others_in_turn_and_each_always_the_same():
    choice = Quickest(4)
    sessions = [f"s{n}" for n in range(240)]
    first = {s: choice.choose([()] * 4, s, 0.0) for s in sessions}
    assert [index for index, is_probe in first.values() if is_probe] == [2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1]
    assert first == {s: choice.choose([()] * 4, s, 0.0) for s in sessions}


def test_the_memory_of_sessions_is_bounded():
    choice = Quickest(2)
    for n in range(5_000):
        choice.choose([(), ()], f"s{n}", 0.0)
    assert len(choice._probed) == 2_000


def test_one_candidate_is_never_probed():
    choice = Quickest(1)
    assert {choice.choose([()], f"s{n}", 0.0) for n in range(100)} == {(0, False)}
