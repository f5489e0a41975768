from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.wire.sentences import MIN_CHARACTERS, heard_words, sentences

SHORT = "今日はとても良い天気ですね、散歩に行きませんか。"
LONG = "今日はとても良い天気ですね、一緒に散歩に行きませんか。"
YES = "はい、行きましょう。"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        ("Hello.", ["Hello."]),
        ("Dr. Who is here.", ["Dr. Who is here."]),
        ("It is 3.5 metres long, is it not? Yes, it is.", ["It is 3.5 metres long, is it not? ", "Yes, it is."]),
        (SHORT + YES, [SHORT + YES]),
        (LONG + YES, [LONG, YES]),
        ("One two three four five six. \n\n", ["One two three four five six. \n\n"]),
    ],
)
def test_sentences(text, parts):
    assert list(sentences(text)) == parts


@given(st.text(alphabet="ab .!?。\n"))
def test_joined_they_are_the_text(text):
    parts = list(sentences(text))
    assert "".join(parts) == text
    assert all(len(part) >= MIN_CHARACTERS for part in parts[:-1])


@pytest.mark.parametrize(
    ("offset", "heard"),
    [(0, ""), (3, ""), (5, "Hello,"), (6, "Hello,"), (8, "Hello,"), (11, "Hello, dear"), (17, "Hello, dear"), (18, "Hello, dear friend."),
     (19, "Hello, dear friend."), (99, "Hello, dear friend.")],
)  # fmt: skip
def test_a_word_counts_when_it_was_heard_completely(offset, heard):
    assert heard_words("Hello, dear friend.", offset) == heard
