"""The text of a live speech session, and how far providers have come with it.

Position of one provider in the text (`SpeechProgress`), by the best evidence there is:

    evidence        position at a time of the audio                    first word that was not heard completely
    ─────────────   ────────────────────────────────────────────────   ────────────────────────────────────────────────
    word times      end of the last word that ended before it          after the last word that ended in the audio made
    flush reports   in proportion between two reports                  after the last report, at a slow voice's pace
    all is spoken   in proportion between last report and end
    audio only      at the pace between reports so far, else at        from the beginning, at a slow voice's pace
                    an ordinary voice's
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from gw.relay import waste

CHARACTERS_PER_S = 11.0
LEAD_IN_S = 0.3
"""A slow voice's pace after a moment of silence, for vendors that report no word times: a word spoken twice is better
than a word that is lost."""
_WORD_START = re.compile(r"\S+")


class SpokenText:
    """All text of a session. Offsets count its characters from the beginning."""

    def __init__(self) -> None:
        self.text = ""
        self.flushes: list[int] = []  # offsets at which everything before was to be spoken, ascending
        self.spoken = 0  # everything before this offset was heard, or dropped

    def add(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        if not self.flushes or self.flushes[-1] != len(self.text):
            self.flushes.append(len(self.text))

    def clear(self) -> None:
        """Drop the text that was not spoken."""
        self.spoken = len(self.text)

    def remaining(self) -> Iterator[str | None]:
        """Yield the text that is still to be spoken, and None for each flush; text that is added meanwhile as well."""
        at = flushed = self.spoken
        while True:
            at, flushed = max(at, self.spoken), max(flushed, self.spoken)
            index = bisect_right(self.flushes, flushed)
            flush = self.flushes[index] if index < len(self.flushes) else None
            end = len(self.text) if flush is None else flush
            if at < end:
                begin, at = at, end
                yield self.text[begin:end]
            elif flush is not None:
                flushed = flush
                yield None
            else:
                return


class SpeechProgress:
    """Position of one provider in a text."""

    def __init__(self, text: SpokenText) -> None:
        self._text = text
        self.start = text.spoken  # offset of the first character sent to the provider
        self._points = [(0.0, text.spoken)]
        """Seconds of audio with the offset reached then: what lies between two of them is in proportion."""
        self._words: list[tuple[float, int]] = []
        """End of each reported word in the provider's audio, in seconds, and in the text."""
        self._words_end = text.spoken
        self._flushed = text.spoken
        self._flushed_s = 0.0
        self.audio_s = 0.0  # audio of this provider that was passed on to the caller

    def word(self, word: str, end_s: float) -> None:
        """Note a word that the provider reports, if the text has it."""
        at = self._text.text.find(word.strip(), self._words_end)
        if at >= 0:
            self._words_end = at + len(word.strip())
            self._words.append((end_s, self._words_end))

    def flushed(self) -> None:
        """Note that the audio has reached the next flush."""
        flushes = self._text.flushes
        index = bisect_right(flushes, self._flushed)
        self._flushed = flushes[index] if index < len(flushes) else len(self._text.text)
        self._flushed_s = self.audio_s
        self._points.append((self.audio_s, self._flushed))

    def dropped(self) -> None:
        """Note that the text so far will not be spoken any further."""
        self._words_end = self._flushed = len(self._text.text)
        self._flushed_s = self.audio_s
        self._points = [(self.audio_s, self._flushed)]
        self._words.clear()

    def offset_at(self, at_s: float, until: int, *, complete: bool) -> int:
        """Return the offset up to which the text was spoken `at_s` into this provider's audio.

        The provider speaks up to `until`; `complete`: all of its audio has been made.
        """
        if complete and at_s >= self.audio_s - 0.001:
            return until
        before, *points = self._points
        if self._words:
            return max((end for end_s, end in self._words if end_s <= at_s + 0.001), default=before[1])
        first = before
        for point in [*points, (self.audio_s, until)] if complete else points:
            if at_s < point[0]:
                return before[1] + int((point[1] - before[1]) * max(0.0, at_s - before[0]) / (point[0] - before[0]))
            before = point
        spoken_s = before[0] - first[0]
        pace = (before[1] - first[1]) / spoken_s if spoken_s > 1 else waste.CHARACTERS_PER_S
        return min(until, before[1] + int(max(0.0, at_s - before[0]) * pace))

    def spoken(self) -> int:
        """Return the offset up to which words were spoken completely: the beginning of the first that was not."""
        if self._words:
            offset = max((end for end_s, end in self._words if end_s <= self.audio_s + 0.001), default=0)
        else:
            speech_s = max(0.0, self.audio_s - self._flushed_s - LEAD_IN_S)
            offset = self._word_at(self._flushed + int(speech_s * CHARACTERS_PER_S))
        return max(offset, self._flushed)

    def _word_at(self, offset: int) -> int:
        """Return the beginning of the word that covers `offset`, or the end of the word before it."""
        text = self._text.text
        end = self._flushed
        for word in _WORD_START.finditer(text, self._flushed):
            if word.end() > offset:
                return word.start() if word.start() <= offset else end
            end = word.end()
        return end
