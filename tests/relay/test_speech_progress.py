import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.relay.speech_progress import CHARACTERS_PER_S, LEAD_IN_S, Progress, SpeechProgress


def script(*pieces):
    made = SpeechProgress()
    for piece in pieces:
        made.flush() if piece is None else made.add(piece)
    return made


@pytest.mark.parametrize(
    ("pieces", "spoken", "rest"),
    [
        (("Hello there. ", "Bye."), 0, ["Hello there. Bye."]),
        (("Hello there. ", None, "Bye."), 0, ["Hello there. ", None, "Bye."]),
        (("Hello there. ", None, "Bye.", None), 6, ["there. ", None, "Bye.", None]),
        (("Hello there. ", None, "Bye."), 13, ["Bye."]),
        (("Hello", None), 5, []),
        ((), 0, []),
    ],
)
def test_what_is_left_to_say(pieces, spoken, rest):
    made = script(*pieces)
    made.spoken = spoken
    assert made.rest() == rest


def test_clearing_gives_up_what_was_not_spoken():
    made = script("Hello. ", None, "More")
    made.clear()
    made.add("New")
    assert made.rest() == ["New"]


def test_words_tell_what_was_heard():
    made = script("Hello big world again")
    progress = Progress(made)
    for word, end_s in (("Hello", 0.5), ("big", 0.8), ("world", 1.4)):
        progress.word(word, end_s)
    progress.audio_s = 1.0
    assert made.text[progress.spoken() :] == " world again"


def test_words_that_are_not_in_the_text_are_passed_over():
    made = script("It costs $5 now")
    progress = Progress(made)
    for word, end_s in (("It", 0.2), ("costs", 0.6), ("five dollars", 1.0), ("now", 1.2)):
        progress.word(word, end_s)
    progress.audio_s = 0.7
    assert made.text[progress.spoken() :] == " $5 now"


def test_a_flush_tells_what_was_heard():
    made = script("One. ", None, "Two. ", None, "Three.")
    progress = Progress(made)
    progress.audio_s = 0.4
    progress.flushed()
    assert made.text[progress.spoken() :] == "Two. Three."
    progress.flushed()
    assert made.text[progress.spoken() :] == "Three."


def test_without_either_the_audio_is_a_guess_that_repeats_rather_than_loses():
    made = script("One two three four five six seven")
    progress = Progress(made)
    progress.audio_s = LEAD_IN_S + 10 / CHARACTERS_PER_S
    assert made.text[progress.spoken() :] == "three four five six seven"


@given(st.text(alphabet="ab .", max_size=60), st.floats(0, 10))
def test_the_guess_is_the_beginning_of_a_word_or_the_end(text, audio_s):
    made = script(text)
    progress = Progress(made)
    progress.audio_s = audio_s
    at = progress.spoken()
    assert 0 <= at <= len(text)
    assert at in (0, len(text)) or text[at - 1].isspace() or text[at].isspace()
