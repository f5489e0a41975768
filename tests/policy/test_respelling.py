"""Words are replaced whole, however the text is cut, and the vendor's word times are those of the caller's words."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.policy.respelling import PronunciationTable, RespelledText, for_language
from gw.types.pronunciation import Pronunciation
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, WordTiming

TABLE = [
    Pronunciation(word="Nguyen", say="win"),
    Pronunciation(word="New York", say="noo york"),
    Pronunciation(word="new", say="noo"),
    Pronunciation(word="US", say="you ess", match_case=True),
    Pronunciation(word="SQL", say="sequel"),
    Pronunciation(word="C++", say="see plus plus"),
    Pronunciation(word=".NET", say="dot net"),
    Pronunciation(word="café", say="kaffay"),
    Pronunciation(word="Zoë Saldaña", say="zo-ee sal-dan-ya"),
    Pronunciation(word="東京", say="トウキョウ"),
    Pronunciation(word="ăn", say="an"),
]
CASES = [
    ("Call Nguyen now.", "Call win now."),
    ("NGUYEN, nguyen and Nguyen's", "win, win and win's"),
    ("Nguyens and xNguyen and Nguyen_1", "Nguyens and xNguyen and Nguyen_1"),
    ("Anne-Nguyen (Nguyen)", "Anne-win (win)"),
    ("New York, new york, new yorker, New", "noo york, noo york, noo yorker, noo"),
    ("New\nYork", "noo york"),
    ("The US asks us", "The you ess asks us"),
    ("SQL MySQL SQLite", "sequel MySQL SQLite"),
    ("C++, not C++11 nor C+", "see plus plus, not C++11 nor C+"),
    ("ASP.NET and .NET", "ASP.NET and dot net"),
    ("a café", "a kaffay"),
    ("a cafe", "a cafe"),
    (unicodedata.normalize("NFD", "Zoë Saldaña at the CAFÉ"), "zo-ee sal-dan-ya at the kaffay"),
    ("東京都と東京", "トウキョウ都とトウキョウ"),
    ("ăn", "an"),
    (unicodedata.normalize("NFD", "ăn"), "an"),
    ('Nguyen <break time="1s"/> <phoneme ph="new">Nguyen</phoneme> new', 'win <break time="1s"/> <phoneme ph="new">Nguyen</phoneme> noo'),
    ("<<n|e|w>> new, 1 < 2 and new > old", "<<n|e|w>> noo, 1 < 2 and noo > old"),
    ('<say-as interpret-as="name">New', '<say-as interpret-as="name">noo'),
    ("👩‍👩‍👧 new 🇺🇸 US", "👩‍👩‍👧 noo 🇺🇸 you ess"),
    ("", ""),
]


def respelled(*pieces: str, table=TABLE) -> RespelledText:
    text = RespelledText(PronunciationTable(table))
    sent = "".join(text.feed(piece) for piece in pieces) + text.end()
    assert (sent, text.characters) == (text.sent, sum(map(len, pieces)))
    return text


@pytest.mark.parametrize(("text", "sent"), CASES)
def test_whole_words_are_replaced_wherever_the_text_is_cut(text, sent):
    assert respelled(text).sent == sent
    assert respelled(*text).sent == sent
    for at in range(len(text)):
        assert respelled(text[:at], text[at:]).sent == sent


PARTS = [
    "New", " ", "York", "Nguyen", "'s", "us", "US", "c", "caf", "e", "\u0301", "<", "b>", ".", "NET", "東", "京", "<sub a='b'>", "</sub>",
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.data())
def test_cuts_change_nothing(parts, data):
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert respelled(*pieces).sent == respelled(text).sent


@pytest.mark.parametrize(
    ("pieces", "sent"),
    [
        (["Call "], "Call "), (["Call N"], "Call "), (["Call Nx"], "Call Nx"), (["Call Nguyen"], "Call "),
        (["Call Nguyen "], "Call win "), (["New Y"], ""), (["New Yo", "da"], "noo Yoda"), (["caf", "e"], ""), (["cafe "], "cafe "),
        (['a <break time="1'], "a "), (["1 <"], "1 "),
        (["a <" + "b" * 600], "a <" + "b" * 600), (["1 < 2"], "1 < 2"),
    ],
)  # fmt: skip
def test_only_what_may_become_a_word_is_held_back(pieces, sent):
    text = RespelledText(PronunciationTable(TABLE))
    assert "".join(map(text.feed, pieces)) == sent
    assert text.holds == (text.characters < sum(map(len, pieces)))


def test_what_is_held_is_dropped_when_the_listener_interrupts():
    text = RespelledText(PronunciationTable(TABLE))
    assert text.feed("Call Nguy") == "Call "
    text.clear()
    assert text.feed("en is fine. Nguyen") + text.end() == "en is fine. win"
    assert text.characters == len("Call en is fine. Nguyen")


def test_phonemes_go_where_the_model_takes_them():
    def markup(ipa: str, word: str) -> str:
        return f"[{ipa.replace(' ', '')}:{word}]" if word.isascii() else ""

    entries = [Pronunciation(word="Nguyen", say="win", ipa="w ɪ n"), Pronunciation(word="é", say="ay", ipa="e"), TABLE[1]]
    text = RespelledText(PronunciationTable(entries, markup))
    assert text.feed("Nguyen, é, New York. ") == "[wɪn:Nguyen], ay, noo york. "


def test_a_language_is_for_speech_in_it():
    entries = [Pronunciation(word=code or "any", say="x", language=code) for code in ("", "en", "en-GB", "de")]

    def words(language):
        return [entry.word for entry in for_language(entries, language)]

    assert words(None) == ["any"]
    assert words("en") == ["any", "en"]
    assert words("en_gb") == ["any", "en", "en-GB"]
    assert words("EN-US") == ["any", "en"]
    assert words("eng") == ["any"]


def timed(*words: str, gap: float = 1.0) -> list[WordTiming]:
    return [WordTiming(word=word, start_s=n * gap, end_s=n * gap + gap, raw="frame") for n, word in enumerate(words)]


@pytest.mark.parametrize(
    ("caller", "vendor", "words"),
    [
        ("Call Nguyen now.", ["Call", "win", "now."], [("Call", 0, 1), ("Nguyen", 1, 2), ("now.", 2, 3)]),
        ("(Nguyen's)", ["(win's)"], [("(Nguyen's)", 0, 1)]),
        ("Use SQL, please", ["Use", "sequel,", "please"], [("Use", 0, 1), ("SQL,", 1, 2), ("please", 2, 3)]),
        ("The US now", ["The", "you", "ess", "now"], [("The", 0, 1), ("US", 1, 3), ("now", 3, 4)]),
        ("In New York.", ["In", "noo", "york."], [("In", 0, 1), ("New", 1, 2), ("York.", 2, 3)]),
        ("win Nguyen win", ["win", "win", "win"], [("win", 0, 1), ("Nguyen", 1, 2), ("win", 2, 3)]),
        ("US US", ["you", "ess", "you", "ess"], [("US", 0, 2), ("US", 2, 4)]),
        ("The US now", ["The", "you", "now"], [("The", 0, 1), ("US", 1, 2), ("now", 2, 3)]),
        ("Room 12 US", ["Room", "twelve", "you", "ess"], [("Room", 0, 1), ("twelve", 1, 2), ("US", 2, 4)]),
    ],
)
def test_word_times_are_those_of_the_callers_words(caller, vendor, words):
    text = respelled(caller)
    out = text.mapped([*timed(*vendor), SpeakEnd()])
    assert [(event.word, event.start_s, event.end_s) for event in out[:-1]] == words
    assert [event.raw for event in out[:-1]] == [None] * len(words)


def test_a_word_that_ends_with_the_text_is_not_lost():
    text = respelled("The US")
    assert [event.word for event in text.mapped([*timed("The", "you"), Flushed(raw="flushed")])[:2]] == ["The", "US"]


def test_frames_with_the_vendors_words_are_not_passed_on():
    text = respelled("Nguyen")
    assert text.mapped([AudioChunk(data=b"a", raw="frame"), SpeakEnd(raw="end")]) == [AudioChunk(data=b"a"), SpeakEnd(raw="end")]
