from __future__ import annotations

from collections import Counter

import pytest

from gw.policy.shares import share_of


def test_a_canary_gets_its_share_of_10_000_sessions():
    chosen = Counter(share_of([95, 5], "front-desk", f"call-{n}") for n in range(10_000))
    assert 450 <= chosen[1] <= 550


def test_a_session_always_gets_the_same():
    first = [share_of([95, 5], "front-desk", f"call-{n}") for n in range(500)]
    assert first == [share_of([95, 5], "front-desk", f"call-{n}") for n in range(500)]


def test_the_choice_is_the_same_in_every_version_and_process():
    assert [share_of([1, 1, 1, 1], "front-desk", session) for session in ("a", "b", "c", "d", "e", "f")] == [1, 1, 2, 0, 0, 3]


def test_no_session_loses_a_canary_that_grows():
    sessions = [f"call-{n}" for n in range(5_000)]
    before = {session for session in sessions if share_of([95, 5], "r", session) == 1}
    after = {session for session in sessions if share_of([80, 20], "r", session) == 1}
    assert before < after


def test_routes_choose_independently_of_each_other():
    both = [(share_of([1, 1], "a", f"s{n}"), share_of([1, 1], "b", f"s{n}")) for n in range(4_000)]
    assert all(900 <= count <= 1_100 for count in Counter(both).values())


def test_a_weight_of_zero_is_never_chosen():
    assert {share_of([0, 3, 0, 1, 0], "r", f"s{n}") for n in range(500)} == {1, 3}
    with pytest.raises(ValueError, match="no weight"):
        share_of([0, 0], "r", "s")
