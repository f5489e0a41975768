from __future__ import annotations

from random import Random

import pytest

from gw.relay.speech_progress import SpeechProgress, SpokenText
from gw.relay.voice_pace import (
    FAST_PER_S,
    SILENCE_S,
    SLOW_PER_S,
    USUAL_PER_S,
    VoicePace,
    VoicePaces,
    letters_of,
    words_of,
)

TEXT = "The quick brown fox jumps over the lazy dog."


@pytest.mark.parametrize(
    ("text", "letters", "words"),
    [
        ("Hello there.", 11, 2),
        ("... — !?", 0, 0),
        ("", 0, 0),
        ("🎈 yes", 3, 1),
        ("你好", 6, 2),
        ("Привет мир", 10, 2),
        ("42 cats", 13, 2),
        ('One <break time="1s"/> two', 7, 2),
    ],
)
def test_letters_and_words(text, letters, words):
    assert (letters_of(text), words_of(text)) == (letters, words)


def test_ascii_text_counts_like_any_other():
    random = Random(1)
    for _ in range(300):
        text = "".join(random.choices("ab 12,.<>\x1c\t\n\0-'", k=random.randrange(30)))
        letters, words = letters_of(text), words_of(text)
        assert letters_of(f"{text} é") == letters + 1 + bool(words), text
        assert words_of(f"{text} é") == words + 1, text


def taught(per_s, *, times=5, jitter=0.0, loud_end=False):
    pace = VoicePace()
    for n in range(times):
        here = per_s * (1 + jitter * (n % 3 - 1))
        pace.learn(TEXT, SILENCE_S + letters_of(TEXT) / here, loud_end=loud_end)
    return pace


@pytest.mark.parametrize("per_s", [8.0, 15.0, 22.0, 30.0])
def test_a_pace_is_learned(per_s):
    pace = taught(per_s, times=1)
    assert pace.is_known
    assert pace.per_s == pytest.approx(per_s)
    assert pace.seconds(44) == pytest.approx(44 / per_s)


def test_an_unknown_pace_is_the_usual_one():
    assert (VoicePace().is_known, VoicePace().per_s, VoicePace().spread) == (False, USUAL_PER_S, None)


def test_one_odd_text_does_not_change_it():
    pace = taught(15.0)
    pace.learn(TEXT, 60.0, loud_end=False)
    assert pace.per_s == pytest.approx(15.0)


@pytest.mark.parametrize(("text", "seconds"), [("Yes.", 1.0), (TEXT, 0.0), (TEXT, SILENCE_S)])
def test_too_little_teaches_nothing(text, seconds):
    pace = VoicePace()
    pace.learn(text, seconds, loud_end=None)
    assert not pace.is_known


def test_the_more_a_voice_varies_the_shorter_its_texts_may_be():
    steady, varied = taught(15.0), taught(15.0, jitter=0.1)
    assert steady.enough(loud_end=False) > varied.enough(loud_end=False) > 0.5
    assert varied.enough(loud_end=True) > varied.enough(loud_end=False)
    assert VoicePace().enough(loud_end=False) == USUAL_PER_S / FAST_PER_S


def test_a_voice_that_always_ends_in_a_sound_is_not_suspected_for_it():
    pace = taught(15.0, loud_end=True, jitter=0.1)
    assert not pace.ends_in_silence
    assert pace.enough(loud_end=True) == pace.enough(loud_end=False)


def test_each_voice_has_its_own_and_the_oldest_is_forgotten():
    paces = VoicePaces()
    first = paces.of("p/m", "anna", None)
    assert paces.of("p/m", "anna", 1.0) is first
    assert paces.of("p/m", "anna", 1.5) is not first
    assert paces.of("p/m", "bert", None) is not first
    for n in range(1_024):
        paces.of("p/m", f"voice {n}", None)
    assert paces.of("p/m", "anna", None) is not first


@pytest.mark.parametrize("per_s", [12.0, 15.0, 22.0])
def test_a_new_voice_is_slow_among_those_of_its_model(per_s):
    """Of ten words that it has spoken at the pace of the others, two are repeated; of a voice without others, up to five."""
    paces = VoicePaces()
    text = "The quick brown fox jumps over the lazy dog and runs away."
    for voice in ("a", "b"):
        paces.of("m", voice, None).learn(text, SILENCE_S + letters_of(text) / per_s, loud_end=False)
    new = paces.of("m", "c", None)
    assert not new.is_known
    assert new.per_s == pytest.approx(per_s)
    assert new.least_per_s == pytest.approx(per_s * SLOW_PER_S / USUAL_PER_S)
    assert (paces.of("m", "c", 1.2).least_per_s, paces.of("other", "a", None).least_per_s) == (SLOW_PER_S, SLOW_PER_S)
    words = " ".join(["golf"] * 20)  # five letters each, with its space
    for pace, most in ((new, 3), (VoicePace(), {12.0: 2, 15.0: 4, 22.0: 6}[per_s])):
        spoken = SpokenText()
        spoken.add(words)
        progress = SpeechProgress(spoken, pace)
        progress.audio_s = 0.2 + 10 * 5 / per_s
        repeated = 10 - progress.spoken() // 5
        assert 0 <= repeated <= most
