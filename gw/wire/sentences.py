"""Splitting of text: into sentences, so that the first is spoken while the others are synthesised, and at the word heard last."""

from __future__ import annotations

import re
from collections.abc import Iterator

_END = re.compile(r"(?<=[.!?…])\s+(?=\S)|(?<=[。！？])(?=[^。！？」』”’\s])")
_WORD = re.compile(r"\S+")
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


def heard_words(text: str, offset: int) -> str:
    """Return the words of `text` that end by `offset`; punctuation behind the last one counts as heard with it."""
    end = 0
    for word in _WORD.finditer(text):
        if word.start() >= offset:
            break
        if any(character.isalnum() for character in text[offset : word.end()]):
            break
        end = word.end()
    return text[:end]
