import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.relay.speech_pauses import Pauses
from gw.relay.speech_progress import ReportedWords, SpeechProgress, SpokenText
from gw.relay.voice_pace import LEAD_IN_S, SILENCE_S, SLOW_PER_S, VoicePace, letters_of
from gw.types.audio import PCM_16K


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
    progress.audio_s = 0.3 + 10 / SLOW_PER_S
    assert made.text[progress.spoken() :] == "three four five six seven"


@given(st.text(alphabet="ab .", max_size=60), st.floats(0, 10))
def test_the_guess_is_the_beginning_of_a_word_or_the_end(text, audio_s):
    made = text_of(text)
    progress = SpeechProgress(made)
    progress.audio_s = audio_s
    at = progress.spoken()
    assert 0 <= at <= len(text)
    assert at in (0, len(text)) or text[at - 1].isspace() or text[at].isspace()


# ---- is it all there?

SENTENCE = "The quick brown fox jumps over the lazy dog and runs away."
LETTERS = letters_of(SENTENCE)


def taught(per_s=15.0):
    pace = VoicePace()
    for factor in (0.97, 1.0, 1.03):
        pace.learn(SENTENCE, SILENCE_S + LETTERS / (per_s * factor), loud_end=False)
    return pace


def speaking(text, audio_s, pace=None, words=()):
    made = text_of(text)
    progress = SpeechProgress(made, pace)
    for word, end_s in words:
        progress.word(word, end_s)
    progress.audio_s = audio_s
    return progress


@pytest.mark.parametrize("text", [SENTENCE, "Yes.", "你好", "Да", "42"])
def test_no_audio_for_words_is_certainly_too_little(text):
    assert speaking(text, 0.0).shortness(len(text), loud_end=None) == "certainly"


@pytest.mark.parametrize("text", ["", "...", " — ", "🎈", '<break time="1s"/>'])
def test_text_without_words_may_be_silent(text):
    assert speaking(text, 0.0).shortness(len(text), loud_end=None) == ""


@pytest.mark.parametrize(
    ("share", "loud_end", "known", "shortness"),
    [
        (1.0, False, True, ""),
        (0.95, False, True, ""),
        (0.5, False, True, "probably"),
        (0.05, True, True, "certainly"),
        (0.85, True, True, "probably"),
        (1.0, True, True, ""),
        (0.9, False, False, ""),
        (0.2, False, False, "probably"),
        (0.5, True, False, "probably"),
    ],
)
def test_audio_too_short_for_its_text(share, loud_end, known, shortness):
    per_s = 15.0 if known else 14.0
    progress = speaking(SENTENCE, share * (SILENCE_S + LETTERS / per_s), taught() if known else None)
    assert progress.shortness(len(SENTENCE), loud_end=loud_end) == shortness


def test_audio_of_unknown_length_is_not_suspected():
    progress = speaking(SENTENCE, 0.0)
    progress.measured = False
    assert progress.shortness(len(SENTENCE), loud_end=None) == ""
    assert progress.seems_complete(len(SENTENCE), loud_end=None)


SPANS = [(word, 0.3 * (n + 1)) for n, word in enumerate(SENTENCE.split())]


@pytest.mark.parametrize(
    ("reported", "audio_s", "shortness"),
    [(12, 3.6, ""), (12, 3.9, ""), (12, 1.8, "certainly"), (6, 1.8, "certainly"), (6, 1.95, "probably"), (11, 3.6, "")],
    ids=["all", "and silence", "audio ends before", "half", "half and some", "the last is not reported"],
)
def test_words_that_were_reported_and_audio_that_was_not(reported, audio_s, shortness):
    progress = speaking(SENTENCE, audio_s, taught(), SPANS[:reported])
    assert progress.shortness(len(SENTENCE), loud_end=False) == shortness
    assert progress.seems_complete(len(SENTENCE), loud_end=False) is (not shortness)


@pytest.mark.parametrize(
    ("share", "loud_end", "complete"), [(1.0, False, True), (0.8, False, True), (0.8, True, False), (0.5, False, False)]
)
def test_text_that_seems_complete_before_the_provider_says_so(share, loud_end, complete):
    progress = speaking(SENTENCE, share * (SILENCE_S + LETTERS / 15.0), taught())
    assert progress.seems_complete(len(SENTENCE), loud_end=loud_end) is complete


@pytest.mark.parametrize("per_s", [15.0, 22.0])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_learned_pace_finds_the_word(per_s, share):
    """To a word, where a slow voice's pace repeats up to eight."""
    audio_s = LEAD_IN_S + share * LETTERS / per_s
    progress = speaking(SENTENCE, audio_s, taught(per_s))
    spoken = len(SENTENCE[: progress.spoken()].split())
    exact = sum(letters_of(" ".join(SENTENCE.split()[: n + 1])) <= share * LETTERS for n in range(12))
    assert exact - 1 <= spoken <= exact


def test_a_word_that_is_reported_is_not_found_inside_another():
    made = text_of("The cat ate a bat.")
    progress = SpeechProgress(made)
    for n, word in enumerate(("The", "cat", "a")):
        progress.word(word, n + 1.0)
    progress.audio_s = 3.0
    assert made.text[progress.spoken() :] == " bat."


def test_scripts_without_spaces_are_gone_on_from_in_the_middle():
    made = text_of("今天天气很好我们去公园散步吧")
    progress = SpeechProgress(made)
    progress.audio_s = 2.0
    assert 0 < progress.spoken() < len(made.text)


def test_audio_is_examined_when_it_has_been_passed_on_or_is_needed(monkeypatch):
    fed: list[bytes] = []
    monkeypatch.setattr(Pauses, "feed", lambda self, data: fed.append(data))
    progress = SpeechProgress(SpokenText())
    progress.hear(b"ab", PCM_16K)
    progress.hear(b"cd", PCM_16K)
    assert fed == []
    progress.listen()
    progress.listen()
    assert fed == [b"ab", b"cd"]
    progress.hear(b"ef", PCM_16K)
    progress.spoken()
    assert fed == [b"ab", b"cd", b"ef"]


@given(st.lists(st.floats(0, 10), max_size=20), st.floats(0, 11))
def test_the_words_until_a_time_are_those_that_end_by_then(ends_s, at_s):
    """Also where a vendor's times go back: the text is spoken up to the last word that has ended."""
    words = ReportedWords()
    for offset, end_s in enumerate(ends_s):
        words.add(end_s, offset)
    ended = [(end_s, offset) for offset, end_s in enumerate(ends_s) if end_s <= at_s]
    assert words.at(at_s) == ((max(ended)[0], max(offset for _, offset in ended)) if ended else None)
    assert bool(words) == bool(ends_s)
    assert not ends_s or words.end_s() == max(ends_s)


@pytest.mark.parametrize(("complete", "at_s", "offset"), [(False, 0.5, 5), (False, 1.5, 15), (True, 2.5, 25), (True, 3.0, 30)])
def test_between_two_flush_reports_the_position_is_in_proportion(complete, at_s, offset):
    text = SpokenText()
    progress = SpeechProgress(text)
    for _ in range(3):
        text.add("0123456789")
        text.flush()
    for seconds in (1.0, 2.0):
        progress.audio_s = seconds
        progress.flushed()
    progress.audio_s = 3.0
    assert progress.offset_at(at_s, 30, complete=complete) == offset
