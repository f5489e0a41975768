"""No text of others drives a terminal, hides in a row or runs in a spreadsheet."""

from __future__ import annotations

import json
import unicodedata

import pytest

from gw.types.printable import escaped, escaped_json, for_terminal, one_line, spreadsheet_cell

CONTROLS = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp")]
BIDI_CLASSES = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
DIRECTIONS = [chr(code) for code in range(0x110000) if unicodedata.bidirectional(chr(code)) in BIDI_CLASSES]
MARKS = ["\u061c", "\u200e", "\u200f"]
UNSAFE = [*CONTROLS, *DIRECTIONS, *MARKS]
TEXT = "größe 音声 صوت é a\u0301 👩🏽‍🚀 '\"\\"


def test_the_characters_are_those_of_unicode():
    assert (len(CONTROLS), len(DIRECTIONS)) == (67, 9)


@pytest.mark.parametrize("form", [one_line, for_terminal, escaped, escaped_json, spreadsheet_cell])
def test_nothing_unsafe_is_left_and_other_text_stays(form):
    shown = form("".join(UNSAFE))
    assert {c for c in shown if c in UNSAFE} <= {"\n", "\t"}
    assert form(TEXT) == TEXT


def test_what_takes_its_place():
    text = "a\x1b[31m\u202eb\tc\nd\x9be"
    assert one_line(text) == "a [31m b c d e"
    assert for_terminal(text) == "a[31mb\tc\nde"
    assert escaped(text) == "a\\x1b[31m\\u202eb\\tc\\nd\\x9be"
    assert escaped(text, newlines=True) == "a\\x1b[31m\\u202eb\\tc\nd\\x9be"


def test_json_keeps_its_value():
    value = {"".join(UNSAFE): ["".join(UNSAFE), TEXT]}
    text = escaped_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(text) == value
    assert {c for c in text if c in UNSAFE} == {"\n"}


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", " =1", "\u202e=1", "\x00=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"]
)
def test_formulas_are_text(text):
    assert spreadsheet_cell(text).startswith("'")


@pytest.mark.parametrize("text", ["a=1", "openai/gpt", "", "1", "'=1"])
def test_other_cells_have_no_quote(text):
    assert spreadsheet_cell(text) == text
