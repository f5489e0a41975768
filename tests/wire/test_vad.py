from __future__ import annotations

from array import array
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.providers.sim import fsk
from gw.wire.vad import LEAD_S, MAX_UTTERANCE_S, Began, Ended, Spoken, Utterances

RATE = 16_000
SILENCE_S = 0.6


def quiet(seconds, level=0, seed=1):
    noise = Random(seed)
    count = int(RATE * seconds)
    return array("h", (noise.randint(-level, level) for _ in range(count))).tobytes() if level else bytes(2 * count)


def speech(text="hello there"):
    return b"".join(fsk.encode(text, RATE))


def cues_of(data, *, step=640, rate=RATE, silence_s=SILENCE_S):
    utterances = Utterances(rate, silence_s=silence_s)
    cues = []
    for at in range(0, len(data), step):
        cues += utterances.feed(data[at : at + step])
    return cues + utterances.end()


def spoken(cues):
    """Beginning, end, whether it paused, samples; per utterance."""
    result = []
    for cue in cues:
        match cue:
            case Began():
                result.append([cue, None, b""])
            case Spoken(data=data):
                result[-1][2] += data
            case Ended():
                result[-1][1] = cue
    return result


def test_an_utterance_lies_between_silences():
    speech_samples = speech()
    ((began, ended, data),) = spoken(cues_of(quiet(1) + speech_samples + quiet(1)))
    assert began.onset
    assert began.at_s == pytest.approx(1.0, abs=0.03)
    assert 0 <= began.at_s - began.from_s <= LEAD_S
    assert ended.at_s == pytest.approx(1.0 + len(speech_samples) / 32_000, abs=0.05)
    assert (ended.pause, ended.voiced) == (True, True)
    assert speech_samples in data
    assert len(data) / 32_000 == pytest.approx(LEAD_S - 0.06 + len(speech_samples) / 32_000 + SILENCE_S, abs=0.08)


def test_a_pause_shorter_than_requested_does_not_end_it():
    data = speech("one") + quiet(0.4) + speech("two") + quiet(1) + speech("three") + quiet(1)
    assert len(spoken(cues_of(data))) == 2
    assert len(spoken(cues_of(data, silence_s=0.2))) == 3


@pytest.mark.parametrize("noise", [0, 30, 100, 230])
def test_steady_noise_is_not_speech(noise):
    data = quiet(3, noise) + speech() + quiet(2, noise, seed=2)
    ((began, _, _),) = spoken(cues_of(data))
    assert began.at_s == pytest.approx(3.0, abs=0.05)


def test_a_click_is_not_speech():
    click = array("h", [9_000] * 320).tobytes()
    assert cues_of(quiet(0.5) + click + quiet(0.5) + click + quiet(1)) == []


def test_an_utterance_unfinished_at_the_end_is_reported():
    ((_, ended, data),) = spoken(cues_of(quiet(0.5) + speech() + b"\1\2\3"))
    assert ended.pause
    assert data.endswith(b"\1\2")


def test_an_end_between_two_utterances_says_nothing_and_more_may_follow():
    utterances = Utterances(RATE, silence_s=SILENCE_S)
    assert utterances.end() == []
    assert utterances.feed(quiet(0.1)) == []
    assert [type(cue) for cue in utterances.feed(speech())] == [Began, Spoken]
    assert [type(cue) for cue in utterances.end()] == [Ended]
    assert [type(cue) for cue in utterances.feed(quiet(0.5) + speech("again"))] == [Began, Spoken]


def test_long_speech_is_cut_at_a_short_pause_and_nothing_is_lost():
    word = speech("a word or two")
    data = b"".join(word + quiet(0.16) for _ in range(40)) + quiet(1)
    result = spoken(cues_of(data))
    assert len(result) > 1
    assert [began.onset for began, _, _ in result] == [True] + [False] * (len(result) - 1)
    assert [ended.pause for _, ended, _ in result] == [False] * (len(result) - 1) + [True]
    assert all(20 <= len(part) / 32_000 < MAX_UTTERANCE_S for _, _, part in result[:-1])
    assert b"".join(part for _, _, part in result) in data
    assert all(a[1].at_s == b[0].from_s for a, b in pairwise(result))


def test_speech_without_a_pause_is_cut_at_the_longest():
    data = (speech("x" * 200) * 5)[: 32_000 * 60]
    result = spoken(cues_of(data))
    assert len(result[0][2]) / 32_000 == pytest.approx(MAX_UTTERANCE_S, abs=0.05)


def test_a_noise_that_does_not_stop_becomes_the_floor():
    data = quiet(40, 600) + speech() + quiet(1)
    result = spoken(cues_of(data))
    assert len(result) == 3    # the noise, what of it followed the cut, and then the speech
    assert [ended.voiced for _, ended, _ in result] == [True, False, True]
    assert result[2][0].at_s == pytest.approx(40, abs=0.1)


DATA = quiet(0.5) + speech("hi") + quiet(0.7) + speech("you") + quiet(0.3)
WHOLE = spoken(cues_of(DATA))


@given(st.lists(st.integers(1, 5_000), max_size=30))
def test_cut_anywhere_it_is_the_same(steps):
    utterances = Utterances(RATE, silence_s=SILENCE_S)
    cues, at = [], 0
    for step in steps:
        cues += utterances.feed(DATA[at : at + step])
        at += step
    cues += utterances.feed(DATA[at:])
    assert spoken(cues + utterances.end()) == WHOLE


@given(st.binary(max_size=4_000))
def test_any_bytes_are_accepted(data):
    result = spoken(cues_of(data))
    assert all(ended is not None for _, ended, _ in result)
