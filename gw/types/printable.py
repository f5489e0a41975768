"""Text of others made safe for terminals, logs and spreadsheets: models, voices, names and messages come from anywhere.

Unsafe are control characters (C0, DEL, C1), which drive a terminal; line and paragraph separators, which break a row; and the
characters that change the direction of what follows (Unicode TR36, 2.5), with which a name can show itself as another one.
"""

from __future__ import annotations

import re
from typing import Final

_DIRECTIONS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNSAFE: Final = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *_DIRECTIONS)
_SPACES: Final = dict.fromkeys(_UNSAFE, " ")
_NOTHING_BUT_LINES: Final = dict.fromkeys((code for code in _UNSAFE if code not in (0x09, 0x0A)), "")
_CLASS: Final = "".join(f"\\u{code:04x}" for code in _UNSAFE)
_ALL: Final = re.compile(f"[{_CLASS}]")
_ALL_BUT_NEWLINE: Final = re.compile(f"(?!\n)[{_CLASS}]")
_SHORT: Final = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_FORMULA: Final = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""Matches the beginning of what a spreadsheet runs as a formula, also with the full-width signs of East Asian keyboards."""


def one_line(text: str) -> str:
    """Return text for a cell of a table: spaces stand for what is unsafe, tabs and newlines among it."""
    return text.translate(_SPACES)


def for_terminal(text: str) -> str:
    """Return text without what is unsafe; tabs and newlines stay."""
    return text.translate(_NOTHING_BUT_LINES)


def escaped(text: str, *, newlines: bool = False) -> str:
    r"""Return text with `\x1b` for what is unsafe. `newlines` stay when they are wanted."""
    return (_ALL_BUT_NEWLINE if newlines else _ALL).sub(_escape, text)


def escaped_json(text: str) -> str:
    r"""Return JSON of the same value, with `\u202e` for what its strings have of unsafe characters; its own newlines stay."""
    return _ALL_BUT_NEWLINE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def spreadsheet_cell(text: str) -> str:
    """Return text for a cell of a CSV file, with a leading quote where a spreadsheet would run it as a formula."""
    cell = one_line(text)
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return _SHORT.get(code) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
