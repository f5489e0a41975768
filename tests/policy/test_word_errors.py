"""The distance of two transcripts: against the table of all pairs, and what counts as the same word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gw.policy.word_errors import WordDistance, words_of

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=90)


def by_table(reference: list[str], other: list[str]) -> int:
    row = list(range(len(other) + 1))
    for i, word in enumerate(reference, 1):
        before, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != wanted))
    return row[-1]


def word_edits(reference: list[str], other: list[str], at: int = 0) -> int:
    distance = WordDistance(reference)
    distance.add(other[:at])
    distance.add(other[at:])
    return distance.edits


@given(WORDS, WORDS, st.integers(0, 90))
def test_it_is_the_distance_of_levenshtein(reference, other, at):
    assert word_edits(reference, other, at) == by_table(reference, other)


def test_capitals_and_punctuation_are_no_difference():
    assert words_of("It’s 5 o'clock, Mr. Müller!") == words_of("it's 5 o’clock mr müller") == ["it's", "5", "o'clock", "mr", "müller"]
    assert words_of(" … - _ ") == []


def test_words_that_differ_are_counted_once_each():
    said = words_of("please call doctor miller on monday")
    assert word_edits(said, words_of("please call doctor muller monday morning")) == 3
    assert word_edits(said, []) == word_edits([], said) == 6
