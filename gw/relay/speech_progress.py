"""The text of a live speech session: what was said of it, as far as can be told, and what is left."""

from __future__ import annotations

import re
from bisect import bisect_right

from gw.relay import waste

CHARACTERS_PER_S = 11.0
LEAD_IN_S = 0.3
"""A slow voice's pace after a moment of silence, where no vendor tells which words were spoken when: a word that is said
twice is better than one that is lost."""
_WORD_START = re.compile(r"\S+")


class SpeechProgress:
    """Offsets count the characters of all text since the beginning."""

    def __init__(self) -> None:
        self.text = ""
        self.flushes: list[int] = []
        """Offsets at which everything before was to be spoken."""
        self.spoken = 0
        """Everything before this offset was heard, or given up."""

    def add(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        if not self.flushes or self.flushes[-1] != len(self.text):
            self.flushes.append(len(self.text))

    def clear(self) -> None:
        """What was not spoken is given up."""
        self.spoken = len(self.text)
        self.flushes = [at for at in self.flushes if at <= self.spoken]

    def rest(self) -> list[str | None]:
        """What is to be spoken still: text, and None for each flush."""
        found: list[str | None] = []
        at = self.spoken
        for flush in self.flushes[bisect_right(self.flushes, self.spoken) :]:
            found += [self.text[at:flush], None]
            at = flush
        if at < len(self.text):
            found.append(self.text[at:])
        return [piece for piece in found if piece != ""]


class Progress:
    """How far one provider has come with a script, by its own word times, its flushes, or else by the audio made."""

    def __init__(self, script: SpeechProgress) -> None:
        self._script = script
        self.begins = script.spoken
        """Where in the text it began."""
        self._marks = [(0.0, script.spoken)]
        """Seconds of audio, and how far in the text it was then: what lies between two of them is in proportion."""
        self._found = script.spoken
        """Where in the text the last word told of ends."""
        self._words: list[tuple[float, int]] = []
        """End of a word in the leg's audio, in seconds, and in the text."""
        self._flushed = script.spoken
        self._flushed_s = 0.0
        self.audio_s = 0.0
        """Of this provider, passed on to the caller."""

    def word(self, word: str, end_s: float) -> None:
        at = self._script.text.find(word.strip(), self._found)
        if at >= 0:
            self._found = at + len(word.strip())
            self._words.append((end_s, self._found))

    def flushed(self) -> None:
        """The next flush has been reached."""
        flushes = self._script.flushes
        index = bisect_right(flushes, self._flushed)
        self._flushed = flushes[index] if index < len(flushes) else len(self._script.text)
        self._flushed_s = self.audio_s
        self._marks.append((self.audio_s, self._flushed))

    def dropped(self) -> None:
        """What was not spoken by now is given up."""
        self._found = self._flushed = len(self._script.text)
        self._flushed_s = self.audio_s
        self._marks = [(self.audio_s, self._flushed)]
        self._words.clear()

    def heard(self, at_s: float, until: int, *, whole: bool) -> int:
        """The offset up to which the text was heard, `at_s` into this audio. It speaks up to `until`; `whole`: all of it is made."""
        if whole and at_s >= self.audio_s - 0.001:
            return until
        before, *marks = self._marks
        if self._words:
            return max((end for end_s, end in self._words if end_s <= at_s + 0.001), default=before[1])
        first = before
        for mark in [*marks, (self.audio_s, until)] if whole else marks:
            if at_s < mark[0]:
                return before[1] + int((mark[1] - before[1]) * max(0.0, at_s - before[0]) / (mark[0] - before[0]))
            before = mark
        made_s = before[0] - first[0]
        pace = (before[1] - first[1]) / made_s if made_s > 1 else waste.CHARACTERS_PER_S
        return min(until, before[1] + int(max(0.0, at_s - before[0]) * pace))

    def spoken(self) -> int:
        """The offset up to which words were heard whole: at the beginning of the first that was not."""
        if self._words:
            heard = max((end for end_s, end in self._words if end_s <= self.audio_s + 0.001), default=0)
        else:
            speech_s = max(0.0, self.audio_s - self._flushed_s - LEAD_IN_S)
            heard = self._at_word(self._flushed + int(speech_s * CHARACTERS_PER_S))
        return max(heard, self._flushed)

    def _at_word(self, guess: int) -> int:
        """The beginning of the word that stands at `guess`."""
        text = self._script.text
        begins = self._flushed
        for word in _WORD_START.finditer(text, self._flushed):
            if word.end() > guess:
                return word.start() if word.start() <= guess else begins
            begins = word.end()
        return begins
