"""Letters of scripts that put no space between words."""

from __future__ import annotations

from typing import Final

WIDE: Final = ("\u0e00-\u0eff", "\u1000-\u109f", "\u1780-\u17ff", "\u3040-\u30ff", "\u3400-\u9fff", "\uac00-\ud7af", "\uf900-\ufaff")
"""Scripts that are written without spaces between words, and Korean syllables."""
_FIRST_WIDE = WIDE[0][0]


def is_wide(character: str) -> bool:
    """Return whether a character is one of WIDE. Not an expression: those of so many characters take long to compile."""
    return character >= _FIRST_WIDE and any(span[0] <= character <= span[-1] for span in WIDE)
