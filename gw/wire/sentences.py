"""Text in pieces that can be spoken one by one: the first is heard while the others are made."""

from __future__ import annotations

import re
from collections.abc import Iterator

_END = re.compile(r"(?<=[.!?…])\s+(?=\S)|(?<=[。！？])(?=[^。！？」』”’\s])")
FEWEST_CHARACTERS = 25
"""A shorter sentence is joined to the next one: "Dr. Who" is not two, and a voice needs some text for its melody."""


def sentences(text: str) -> Iterator[str]:
    """Joined they are the text, white space and all."""
    begin = 0
    for end in _END.finditer(text):
        if end.end() - begin >= FEWEST_CHARACTERS:
            yield text[begin : end.end()]
            begin = end.end()
    yield text[begin:]
