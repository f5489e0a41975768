"""Text in whole words, for vendors that may speak the two parts of a word which comes in two frames as two words."""

from __future__ import annotations

_LONGEST_WORD = 200
"""Characters after which text is cut within a word."""
_WITHOUT_SPACES = ("\u2e80-\uabff", "\uf900-\ufaff", "\uff00-\uffef")
"""Scripts that are written without spaces. Not an expression: those of so many characters take long to compile."""


class WholeWords:
    """Keeps the beginning of a word until its end has come."""

    def __init__(self) -> None:
        self._begun = ""

    def add(self, text: str) -> str:
        """Return the words that are complete now, each with the space after it; "" while there are none."""
        text = self._begun + text
        cut = _last_boundary(text)
        self._begun = text[cut:]
        return text[:cut]

    def end(self) -> str:
        """Return the word that was begun, as the last one, without a space; "" if there is no such word."""
        last, self._begun = self._begun, ""
        return last


def _last_boundary(text: str) -> int:
    """Return where the last complete word ends, including the space after it."""
    for at in range(len(text) - 1, -1, -1):
        if text[at].isspace() or any(span[0] <= text[at] <= span[-1] for span in _WITHOUT_SPACES):
            return at + 1
    return len(text) if len(text) > _LONGEST_WORD else 0
