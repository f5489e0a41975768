from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gw.policy.fair_queue import FairQueue


def queue(places=1_000, wait_s=1.0):
    return FairQueue[int](wait_s, places, 0.0)


def filled(*entries, weights=None):
    """Queue entries (project, key); items are their numbers."""
    q = queue()
    for number, (project, key) in enumerate(entries):
        assert q.add(number, project, key, (weights or {}).get(project, 1), 0.0)
    return q


def order(q, entries):
    return "".join("".join(entries[q.take(0.0)]) for _ in range(q.waiting))


def test_projects_take_turns_however_many_of_one_wait():
    entries = [("a", "")] * 4 + [("b", "")] * 2 + [("c", "")]
    assert order(filled(*entries), entries) == "abcabaa"


def test_keys_of_a_project_take_turns_and_are_no_reason_to_favour_the_project():
    entries = [("a", "1"), ("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("b", "1"), ("b", "1")]
    assert order(filled(*entries), entries) == "a1b1a2b1a3b1a1"


def test_a_weight_is_so_many_turns():
    entries = [("a", ""), ("b", "")] * 6
    assert order(filled(*entries, weights={"a": 3}), entries) == "aaabaaabbbbb"


def test_the_items_of_one_key_keep_their_order():
    q = filled(*[("a", "")] * 5)
    assert [q.take(0.0) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(LookupError):
        q.take(0.0)


def test_what_would_wait_in_vain_is_refused():
    q = queue(places=2)  # 32 places a second are expected, so 15 may wait behind the first of the only key
    assert sum(q.add(n, "a", "", 1, 0.0) for n in range(100)) == 16
    assert sum(q.add(n, "b", "", 1, 0.0) for n in range(100)) == 8
    assert sum(q.add(n, "c", "", 2, 0.0) for n in range(100)) == 8  # half of the weights: two of four
    assert q.waiting == 32


def test_how_many_may_wait_follows_the_places_that_were_given():
    q = queue(places=2)
    for n in range(10):
        assert q.add(n, "a", "", 1, 0.0)
    for n in range(10):
        q.take(n / 10)
    assert sum(q.add(n, "a", "", 1, 1.0) for n in range(100)) == 5  # ten a second, half a second's worth
    assert sum(q.add(n, "b", "", 1, 2.5) for n in range(100)) == 1  # none since: the first of a key may try
    for _ in range(6):
        q.take(2.5)
    assert sum(q.add(n, "a", "", 1, 60.0) for n in range(100)) == 16  # that was long ago


class QueueMachine(RuleBasedStateMachine):
    """Nothing that waits is lost or passed over: between two turns of a key, no other of its project has more than one."""

    def __init__(self) -> None:
        super().__init__()
        self.q = FairQueue[int](1.0, 10_000, 0.0)
        self.model: dict[tuple[str, str], deque[int]] = {}
        self.number = 0
        self.passed: Counter[tuple[str, str]] = Counter()  # turns of others, since a project waits or had one

    @rule(project=st.sampled_from("abc"), key=st.sampled_from("12"))
    def add(self, project, key):
        assert self.q.add(self.number, project, key, 1, 0.0)
        if not any(items for (name, _), items in self.model.items() if name == project):
            self.passed = Counter({pair: n for pair, n in self.passed.items() if pair[0] != project})
        self.model.setdefault((project, key), deque()).append(self.number)
        self.number += 1

    @precondition(lambda self: self.q.waiting)
    @rule()
    def take(self):
        item = self.q.take(0.0)
        project, key = next(name for name, items in self.model.items() if item in items)
        assert self.model[project, key].popleft() == item
        for other in {name for (name, _), items in self.model.items() if items} - {project}:
            self.passed[other, project] += 1
            assert self.passed[other, project] <= 1
        self.passed = Counter({pair: n for pair, n in self.passed.items() if pair[0] != project})

    @precondition(lambda self: self.q.waiting)
    @rule(data=st.data())
    def discard(self, data):
        name = data.draw(st.sampled_from([name for name, items in self.model.items() if items]))
        item = data.draw(st.sampled_from(sorted(self.model[name])))
        self.model[name].remove(item)
        self.q.discard(item, *name)

    @invariant()
    def counts_agree(self):
        assert self.q.waiting == sum(len(items) for items in self.model.values())


TestQueue = QueueMachine.TestCase
