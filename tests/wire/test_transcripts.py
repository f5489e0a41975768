"""Transcript events from a client's frames, and turns for a server's."""

from __future__ import annotations

import pytest

from gw.types.stt import Final, Interim, ListenEnd, SpeechStarted, Transcript, UtteranceEnd, VendorFrame, Word
from gw.wire.transcripts import (
    TurnEncoder,
    joined_text,
    segments_of,
    speaker_id,
    speaker_letter,
    speaker_number,
    timed_word,
    transcribed,
    unknown,
)

WORDS = (Word(text="Hi", start_s=0.25, end_s=0.5), Word(text="you", start_s=0.75, end_s=1.0))


class _Turns(TurnEncoder):
    def __init__(self):
        super().__init__()
        self._open = False

    def receive(self, frame):
        raise AssertionError("only events are encoded here")

    def encode(self, events):
        return list(super().encode(events))

    def _start_turn(self, at_s):
        started, self._open = not self._open, True
        return [f"start {at_s}"] if started else []

    def _update(self, results):
        return f"update {joined_text(results)}"

    def _end_turn(self, at_s):
        text, self._finals, self._open = joined_text(self._finals), [], False
        return [f"end {at_s} {text}"]


def test_a_transcript_has_the_times_of_its_words():
    assert transcribed(Final, "Hi you", WORDS, start_s=5.0, end_s=6.0) == Final(
        text="Hi you", start_s=0.25, end_s=1.0, words=WORDS
    )
    interim = transcribed(Interim, "Hi", (), start_s=5.0, end_s=6.0, language="en", confidence=0.5, raw="{}")
    assert interim == Interim(text="Hi", start_s=5.0, end_s=6.0, language="en", confidence=0.5, raw="{}")


def test_a_frame_without_common_meaning_is_for_callers_of_the_same_dialect():
    assert unknown(None) == []
    assert unknown("{}") == [VendorFrame(raw="{}")]


def test_a_word_in_json():
    assert timed_word(Word(text="a", start_s=0.12345, end_s=1.0), x=1) == {"word": "a", "start": 0.123, "end": 1.0, "x": 1}


def test_a_turn_repeats_its_transcript_until_it_ends():
    turns = _Turns()
    events = [SpeechStarted(at_s=0.5), Interim(text="He"), Interim(text=""), Final(text="Hello")]
    assert turns.encode(events) == ["start 0.5", "update He", "update Hello"]
    assert turns.encode([Interim(text="you")]) == ["update Hello you"]
    assert turns.encode([Final(text="there"), UtteranceEnd(at_s=2.0)]) == ["end 2.0 Hello there"]   # no update before it
    assert turns.encode([Final(text="Bye", start_s=3.0), ListenEnd()]) == ["start 3.0", "update Bye", "end None Bye"]


@pytest.mark.parametrize(
    ("label", "number", "letter", "id_"),
    [("0", 0, "A", "speaker_0"), ("B", 1, "B", "speaker_1"), ("speaker_12", 12, "M", "speaker_12"), ("40", 40, "40", "speaker_40")],
)
def test_speakers_in_every_vendors_words(label, number, letter, id_):
    assert (speaker_number(label), speaker_letter(label), speaker_id(label)) == (number, letter, id_)


def test_a_speaker_with_a_name_keeps_it_where_names_are_possible():
    assert (speaker_letter("agent"), speaker_id("agent")) == ("agent", "agent")
    assert speaker_number("agent") >= 1_000
    assert speaker_number("agent") != speaker_number("customer")


def spoken(*words: tuple[str, float, str | None]) -> Transcript:
    timed = [Word(text=text, start_s=at, end_s=at + 0.3, speaker=speaker) for text, at, speaker in words]
    return Transcript(text=" ".join(word.text for word in timed), words=tuple(timed))


def test_segments_are_made_of_words():
    made = segments_of(spoken(("Hi", 0, None), ("there.", 0.4, None), ("You", 0.8, None), ("ok?", 1.2, None), ("Yes", 3, None)))
    assert [(s.text, s.start_s, round(s.end_s, 3)) for s in made] == [("Hi there.", 0, 0.7), ("You ok?", 0.8, 1.5), ("Yes", 3, 3.3)]
    made = segments_of(spoken(("Hi", 0, "0"), ("you", 0.4, "0"), ("hello", 0.8, "1")))
    assert [(s.text, s.speaker, len(s.words)) for s in made] == [("Hi you", "0", 2), ("hello", "1", 1)]
    assert len(segments_of(spoken(*((f"w{n}", n * 0.5, None) for n in range(40))))) >= 3
    assert segments_of(Transcript(text="no words")) == ()


def test_a_vendors_own_segments_stay():
    own = (Final(text="a", start_s=1.0, end_s=2.0),)
    assert segments_of(Transcript(text="a", segments=own, words=(Word(text="a", start_s=1, end_s=2),))) == own
