"""Recent answers and transcripts of one key, by their words, so that a search costs the same among ten of them and a thousand.

Texts are compact (`gw.policy.turn_texts.compact`), so there are no words to look up. Two searches differ:

* Which answers hold a text that is sent to a voice? An answer is cut into blocks of BLOCK letters. Whatever holds a text of at least
  2 * BLOCK - 1 letters has one of its blocks whole within that text, so BLOCK looks find all that may hold it.
* Which transcripts does the message of a chat request hold? A transcript is filed under the BLOCK letters that it begins with, so one look
  for each letter of the message finds all that may be in it.

What may fit is then compared in full: the files change no result, only its price. Texts that are too short for them are looked
through. So are answers that are still being written, and those of a key that has few.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

from gw.policy.turn_texts import DISTINCTIVE, HeardText, WrittenAnswer

BLOCK = 6
FEW = 32
"""Texts of a key that are looked through one by one: with so few, that costs no more than to file one."""
FILED_AT_ONCE = 8
"""Answers that one search files at most, so that a burst of them is paid for by several."""

Match: TypeAlias = tuple[WrittenAnswer, int]
"""An answer, and where the words that were searched begin in its text."""


class RecentAnswers:
    """Answers that may still be spoken, in their order, each with its own `number`."""

    def __init__(self) -> None:
        self._all: dict[int, WrittenAnswer] = {}
        self._unfiled: dict[int, WrittenAnswer] = {}
        self._blocks: dict[str, list[WrittenAnswer]] = {}
        self._conversations: dict[str, dict[int, WrittenAnswer]] = {}

    def __iter__(self) -> Iterator[WrittenAnswer]:
        return iter(self._all.values())

    def add(self, answer: WrittenAnswer) -> None:
        self._all[answer.number] = self._unfiled[answer.number] = answer
        self._conversations.setdefault(answer.conversation, {})[answer.number] = answer

    def remove(self, answer: WrittenAnswer) -> None:
        """Forget an answer, unless it is unknown here."""
        if self._all.pop(answer.number, None) is None:
            return
        known = self._conversations[answer.conversation]
        del known[answer.number]
        if not known:
            del self._conversations[answer.conversation]
        if self._unfiled.pop(answer.number, None) is not None:
            return
        for block in _blocks(answer.text):
            holders = self._blocks[block]
            holders.remove(answer)
            if not holders:
                del self._blocks[block]

    def holding(self, words: str, since: float, most: float = math.inf) -> list[Match] | None:
        """Return the answers later than `since` that hold these words and have not spoken them yet. None if they are more than `most`."""
        for answer in self._unfiled.values():
            if answer.pieces:
                answer.read_pieces()
        if len(self._unfiled) > FEW:
            self._file()
        matches: dict[int, Match] = {}
        for answer in self._that_may_hold(words):
            if answer.at >= since and (at := answer.text.find(words, answer.spoken)) >= 0:
                matches[answer.number] = answer, at
                if len(matches) > most:
                    return None
        return [matches[number] for number in sorted(matches)]

    def remove_before(self, answer: WrittenAnswer) -> None:
        """Forget the earlier answers of the same conversation: whoever speaks an answer does not speak those any more."""
        known = self._conversations.get(answer.conversation, {})
        for earlier in [other for number, other in known.items() if number < answer.number]:
            self.remove(earlier)

    def _that_may_hold(self, words: str) -> Iterable[WrittenAnswer]:
        """Return the answers that are to be compared, some more than once."""
        if len(words) < 2 * BLOCK - 1:
            return self._all.values()
        if not self._blocks:
            return self._unfiled.values()
        return chain(self._unfiled.values(), *(self._blocks.get(words[start : start + BLOCK], ()) for start in range(BLOCK)))

    def _file(self) -> None:
        """File the oldest of the answers that are complete."""
        complete = [answer for answer in self._unfiled.values() if answer.place.is_done]
        for answer in complete[:FILED_AT_ONCE]:
            del self._unfiled[answer.number]
            for block in _blocks(answer.text):
                self._blocks.setdefault(block, []).append(answer)


class RecentTranscripts:
    """Final transcripts in their order, each with its own `number`."""

    def __init__(self) -> None:
        self._all: dict[int, HeardText] = {}
        self._beginnings: dict[str, list[HeardText]] = {}
        """First letters → transcripts; the whole of those that have fewer."""
        self._short: set[str] = set()
        """Beginnings with less than BLOCK letters."""
        self._by_source: dict[str, dict[int, HeardText]] = {}
        """Request of a live transcription or recording → its transcripts."""

    def __iter__(self) -> Iterator[HeardText]:
        return iter(self._all.values())

    def add(self, final: HeardText) -> None:
        self._all[final.number] = final
        beginning = final.text[:BLOCK]
        self._beginnings.setdefault(beginning, []).append(final)
        if len(beginning) < BLOCK:
            self._short.add(beginning)
        self._by_source.setdefault(final.source.request_id, {})[final.number] = final

    def remove(self, final: HeardText) -> None:
        """Forget a transcript, unless it is unknown here."""
        if self._all.pop(final.number, None) is None:
            return
        beginning, source = final.text[:BLOCK], final.source.request_id
        self._beginnings[beginning].remove(final)
        if not self._beginnings[beginning]:
            del self._beginnings[beginning]
            self._short.discard(beginning)
        del self._by_source[source][final.number]
        if not self._by_source[source]:
            del self._by_source[source]

    def latest_at(self) -> float:
        """Return the time of the latest transcript; minus infinity without any."""
        return next(reversed(self._all.values())).at if self._all else -math.inf

    def within(self, message: str, since: float, most: float = math.inf) -> list[HeardText] | None:
        """Return the transcripts later than `since` whose words a message holds, in their order.

        None if more than `most` of them may be what it says, and have not been used by a request.
        """
        matches = []
        unused = 0
        for final in self._that_may_be_in(message):
            if final.at >= since and final.text in message:
                matches.append(final)
                unused += (len(final.text) >= DISTINCTIVE or final.text == message) and final.is_open
                if unused > most:
                    return None
        matches.sort(key=_number)
        return matches

    def before(self, first: HeardText) -> list[HeardText]:
        """Return what the same request has heard before a transcript."""
        return [final for number, final in self._by_source.get(first.source.request_id, {}).items() if number < first.number]

    def _that_may_be_in(self, message: str) -> Iterator[HeardText]:
        if len(self._all) <= max(FEW, len(message)):
            yield from self._all.values()
            return
        beginnings = {message[start : start + BLOCK] for start in range(len(message) - BLOCK + 1)}
        beginnings.update(text for text in self._short if text in message)
        for beginning in beginnings:
            yield from self._beginnings.get(beginning, ())


def _blocks(text: str) -> set[str]:
    return {text[start : start + BLOCK] for start in range(0, len(text) - BLOCK + 1, BLOCK)}


def _number(final: HeardText) -> int:
    return final.number
