from __future__ import annotations

import pytest

from gw.relay.joined_words import WordJoin
from gw.types.stt import Final, Interim, SpeechStarted, UtteranceEnd, Word

END = UtteranceEnd(at_s=1.0)


def texts(join, *events):
    return [event.text if isinstance(event, (Interim, Final)) else type(event).__name__ for event in join.joined(list(events))]


@pytest.mark.parametrize(
    ("said", "again", "kept"),
    [
        ("one two three", "four five", ["four five"]),
        ("one two three", "Three, four", ["four"]),
        ("one two. Three!", "two three four", ["four"]),
        ("one two three", "two four", ["two four"]),  # not what was said at the end
        ("one two three", "one two three", []),
        ("one two three", "", [""]),
        ("", "one", ["one"]),
    ],
)
def test_the_words_at_the_seam_are_said_once(said, again, kept):
    assert texts(WordJoin(said), Final(text=again)) == kept


def test_a_transcript_without_other_words_goes_with_its_end():
    join = WordJoin("one two three")
    assert texts(join, SpeechStarted(at_s=0.0), Interim(text="two"), Final(text="two"), END) == ["SpeechStarted"]
    assert texts(join, Final(text="three four"), END) == ["four", "UtteranceEnd"]
    assert texts(join, Final(text="four five"), END) == ["four five", "UtteranceEnd"]


def test_interim_transcripts_do_not_use_the_words_up():
    join = WordJoin("one two three")
    assert texts(join, Interim(text="three")) == []
    assert texts(join, Interim(text="three four")) == ["four"]
    assert texts(join, Final(text="three four five")) == ["four five"]
    assert texts(join, Interim(text="three")) == ["three"]


def test_times_of_the_words_kept():
    words = tuple(Word(text=text, start_s=float(n), end_s=n + 0.5) for n, text in enumerate(["three", "four", "five"]))
    (final,) = WordJoin("two three").joined([Final(text="three four five", start_s=0.0, end_s=2.5, words=words)])
    assert final == Final(text="four five", start_s=1.0, end_s=2.5, words=words[1:])
    (final,) = WordJoin("two three").joined([Final(text="three four five", start_s=0.0, end_s=2.5, words=words[:2])])
    assert (final.start_s, final.words) == (0.0, ())
