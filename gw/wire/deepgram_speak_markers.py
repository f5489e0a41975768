"""Deepgram's markers for how a word of the text is pronounced: `\\{"word": "Nguyen", "pronounce": "wɪn"\\}`.

Sources: developers.deepgram.com/docs/tts-voice-controls, and deepgram-sdk 7.17.0, `helpers/text_builder.py`, which has the limits.
"""

from __future__ import annotations

import re
from typing import Final

_MARKER: Final = re.compile(r'\\\{"word": "([^"{}]*)", "pronounce": "[^"{}]*"\\\}')
_LONGEST_IPA: Final = 100
_BREAKING: Final = frozenset('"\\{}')
"""Characters that neither a word nor its phonemes may have."""


def pronounced(ipa: str, word: str) -> str:
    """Return the marker for a word whose phonemes have spaces between them; "" for one that a marker cannot hold."""
    phonemes = ipa.replace(" ", "")
    if len(phonemes) > _LONGEST_IPA or not _BREAKING.isdisjoint(word + phonemes):
        return ""
    return f'\\{{"word": "{word}", "pronounce": "{phonemes}"\\}}'


def counted(text: str) -> int:
    """Return the characters of a text as the vendor's SDK counts them: a marker has those of its word."""
    return len(_MARKER.sub(r"\1", text)) if "\\{" in text else len(text)
