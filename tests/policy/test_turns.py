"""One turn's requests find each other by their words; what fits two conversations goes to none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gw.policy import turns
from gw.policy.turn_texts import TurnPlace, compact
from gw.policy.turns import Turns
from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech

KEY = ("default", None)
WEATHER = "What is the weather in Paris?"
ANSWER = "It is sunny. You will need no umbrella today."


class Harness:
    """A memory and a clock; requests get ids in their order."""

    def __init__(self):
        self.turns = Turns()
        self.now = 1_000.0
        self.ids = itertools.count()

    def place(self, key=KEY, **ids):
        return TurnPlace(request_id=f"r{next(self.ids)}", key=(*key, ids.get("session_id")), **ids)

    def live(self, **ids):
        return self.place(**ids)

    def final(self, session, text):
        part = HeardSpeech(
            request_id=session.request_id, model_id="a/b", ended_at=self.now - 0.1, final_at=self.now, audio_seconds=1.0
        )
        self.turns.transcript(session, text, self.now, part)

    def recording(self, text, **ids):
        place = self.place(**ids)
        self.turns.transcript(place, text, self.now)
        return place

    def chat(self, text, answer="", context=0, answered=False, **ids):
        place = self.place(**ids)
        written = self.turns.chat(place, lambda: LastUser(text, context, answered), self.now)
        if written is not None:
            written.pieces += list(answer)
        return place

    def speech(self, text, **ids):
        place = self.place(**ids)
        self.turns.speech(place, text, self.now)
        return place


@pytest.fixture
def harness():
    return Harness()


def test_live_transcript_answer_and_sentences_are_one_turn(harness):
    session = harness.live()
    harness.final(session, "what is the weather in paris")
    thought = harness.chat(WEATHER, ANSWER)
    spoken = [harness.speech("It is sunny."), harness.speech("You will need no umbrella today.")]
    assert thought.turn_id == thought.request_id
    assert {place.turn_id for place in spoken} == {thought.turn_id}
    assert {place.session_id for place in [session, thought, *spoken]} == {session.request_id}
    [heard] = thought.heard
    assert (heard.request_id, heard.audio_seconds) == (session.request_id, 1.0)
    assert session.turn_id is None  # it hears many


def test_a_recording_gets_the_turn_of_its_words(harness):
    heard = harness.recording(WEATHER)
    thought = harness.chat(WEATHER, ANSWER)
    assert heard.turn_id == thought.turn_id == thought.request_id
    assert thought.earlier == (heard.request_id,)
    assert thought.heard == ()
    assert thought.session_id is None


def test_an_answer_to_typed_words_and_its_speech_are_a_turn(harness):
    thought = harness.chat("typed by hand", ANSWER)
    assert thought.turn_id is None
    spoken = harness.speech(ANSWER)
    assert spoken.turn_id == thought.turn_id == thought.request_id
    assert spoken.earlier == (thought.request_id,)


def test_several_finals_of_a_turn_are_added_up(harness):
    session = harness.live()
    harness.final(session, "Yes.")
    harness.now += 2
    harness.final(session, "I do!")
    thought = harness.chat("yes I do")
    [heard] = thought.heard
    assert (heard.audio_seconds, heard.final_at) == (2.0, harness.now)


def test_stretches_of_speech_that_were_transcribed_one_by_one(harness):
    parts = [harness.recording("I would like"), harness.recording("to book a table")]
    thought = harness.chat("I would like to book a table")
    assert {part.turn_id for part in parts} == {thought.turn_id}
    assert set(thought.earlier) == {part.request_id for part in parts}


def test_a_question_asked_too_early_and_again_is_one_turn(harness):
    """The app begins to think at the first final, and again when more is said."""
    session = harness.live()
    harness.final(session, "what is the weather")
    early = harness.chat("what is the weather", "Where?")
    harness.final(session, "in paris tomorrow")
    thought = harness.chat("what is the weather in paris tomorrow", ANSWER)
    assert thought.turn_id == early.turn_id
    assert [part.audio_seconds for part in (*early.heard, *thought.heard)] == [1.0, 1.0]
    assert harness.speech("It is sunny.").turn_id == early.turn_id


def test_what_a_tool_said_is_thought_about_in_the_same_turn(harness):
    session = harness.live()
    harness.final(session, WEATHER)
    first = harness.chat(WEATHER, context=7)
    harness.now += 10  # longer than requests beside each other
    second = harness.chat(WEATHER, ANSWER, context=7, answered=True)
    assert second.turn_id == first.turn_id
    assert second.heard == ()
    assert harness.speech("It is sunny.").turn_id == first.turn_id


def test_the_same_words_again_are_another_turn(harness):
    session = harness.live()
    for context in (1, 2):
        harness.final(session, "yes please")
        thought = harness.chat("Yes, please.", "Very well then.", context=context)
        assert thought.turn_id == thought.request_id
        assert harness.speech("Very well then.").turn_id == thought.turn_id
        harness.now += 5


def test_two_calls_with_one_key_are_not_mixed(harness):
    ours, theirs = harness.live(), harness.live()
    harness.final(ours, "what is the weather in paris")
    harness.final(theirs, "when does the last train leave")
    train = harness.chat("when does the last train leave", "At midnight, from platform two.")
    weather = harness.chat("what is the weather in paris", ANSWER)
    assert (train.session_id, weather.session_id) == (theirs.request_id, ours.request_id)
    assert harness.speech("You will need no umbrella today.").turn_id == weather.turn_id
    assert harness.speech("At midnight, from platform two.").turn_id == train.turn_id
    assert [part.request_id for part in train.heard] == [theirs.request_id]


def test_the_same_words_in_two_calls_are_given_to_none(harness):
    sessions = [harness.live(), harness.live()]
    for session in sessions:
        harness.final(session, "hello there, who is it")
    thoughts = [harness.chat("hello there, who is it", ANSWER) for _ in sessions]
    assert [thought.turn_id for thought in thoughts] == [None, None]
    assert harness.speech("It is sunny.").turn_id is None  # both have written it


def test_an_answer_that_began_alike_is_found_by_its_next_sentence(harness):
    sessions = [harness.live(), harness.live()]
    harness.final(sessions[0], "the first long question")
    harness.final(sessions[1], "the second long question")
    one = harness.chat("the first long question", "Certainly! Here is the first.")
    harness.chat("the second long question", "Certainly! Here is the second.")
    assert harness.speech("Certainly!").turn_id is None
    assert harness.speech("Here is the first.").turn_id == one.turn_id


@pytest.mark.parametrize(
    ("heard", "asked"),
    [("what", "what is the weather"), ("no", "Say nothing."), ("", "anything"), ("...", "..."), ("another text", "words")],
)
def test_short_or_other_words_prove_nothing(harness, heard, asked):
    harness.final(harness.live(), heard)
    assert harness.chat(asked).turn_id is None


def test_words_inside_a_longer_prompt_are_found(harness):
    session = harness.live()
    harness.final(session, WEATHER)
    assert harness.chat(f"The caller said: {WEATHER} Answer in one sentence.").session_id == session.request_id


@pytest.mark.parametrize("text", ["Sure", "sunny", "!"])
def test_a_short_text_must_be_the_next_to_be_spoken(harness, text):
    harness.chat("typed", ANSWER)
    assert harness.speech(text).turn_id is None


def test_other_keys_and_projects_are_other_memories(harness):
    harness.final(harness.live(), WEATHER)
    thought = harness.chat(WEATHER, ANSWER, key=("default", "other"))
    assert thought.turn_id is None
    assert harness.speech(ANSWER, key=("mine", None)).turn_id is None


def test_words_are_forgotten(harness):
    harness.final(harness.live(), WEATHER)
    harness.now += turns.HEARD_S + 1
    assert harness.chat(WEATHER, ANSWER).turn_id is None
    harness.now += turns.SPOKEN_S + 1
    assert harness.speech(ANSWER).turn_id is None


class TestIdsOfTheCaller:
    def test_a_turn_that_was_named_is_a_wall(self, harness):
        harness.final(harness.live(), WEATHER)
        thought = harness.chat(WEATHER, ANSWER, turn_id="mine")
        assert (thought.turn_id, thought.session_id, thought.heard) == ("mine", None, ())
        assert harness.speech(ANSWER).turn_id is None
        spoken = harness.speech(ANSWER, turn_id="other")
        assert (spoken.turn_id, spoken.earlier) == ("other", ())
        assert harness.recording(WEATHER, turn_id="third").turn_id == "third"

    def test_in_a_session_the_turn_that_was_named_is_that_of_all(self, harness):
        session = harness.live(session_id="s")
        harness.final(session, WEATHER)
        heard = harness.recording(WEATHER, session_id="s")
        thought = harness.chat(WEATHER, ANSWER, session_id="s", turn_id="mine")
        assert (heard.turn_id, thought.earlier) == ("mine", (heard.request_id,))
        assert harness.speech(ANSWER, session_id="s").turn_id == "mine"
        assert harness.speech(ANSWER, session_id="s", turn_id="other").turn_id == "other"

    def test_the_turn_of_a_recording_is_that_of_its_answer(self, harness):
        harness.recording(WEATHER, turn_id="mine", session_id="s")
        thought = harness.chat(WEATHER, ANSWER, session_id="s")
        assert (thought.turn_id, thought.session_id) == ("mine", "s")
        assert harness.speech(ANSWER, session_id="s").turn_id == "mine"

    def test_a_session_named_by_one_is_that_of_no_other(self, harness):
        heard = harness.recording(WEATHER)
        thought = harness.chat(WEATHER, ANSWER, session_id="s")
        spoken = harness.speech(ANSWER)
        assert [place.turn_id for place in (heard, thought, spoken)] == [None] * 3

    def test_other_sessions_are_other_conversations(self, harness):
        harness.final(harness.live(session_id="a"), WEATHER)
        thought = harness.chat(WEATHER, ANSWER, session_id="b")
        assert thought.turn_id is None
        assert harness.speech(ANSWER, session_id="c").turn_id == thought.turn_id is None

    def test_same_words_in_two_named_sessions(self, harness):
        for session in "ab":
            harness.final(harness.live(session_id=session), WEATHER)
        thoughts = [harness.chat(WEATHER, ANSWER, session_id=session) for session in "ab"]
        assert all(thought.turn_id for thought in thoughts)
        assert harness.speech(ANSWER, session_id="b").turn_id == thoughts[1].turn_id
        assert harness.speech(ANSWER, session_id="a").turn_id == thoughts[0].turn_id

    def test_in_a_named_session_time_is_enough(self, harness):
        """The app translates what was heard, and rewrites what is spoken."""
        harness.final(harness.live(session_id="s"), "quel temps fait-il")
        thought = harness.chat("how is the weather", "five degrees", session_id="s")
        spoken = harness.speech("cinq degrés", session_id="s")
        assert thought.turn_id == spoken.turn_id == thought.request_id
        harness.now += turns.SESSION_S + 1
        assert harness.speech("are you still there", session_id="s").turn_id is None


def test_memory_is_bounded(harness):
    for number in range(turns.MAX_ANSWERS + 50):
        key = ("default", str(number % 7))
        harness.final(harness.live(key=key), f"transcript number {number}")
        harness.chat(f"transcript number {number}", "an answer", key=key)
        harness.speech("an answer", key=key)
    memories = harness.turns._memories.values()
    assert sum(len(list(memory.answers)) for memory in memories) == len(harness.turns._answers) == turns.MAX_ANSWERS
    assert sum(len(list(memory.finals)) for memory in memories) == len(harness.turns._finals) == turns.MAX_FINALS
    for number in range(turns.MAX_KEYS):
        harness.chat("hello", key=("default", f"k{number}"))
    assert len(harness.turns._memories) <= turns.MAX_KEYS


def test_answers_nobody_speaks_are_not_kept(harness):
    for _ in range(turns.SILENT_ANSWERS):
        harness.chat("a question", "an answer of some length")
    place = harness.place()
    assert harness.turns.chat(place, lambda: None, harness.now) is None
    harness.speech("something")
    assert harness.turns.chat(place, lambda: None, harness.now) is not None


@given(st.text(), st.text())
def test_compact_texts_can_be_joined(one, other):
    assert compact(one) + compact(other) == compact(one + other)
    assert compact(one) == compact(f" {one}_… ")


STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["hear", "think", "speak"])), max_size=60)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_conversations_of_one_key_never_mix(steps):
    """Four calls in any order, whose words differ by a letter: no turn holds requests of two of them."""
    harness = Harness()
    sessions = {harness.live().request_id: call for call in range(4)}
    counts = [0] * 4
    owners: dict[str, int] = {}
    for call, step in steps:
        harness.now += 1
        counts[call] += step == "hear"
        words = f"number {counts[call]} of call {'abcd'[call]}"
        match step:
            case "hear":
                harness.final(TurnPlace(request_id=next(id_ for id_, one in sessions.items() if one == call), key=(*KEY, None)), words)
                continue
            case "think":
                place = harness.chat(f"say {words}", f"you said {words}", context=hash((call, counts[call])))
            case _:
                place = harness.speech(f"you said {words}")
        assert {sessions[part.request_id] for part in place.heard} <= {call}
        if place.turn_id is not None:
            assert owners.setdefault(place.turn_id, call) == call
