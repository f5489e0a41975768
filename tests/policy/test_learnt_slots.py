"""What a gateway knows of a vendor's slots: learnt from answers and refusals, and forgotten in time."""

from __future__ import annotations

import pytest

from gw.policy.learnt_slots import ELSEWHERE_S, INFERRED_S, NAMED_S, LearntSlots


def running(count: int) -> LearntSlots:
    slots = LearntSlots()
    slots.in_flight = count
    return slots


def test_nothing_is_known_at_first():
    slots = running(7)
    assert (slots.room(0), slots.view(0), slots.most_here(0)) == (None, None, 8)


def test_an_answer_names_the_slots_and_those_that_others_use():
    slots = running(2)
    slots.named(10, 5, 100)
    assert slots.room(100) == 5
    assert (slots.view(100).most, slots.view(100).in_use, slots.view(100).source) == (10, 5, "answer")
    slots.in_flight = 7
    assert (slots.room(101), slots.most_here(101)) == (0, 7)


@pytest.mark.parametrize("used", [0, 1, None])
def test_the_vendor_may_be_behind_with_what_runs_here(used):
    slots = running(2)
    slots.named(10, used, 100)
    assert slots.room(100) == 8


def test_calls_elsewhere_are_forgotten_soon_and_the_number_later():
    slots = running(1)
    slots.named(10, 10, 100)
    assert slots.room(100 + ELSEWHERE_S - 0.01) == 0
    assert slots.room(100 + ELSEWHERE_S) == 9
    assert slots.room(100 + NAMED_S - 0.01) == 9
    assert slots.room(100 + NAMED_S) is None
    assert slots.view(100 + NAMED_S) is None


def test_a_refusal_with_a_number_says_that_all_of_them_are_in_use():
    slots = running(2)
    slots.refused(5, 2, 100)
    assert slots.room(100) == 0
    assert (slots.view(101).in_use, slots.view(101).source, slots.view(101).age_s) == (5, "refusal", 1)
    assert slots.room(100 + ELSEWHERE_S) == 3


def test_a_refusal_without_a_number_says_that_what_ran_before_is_what_the_vendor_takes():
    slots = running(4)
    slots.refused(None, 4, 100)
    assert slots.room(100) == 0
    slots.in_flight = 3
    assert slots.room(129) == 1
    assert slots.room(100 + INFERRED_S) is None


def test_of_a_burst_that_is_refused_the_lowest_number_counts_and_a_later_refusal_corrects_it():
    slots = running(10)
    for beside in (9, 6, 4, 5):
        slots.refused(None, beside, 100)
    assert slots.view(100).most == 4
    slots.refused(None, 6, 100 + INFERRED_S)
    assert slots.view(100 + INFERRED_S).most == 6


def test_a_refusal_with_nothing_running_here_is_soon_tried_again():
    slots = running(0)
    slots.refused(None, 0, 100)
    assert (slots.room(100), slots.most_here(100)) == (0, 1)
    assert slots.room(100 + ELSEWHERE_S) is None


def test_a_named_number_outlives_a_refusal_without_one():
    slots = running(3)
    slots.named(10, 3, 100)
    slots.refused(None, 3, 101)
    assert (slots.room(101), slots.view(101).most) == (0, 10)
    assert slots.room(101 + ELSEWHERE_S) == 7
