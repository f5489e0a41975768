"""Files of recent texts: they find what a look through all of them finds, at a price that does not grow with their number."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gw.policy import recent_texts
from gw.policy.recent_texts import RecentAnswers, RecentTranscripts
from gw.policy.turn_texts import HeardText, TurnPlace, WrittenAnswer
from gw.types.ids import Link
from tests.fakes.bytecodes import counted_bytecodes
from tests.policy.test_turns import ANSWER, Harness

KEY = ("default", None, None)
TEXTS = st.text("ab", min_size=1, max_size=40)
"""Texts of two letters, so that many of them share their blocks."""


def place(number: int, *, is_done: bool = True) -> TurnPlace:
    return TurnPlace(request_id=f"r{number}", key=KEY, is_done=is_done)


def answer(number: int, text: str, *, spoken: int = 0, conversation: str = "", is_done: bool = True) -> WrittenAnswer:
    return WrittenAnswer(
        place(number, is_done=is_done), float(number), [text], number=number, spoken=spoken, conversation=conversation or f"r{number}"
    )


def bytecodes(call, *args, **kwargs):
    """Return how many bytecodes a call executes, and its result."""
    with counted_bytecodes() as counted:
        result = call(*args, **kwargs)
    return counted.count, result


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(TEXTS, st.integers(0, 20), st.booleans()), max_size=60),
    st.lists(TEXTS, min_size=1, max_size=10),
    st.lists(st.integers(0, 59)),
)
def test_answers_are_those_that_hold_the_words(texts, searches, removed):
    answers = RecentAnswers()
    known = [answer(number, text, spoken=spoken, is_done=done) for number, (text, spoken, done) in enumerate(texts)]
    for one in known:
        answers.add(one)
    for _ in range(4):  # a search files what the next one finds
        answers.holding("a" * 50, 0.0)
    for number in removed:
        if number < len(known):
            answers.remove(known[number])
    left = [one for one in known if one.number not in removed]
    for words in searches:
        expected = [(one, at) for one in left if one.at >= 5.0 and (at := one.text.find(words, one.spoken)) >= 0]
        assert answers.holding(words, 5.0) == expected
    assert list(answers) == left
    for one in left:
        answers.remove(one)
    assert not any((answers._all, answers._unfiled, answers._blocks, answers._conversations))


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, max_size=60), st.lists(st.text("ab", max_size=50), min_size=1, max_size=10), st.lists(st.integers(0, 59)))
def test_transcripts_are_those_that_the_message_holds(texts, messages, removed):
    finals = RecentTranscripts()
    known = [HeardText(place(number % 3), text, float(number), None, number=number) for number, text in enumerate(texts)]
    for final in known:
        finals.add(final)
    for number in removed:
        if number < len(known):
            finals.remove(known[number])
    left = [final for final in known if final.number not in removed]
    for message in messages:
        assert finals.within(message, 5.0) == [final for final in left if final.at >= 5.0 and final.text in message]
    for final in left:
        assert finals.before(final) == [one for one in left if one.source.request_id == final.source.request_id and one.at < final.at]
    for final in left:
        finals.remove(final)
    assert not any((finals._all, finals._beginnings, finals._short, finals._by_source))


def test_an_answer_that_is_being_written_is_looked_through_again():
    answers = RecentAnswers()
    growing = answer(0, "It will stay dry", is_done=False)
    answers.add(growing)
    for number in range(1, 3 * recent_texts.FEW):
        answers.add(answer(number, f"answer number {number}"))
    for _ in range(20):
        assert answers.holding("untilnineatleast", 0.0) == []
    growing.pieces.append(" until nine at least.")
    assert answers.holding("untilnineatleast", 0.0) == [(growing, 13)]


def test_who_speaks_an_answer_ends_the_earlier_ones_of_its_conversation():
    answers = RecentAnswers()
    known = [answer(number, "one and the same answer", conversation="ab"[number % 2]) for number in range(100)]
    for one in known:
        answers.add(one)
    for _ in range(20):
        answers.holding("oneandthesameanswer", 0.0)
    answers.remove_before(known[97])
    assert list(answers) == [one for one in known if one.number % 2 == 0 or one.number >= 97]
    assert [one for one, _ in answers.holding("thesameanswer", 0.0)] == list(answers)


def busy(count: int) -> Harness:
    """A key with `count` answers that nobody speaks and as many transcripts, beside a conversation of its own."""
    harness = Harness()
    harness.speech("Hello, how can I help you?")
    for number in range(count):
        harness.recording(f"please book the table number {number} for {number} of us")
        done = harness.chat("summarise", f"The caller wants to book table {number} for {number} people, and was polite about it.")
        done.end(failed=False, cancelled=False)
        if number % 8 == 0:
            harness.speech("One of the usual sentences.")
    return harness


@pytest.mark.parametrize("step", ["speech", "chat"])
def test_a_request_costs_the_same_in_a_busy_key(step):
    """A thousand texts of the last two minutes, which is what a hundred calls at once leave behind."""
    costs = []
    for count in (2 * recent_texts.FEW, 1_000):
        harness, link = busy(count), Link()
        recording = harness.recording("what is the weather in paris", link=link)
        cost, place = bytecodes(harness.chat, "What is the weather in Paris?", ANSWER, link=link)
        if step == "speech":
            cost, place = bytecodes(harness.speech, ANSWER, link=link)
        assert recording.turn_id is not None
        assert place.turn_id == recording.turn_id
        costs.append(cost)
    assert 0 < costs[1] < 1.2 * costs[0], costs


def test_a_text_that_is_too_short_for_the_files_is_looked_for_in_all():
    answers = RecentAnswers()
    for number in range(100):
        answers.add(answer(number, f"Sure, {number}."))
    for _ in range(20):
        assert len(answers.holding("sure", 0.0)) == 100
    assert answers._blocks


def test_words_of_more_conversations_than_are_counted_are_of_none():
    """The search ends early, as in a load test in which all callers say the same: it would cost more with each, and could prove nothing."""
    harness = Harness()
    for _ in range(1_000):
        harness.final(harness.live(), "what is the weather in paris")
    for _ in range(1_000):
        cost, thought = bytecodes(harness.chat, "What is the weather in Paris?", ANSWER)
        assert cost < 5_000
        thought.end(failed=False, cancelled=False)
    harness.speech("Something else.")
    for _ in range(200):  # each files some of the answers
        cost, _place = bytecodes(harness.speech, ANSWER)
    assert cost < 5_000
    assert harness.speech(ANSWER).turn_id is None


def test_a_connection_finds_its_conversation_among_as_many():
    harness, link = Harness(), Link()
    session = harness.live()
    for words in ("good morning to you all", "how are you this morning"):
        harness.final(session, words)
        harness.chat(words, "Very well.", link=link)
    for _ in range(200):
        harness.final(harness.live(), "what is the weather in paris")
    harness.final(session, "what is the weather in paris")
    thought = harness.chat("What is the weather in Paris?", ANSWER, link=link)
    assert [part.request_id for part in thought.heard] == [session.request_id]
