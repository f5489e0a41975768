"""When a turn has ended: a judgement of its words, and the silence that follows from it."""

from __future__ import annotations

import pytest

from gw.policy.end_of_turn import EAGERNESSES, LONGEST_S, WordsEndTurn, silence_s

JUDGE = WordsEndTurn()


@pytest.mark.parametrize(
    "text",
    [
        "What is the weather in Paris?",
        "Stop!",
        "I would like a table for two.",
        "yes",
        "Ja",
        "好的。",
        'She said "go."',
    ],
)
def test_a_finished_sentence_ends_the_turn_with_next_to_no_silence(text):
    assert silence_s(JUDGE.probability(text, None), "auto") < 0.05


@pytest.mark.parametrize(
    "text",
    [
        "My number is, uhm",
        "I was wondering, um...",
        "I'd like to order a pizza with",
        "We need flour,",
        "und",
        "et puis euh",
        "",
    ],
)
def test_words_that_trail_off_wait_nearly_for_the_limit(text):
    for eagerness, longest_s in LONGEST_S.items():
        assert 0.9 * longest_s < silence_s(JUDGE.probability(text, None), eagerness) <= longest_s


def test_a_full_stop_behind_a_connecting_word_is_the_recognisers_and_not_the_speakers():
    after_connector = silence_s(JUDGE.probability("I would like a table for.", None), "auto")
    after_sentence = silence_s(JUDGE.probability("I would like a table for two.", None), "auto")
    assert after_sentence < 0.05 < 1.0 < after_connector < LONGEST_S["auto"]


def test_words_without_any_punctuation_wait_a_moment_and_an_unfinished_last_sentence_longer():
    plain = silence_s(JUDGE.probability("what is the weather in paris", None), "medium")
    unfinished = silence_s(JUDGE.probability("Hello there. I have a question about invoices", None), "medium")
    assert 0.05 < plain < 0.2 < unfinished < 1.0


def test_the_limits_are_those_that_openai_documents():
    assert [silence_s(0.0, eagerness) for eagerness in ("low", "medium", "high", "auto")] == [8.0, 4.0, 2.0, 4.0]
    assert set(LONGEST_S) == EAGERNESSES


@pytest.mark.parametrize(("probability", "expected"), [(1.0, 0.0), (7.0, 0.0), (-1.0, 4.0)])
def test_a_judgement_out_of_range_is_bounded(probability, expected):
    assert silence_s(probability, "auto") == expected
