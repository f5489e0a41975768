"""Transcript events from a client's frames, and turns for a server's."""

from __future__ import annotations

from gw.types.stt import Final, Interim, ListenEnd, SpeechStarted, UtteranceEnd, VendorFrame, Word
from gw.wire.transcripts import TurnEncoder, joined_text, timed_word, transcribed, unknown

WORDS = (Word(text="Hi", start_s=0.25, end_s=0.5), Word(text="you", start_s=0.75, end_s=1.0))


class _Turns(TurnEncoder):
    def __init__(self):
        super().__init__()
        self._open = False

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
