"""Cut the text of a live speech session into parts: those that the phrase cache has, and those that a vendor must speak.

Text arrives in pieces, and is looked at from the beginning of each sentence:

    text since then                                         becomes
    ─────────────────────────────────────────────────────   ─────────────────────────────────────────────────────────────
    begins with a kept text, up to the end of a sentence    a part from the cache
    may become one (it is how a kept text begins)           held until more comes, HOLD_S at most
    anything else                                           a part for the vendor, or more of it, up to the sentence's end

So a miss waits for no more than the words in which it is like a kept text. A flush or the end of the text ends a sentence, too.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final, Protocol

import attrs

HOLD_S: Final = 0.1
"""Longest wait for more of a text that may be a kept one, from its latest piece."""
_SENTENCES: Final = 8
"""Most sentences that a kept text is looked for with, from the beginning of another."""
_END = re.compile(r"[.!?…。！？][\"'”’»)\]」』]*(?=\s)|[。！？](?=[^。！？」』”’\s])")
_ENDED = re.compile(r"[.!?…。！？][\"'”’»)\]」』]*\s*\Z")
_CLOSING = 8  # characters before a position in which the end of a sentence may have begun


class KeptTexts(Protocol):
    """Looks texts up in one voice."""

    def has(self, text: str) -> bool:
        """Return whether the cache has the speech of a text."""

    def may_have(self, beginning: str) -> bool:
        """Return whether a text in the cache begins like this, as far as that can be known."""


@attrs.define(eq=False)
class TextPart:
    """Text from `start` to `end` of the session's; `end` of a part for the vendor grows until it is `closed`."""

    start: int
    end: int
    cached: bool = False
    closed: bool = False
    is_flush: bool = False
    """A flush that has nothing to speak before it."""


class TextParts:
    """The parts of one session's text. `begun` are those of which `next` was called."""

    def __init__(self, kept: KeptTexts, *, only_whole: bool = False) -> None:
        """`only_whole`: the cache speaks the text up to the first flush, or to its end, or nothing."""
        self._kept = kept
        self._only_whole = only_whole
        self._waiting: deque[TextPart] = deque()
        self._open: TextPart | None = None
        self._text = ""
        self._decided = 0  # offset up to which text belongs to parts
        self._in_sentence = False
        self._finished = False

    @property
    def held(self) -> bool:
        """Return whether text waits for more of it."""
        return bool(self._text[self._decided :].strip())

    @property
    def open(self) -> TextPart | None:
        """Return the vendor's part that takes more text."""
        return self._open

    @property
    def has_next(self) -> bool:
        return bool(self._waiting)

    @property
    def is_over(self) -> bool:
        """Return whether there is no part any more, and none will come."""
        return self._finished and not self._waiting and not self.held

    def next(self) -> TextPart:
        return self._waiting.popleft()

    def add(self, text: str) -> None:
        """Add text, of which `decide` makes parts."""
        self._text += text

    def decide(self) -> None:
        """Make parts of the text, as far as it need not wait. Like `expire`, `flush` and `finish`, call it again if `kept` has raised."""
        self._decide()

    def expire(self) -> None:
        """Wait no longer for more of the text that is held."""
        self._decide(expired=True)

    def flush(self) -> bool:
        """Have all text spoken. Return whether the vendor of the open part is to answer for it."""
        self._decide(complete=True)
        self._in_sentence = False
        if self._open is not None:
            return True
        self._decided = len(self._text)
        self._waiting.append(TextPart(self._decided, self._decided, is_flush=True))
        return False

    def finish(self) -> None:
        self._finished = True
        self._decide(complete=True)
        self._close()

    def clear(self) -> None:
        """Drop the text that belongs to no part that was begun."""
        if self._open in self._waiting:
            self._open = None
        self._waiting.clear()
        self._decided = len(self._text)
        self._in_sentence = False
        if self._open is not None:
            self._open.end = self._decided

    # ------------------------------------------------------------------ decisions

    def _decide(self, *, complete: bool = False, expired: bool = False) -> None:
        """Give all text to parts, but for some that waits. `complete`: the text ends here, for now."""
        while self._decided < len(self._text):
            if self._in_sentence:
                self._release(self._sentence_end())
                continue
            begin = len(self._text) - len(self._text[self._decided :].lstrip())
            if begin == len(self._text):
                if self._open is not None:  # a vendor may wait for the end of a word
                    self._release(begin)
                return
            rest = self._text[begin:]
            if (end := self._cached_end(rest, complete=complete, expired=expired)) is not None:
                self._close()
                self._waiting.append(TextPart(self._decided, begin + end, cached=True, closed=True))
                self._decided = begin + end
            elif not complete and not expired and self._kept.may_have(rest.rstrip()):
                return
            else:
                self._release(self._sentence_end())

    def _cached_end(self, rest: str, *, complete: bool, expired: bool) -> int | None:
        """Return how far the text that begins a sentence is a kept one, as far as possible."""
        if self._only_whole:
            return len(rest) if complete and not self._decided and self._kept.has(rest.strip()) else None
        ends = [match.end() for _, match in zip(range(_SENTENCES), _END.finditer(rest), strict=False)]
        if complete or (expired and _ENDED.search(rest)):
            ends.append(len(rest))
        return next((end for end in reversed(ends) if self._kept.has(rest[:end].strip())), None)

    def _sentence_end(self) -> int:
        """Return the end of the sentence in the text that is not decided, and note whether it has one."""
        least = self._decided if self._in_sentence else self._decided + 1
        matches = _END.finditer(self._text, max(0, self._decided - _CLOSING))
        end = next((match.end() for match in matches if match.end() >= least), None)
        self._in_sentence = end is None
        return len(self._text) if end is None else end

    def _release(self, end: int) -> None:
        """Give text up to `end` to the vendor."""
        if self._open is None:
            self._open = TextPart(self._decided, self._decided)
            self._waiting.append(self._open)
        self._open.end = self._decided = end

    def _close(self) -> None:
        if self._open is not None:
            self._open.closed = True
            self._open = None


def beginnings(length: int) -> list[int]:
    """Return the lengths of the beginnings by which a text of so many characters is known."""
    return [size for size in _SIZES if size <= length]


def beginning_of(text: str) -> str:
    """Return the longest beginning of a text by which kept ones are known."""
    return text[: beginnings(len(text))[-1]] if text else ""


def _sizes(longest: int) -> list[int]:
    sizes = [1]
    while sizes[-1] < longest:
        sizes.append(max(sizes[-1] + 1, sizes[-1] * 5 // 4))
    return sizes


_SIZES: Final = _sizes(5_000)
"""Each beginning is a quarter longer than the one before, so that a text has few of them."""
