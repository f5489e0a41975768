"""Splitting of text into sentences, so that the first is spoken while the others are synthesised."""

from __future__ import annotations

import re
from collections.abc import Iterator

_END = re.compile(r"(?<=[.!?…])\s+(?=\S)|(?<=[。！？])(?=[^。！？」』”’\s])")
MIN_CHARACTERS = 25
"""A shorter sentence is joined to the next: "Dr. Who" is not two, and a voice needs some text for its intonation."""


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences; joined they equal `text`, including white space."""
    start = 0
    for end in _END.finditer(text):
        if end.end() - start >= MIN_CHARACTERS:
            yield text[start : end.end()]
            start = end.end()
    yield text[start:]
