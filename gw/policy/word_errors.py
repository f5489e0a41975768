"""Distance of two transcripts: the words that would have to be replaced, added or left out.

The distance is Levenshtein's, by Hyyrö's bit-parallel form of Myers' algorithm ("Explaining and extending the bit-parallel
approximate string matching algorithm of Myers", 2001), with one bit of an integer for each word. A thousand words take 10 ms, where
a table of all pairs takes half a second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

MOST_WORDS: Final = 3_000
"""Words of a transcript that are compared: about twenty minutes of speech."""
_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def words_of(text: str) -> list[str]:
    """Return the words of a transcript without capitals and punctuation, which vendors set as they like."""
    return [word.replace("’", "'") for word in _WORD.findall(text.casefold())]


class WordDistance:
    """The distance of a transcript from another one, whose words come some at a time: the work is the same for each of them."""

    def __init__(self, reference: Sequence[str]) -> None:
        self._places: dict[str, int] = {}
        for index, word in enumerate(reference):
            self._places[word] = self._places.get(word, 0) | 1 << index
        self._every = (1 << len(reference)) - 1
        self._last = 1 << len(reference) >> 1
        self._more, self._less = self._every, 0  # where a row of the table grows by one from word to word, and where it shrinks
        self.edits = len(reference)
        """The least number of words to replace, add or leave out that turns one transcript into the other."""

    def add(self, words: Sequence[str]) -> None:
        """Take the next words of the other transcript."""
        if not self._last:
            self.edits += len(words)
            return
        every, more, less = self._every, self._more, self._less
        for word in words:
            equal = self._places.get(word, 0)
            vertical = equal | less
            horizontal = (((equal & more) + more) ^ more) | equal
            grows, shrinks = less | (~(horizontal | more) & every), more & horizontal
            self.edits += bool(grows & self._last) - bool(shrinks & self._last)
            grows, shrinks = (grows << 1 | 1) & every, shrinks << 1 & every
            more, less = shrinks | (~(vertical | grows) & every), grows & vertical
        self._more, self._less = more, less
