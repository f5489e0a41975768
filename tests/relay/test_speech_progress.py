import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.relay.speech_progress import CHARACTERS_PER_S, LEAD_IN_S, SpeechProgress, SpokenText


def text_of(*pieces):
    made = SpokenText()
    for piece in pieces:
        made.flush() if piece is None else made.add(piece)
    return made


@pytest.mark.parametrize(
    ("pieces", "spoken", "remaining"),
    [
        (("Hello there. ", "Bye."), 0, ["Hello there. Bye."]),
        (("Hello there. ", None, "Bye."), 0, ["Hello there. ", None, "Bye."]),
        (("Hello there. ", None, "Bye.", None), 6, ["there. ", None, "Bye.", None]),
        (("Hello there. ", None, "Bye."), 13, ["Bye."]),
        (("Hello", None), 5, []),
        ((), 0, []),
    ],
)
def test_the_remaining_text(pieces, spoken, remaining):
    made = text_of(*pieces)
    made.spoken = spoken
    assert list(made.remaining()) == remaining


def test_text_that_is_added_meanwhile_remains_too():
    text = text_of("One. ", None)
    remaining = text.remaining()
    assert [next(remaining), next(remaining)] == ["One. ", None]
    text.add("Two. ")
    assert next(remaining) == "Two. "
    text.add("Three.")
    text.flush()
    assert list(remaining) == ["Three.", None]


def test_text_that_is_cleared_meanwhile_does_not_remain():
    text = text_of("One. ", None, "Two. ", None)
    remaining = text.remaining()
    assert next(remaining) == "One. "
    text.clear()
    text.add("Three.")
    assert list(remaining) == ["Three."]


def test_clearing_drops_what_was_not_spoken():
    made = text_of("Hello. ", None, "More")
    made.clear()
    made.add("New")
    assert list(made.remaining()) == ["New"]


def test_words_tell_what_was_heard():
    made = text_of("Hello big world again")
    progress = SpeechProgress(made)
    for word, end_s in (("Hello", 0.5), ("big", 0.8), ("world", 1.4)):
        progress.word(word, end_s)
    progress.audio_s = 1.0
    assert made.text[progress.spoken() :] == " world again"


def test_words_that_are_not_in_the_text_are_passed_over():
    made = text_of("It costs $5 now")
    progress = SpeechProgress(made)
    for word, end_s in (("It", 0.2), ("costs", 0.6), ("five dollars", 1.0), ("now", 1.2)):
        progress.word(word, end_s)
    progress.audio_s = 0.7
    assert made.text[progress.spoken() :] == " $5 now"


def test_a_flush_tells_what_was_heard():
    made = text_of("One. ", None, "Two. ", None, "Three.")
    progress = SpeechProgress(made)
    progress.audio_s = 0.4
    progress.flushed()
    assert made.text[progress.spoken() :] == "Two. Three."
    progress.flushed()
    assert made.text[progress.spoken() :] == "Three."


def test_without_either_the_audio_is_a_guess_that_repeats_rather_than_loses():
    made = text_of("One two three four five six seven")
    progress = SpeechProgress(made)
    progress.audio_s = LEAD_IN_S + 10 / CHARACTERS_PER_S
    assert made.text[progress.spoken() :] == "three four five six seven"


@given(st.text(alphabet="ab .", max_size=60), st.floats(0, 10))
def test_the_guess_is_the_beginning_of_a_word_or_the_end(text, audio_s):
    made = text_of(text)
    progress = SpeechProgress(made)
    progress.audio_s = audio_s
    at = progress.spoken()
    assert 0 <= at <= len(text)
    assert at in (0, len(text)) or text[at - 1].isspace() or text[at].isspace()
