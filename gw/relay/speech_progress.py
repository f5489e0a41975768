"""The text of a live speech session, and how far providers have come with it.

Position of one provider in the text (`SpeechProgress`), by the best evidence there is:

    evidence        position at a time of the audio                    first word that was not heard completely
    ─────────────   ────────────────────────────────────────────────   ────────────────────────────────────────────────
    word times      end of the last word that ended before it          after the last word that ended in the audio made
    flush reports   in proportion between two reports                  after the last report, at the voice's pace
    all is spoken   in proportion between last report and end
    audio only      at the pace between reports so far, else at        from the beginning, at the voice's pace, or by the
                    the voice's                                        pauses at punctuation

The pace of a voice is learned from what it spoke completely (`gw.relay.voice_pace`). Of a voice that was never heard before
a slow pace is assumed, slow among the other voices of its model where those are known: a word spoken twice is better than a
word that is lost. From its first pause at a punctuation mark on, its own pauses tell (`gw.relay.speech_pauses`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal

from gw.policy.wide_letters import WIDE, is_wide
from gw.relay import speech_pauses, waste
from gw.relay.speech_pauses import Pauses
from gw.relay.voice_pace import (
    LEAD_IN_S,
    LEAST_S_A_WORD,
    LETTERS,
    SILENCE_S,
    VoicePace,
    letters_of,
    words_of,
)  # fmt: skip
from gw.types.audio import AudioFormat

_WORD = "[{0}]|(?:(?![{0}])\\S)+".format("".join(WIDE))  # compiled for the first fallback: it takes 3 ms of the start otherwise
_AHEAD = 80  # characters within which a word that a provider reports is looked for
_SLACK_S = 0.05  # by which the reported end of a word may lie beyond the audio
_BEYOND_S = 0.1  # by which it may lie beyond the complete audio
_REPORTED_ENOUGH = 0.4  # share of the expected length of what is left after the last word reported
_REPORTED_ENOUGH_IF_LOUD = 0.8  # the same for audio that breaks off in the middle of a sound
_SURE = 0.9  # share of the expected length at which a text of a known voice is complete, also without the provider's word
_SURE_IF_QUIET = 0.75
_UNKNOWN_SURE, _UNKNOWN_SURE_IF_QUIET = 1.2, 0.6  # the same for a voice whose pace is not known yet
_SLOW_LEAD_IN_S = 0.3
_ROUNDING = 0.5  # letters by which a position at the end of a word may be short of it

Shortness = Literal["", "probably", "certainly"]


class SpokenText:
    """All text of a session. Offsets count its characters from the beginning."""

    def __init__(self) -> None:
        self.text = ""
        self.flushes: list[int] = []  # offsets at which everything before was to be spoken, ascending
        self.spoken = 0  # everything before this offset was heard, or dropped
        self.limit: int | None = None  # the end of the text that the current provider is to speak, if that is not all

    @property
    def end(self) -> int:
        """Return the offset up to which the current provider is to speak, as far as that is known now."""
        return len(self.text) if self.limit is None else self.limit

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
            flush = self.flushes[index] if index < len(self.flushes) and self.flushes[index] <= self.end else None
            end = self.end if flush is None else flush
            if at < end:
                begin, at = at, end
                yield self.text[begin:end]
            elif flush is not None:
                flushed = flush
                yield None
            else:
                return


class ReportedWords:
    """Words of one provider by the ends of their audio, however long the session becomes. They are added in the order of the text."""

    def __init__(self) -> None:
        self._ends_s: list[float] = []
        """Ends in the provider's audio, ascending."""
        self._offsets: list[int] = []
        """Up to which the text is spoken at each of these ends."""

    def __bool__(self) -> bool:
        return bool(self._ends_s)

    def add(self, end_s: float, offset: int) -> None:
        """Note a word that ends at `end_s` and at `offset`, which is beyond those of all words before."""
        index = bisect_right(self._ends_s, end_s)
        self._ends_s.insert(index, end_s)
        self._offsets[index:] = [offset] * (len(self._ends_s) - index)

    def at(self, at_s: float) -> tuple[float, int] | None:
        """Return the end of the last word that ended by then, and the offset spoken; None before the first."""
        index = bisect_right(self._ends_s, at_s)
        return (self._ends_s[index - 1], self._offsets[index - 1]) if index else None

    def end_s(self) -> float:
        """Return the end of the last word. There must be one."""
        return self._ends_s[-1]

    def clear(self) -> None:
        self._ends_s.clear()
        self._offsets.clear()


class SpeechProgress:
    """Position of one provider in a text."""

    def __init__(self, text: SpokenText, pace: VoicePace | None = None) -> None:
        self._text = text
        self.pace = VoicePace() if pace is None else pace
        self.start = text.spoken  # offset of the first character sent to the provider
        self._points = [(0.0, text.spoken)]
        """Seconds of audio with the offset reached then: what lies between two of them is in proportion."""
        self._words = ReportedWords()
        self._words_end = text.spoken
        self.flushed_until = text.spoken
        """Everything before this offset was spoken, or dropped."""
        self.flushed_s = 0.0
        self.audio_s = 0.0  # audio of this provider that was passed on to the caller
        self._pauses: Pauses | None = None
        self._unheard: list[bytes] = []
        self.measured = True
        """False for audio whose length cannot be read."""

    def hear(self, data: bytes, fmt: AudioFormat) -> None:
        """Keep audio that `listen` is to examine, where nothing else tells how far the text is spoken."""
        if self._words or (self._pauses is None and self.pace.is_known):
            return
        if self._pauses is None:
            self._pauses = Pauses(fmt)
        self._unheard.append(data)

    def listen(self) -> None:
        """Find the pauses in the audio that has come: called when it has been passed on, because 100 ms take 60 µs."""
        if self._unheard and self._pauses is not None:
            for data in self._unheard:
                self._pauses.feed(data)
            self._unheard.clear()

    def word(self, word: str, end_s: float) -> None:
        """Note a word that the provider reports, if the text has it."""
        word = word.strip()
        at = self._find(word) if word else -1
        if at >= 0:
            self._words_end = at + len(word)
            self._words.add(end_s, self._words_end)

    def _find(self, word: str) -> int:
        """Return where `word` comes next as a word of its own; -1 if it does not come soon."""
        text, at = self._text.text, self._words_end - 1
        limit = self._words_end + _AHEAD + len(word)
        while (at := text.find(word, at + 1, limit)) >= 0:
            if not _joined(text, at) and not _joined(text, at + len(word)):
                return at
        return -1

    def next_flush(self) -> int:
        """Return the offset up to which everything is spoken when the provider reports the next flush."""
        flushes = self._text.flushes
        index = bisect_right(flushes, self.flushed_until)
        return min(flushes[index], self._text.end) if index < len(flushes) else self._text.end

    def flushed(self) -> None:
        """Note that the audio has reached the next flush."""
        self.flushed_until = self.next_flush()
        self.flushed_s = self.audio_s
        self._pauses = None
        self._unheard.clear()
        self._points.append((self.audio_s, self.flushed_until))

    def has_words_after(self, offset: int) -> bool:
        """Return whether there is anything to pronounce in the text from `offset` on."""
        return words_of(self._text.text[offset:]) > 0

    def has_words(self, until: int) -> bool:
        """Return whether there is anything to pronounce in the text after the last flush, up to `until`."""
        return words_of(self._text.text[self.flushed_until : until]) > 0

    def learn(self, until: int, *, loud_end: bool | None) -> None:
        """Learn the pace of the voice: the text since the last flush was spoken completely, up to `until`."""
        if self.measured:
            text = self._text.text[self.flushed_until : until]
            self.pace.learn(text, self.audio_s - self.flushed_s, loud_end=loud_end)

    def dropped(self) -> None:
        """Note that the text so far will not be spoken any further."""
        self._words_end = self.flushed_until = len(self._text.text)
        self.flushed_s = self.audio_s
        self._points = [(self.audio_s, self.flushed_until)]
        self._words.clear()

    # ------------------------------------------------------------------ is it all there?

    def shortness(self, until: int, *, loud_end: bool | None) -> Shortness:
        """Return whether a provider that reports the text up to `until` as spoken has left words out.

        It certainly has where there is next to no audio for them. Probably: where the audio is much shorter than this
        voice takes, or breaks off in the middle of a sound.
        """
        left_s, words, letters, by_words = self._left(until)
        if not words or not self.measured:
            return ""
        if left_s < LEAST_S_A_WORD * words:
            return "certainly"
        expected_s = self.pace.seconds(letters)
        if by_words:
            return "" if self._is_said(left_s, expected_s, loud_end=loud_end) else "probably"
        if letters < LETTERS:
            return ""
        return "probably" if left_s < self.pace.enough(loud_end=loud_end) * (SILENCE_S + expected_s) else ""

    def seems_complete(self, until: int, *, loud_end: bool | None) -> bool:
        """Return whether the audio so far is enough for the text up to `until`, of which the provider reports nothing."""
        left_s, words, letters, by_words = self._left(until)
        if not words or not self.measured:
            return True
        expected_s = self.pace.seconds(letters)
        if by_words:
            return left_s >= LEAST_S_A_WORD and self._is_said(left_s, expected_s, loud_end=loud_end)
        known = self.pace.is_known
        share = left_s / (SILENCE_S + expected_s)
        if share >= (_SURE if known else _UNKNOWN_SURE):
            return True
        return loud_end is False and share >= (_SURE_IF_QUIET if known else _UNKNOWN_SURE_IF_QUIET)

    def _is_said(self, left_s: float, expected_s: float, *, loud_end: bool | None) -> bool:
        """Return whether what is left after the last word reported is enough for the words that were not."""
        if self._words.end_s() > self.audio_s + _BEYOND_S:
            return False
        enough = _REPORTED_ENOUGH_IF_LOUD if loud_end and self.pace.ends_in_silence else _REPORTED_ENOUGH
        return left_s >= enough * expected_s

    def _left(self, until: int) -> tuple[float, int, int, bool]:
        """Return what lies between the last word or flush reported and `until`.

        That is the seconds of audio, the words and letters of text, and whether a word was reported.
        """
        at_s, offset = self.flushed_s, self.flushed_until
        end_s, end = self._words.at(self.audio_s + _SLACK_S) or (at_s, offset)
        by_words = end > offset
        if by_words:
            at_s, offset = end_s, end
        text = self._text.text[offset:until]
        return self.audio_s - at_s, words_of(text), letters_of(text), by_words

    # ------------------------------------------------------------------ how far is it?

    def offset_at(self, at_s: float, until: int, *, complete: bool) -> int:
        """Return the offset up to which the text was spoken `at_s` into this provider's audio.

        The provider speaks up to `until`; `complete`: all of its audio has been made.
        """
        if complete and at_s >= self.audio_s - 0.001:
            return until
        first = self._points[0]
        if self._words:
            return (self._words.at(at_s + 0.001) or first)[1]
        index = bisect_right(self._points, at_s, lo=1, key=_seconds)
        before = self._points[index - 1]
        if complete or index < len(self._points):
            after = self._points[index] if index < len(self._points) else (self.audio_s, until)
            return before[1] + int((after[1] - before[1]) * max(0.0, at_s - before[0]) / (after[0] - before[0]))
        spoken_s = before[0] - first[0]
        usual = self.pace.per_s if self.pace.is_known else waste.CHARACTERS_PER_S
        pace = (before[1] - first[1]) / spoken_s if spoken_s > 1 else usual
        return min(until, before[1] + int(max(0.0, at_s - before[0]) * pace))

    def spoken(self) -> int:
        """Return the offset up to which words were spoken completely: the beginning of the first that was not."""
        if self._words:
            _, offset = self._words.at(self.audio_s + 0.001) or (0.0, 0)
            return max(offset, self.flushed_until)
        speech_s = self.audio_s - self.flushed_s
        if self.pace.is_known:
            return self._after_letters((speech_s - LEAD_IN_S) * self.pace.per_s)
        if self._pauses is not None and self._pauses.hears:
            self.listen()
            text = self._text.text[self.flushed_until :]
            if (letters := speech_pauses.letters_spoken(text, *self._pauses.all(), self.pace.per_s)) is not None:
                return self._after_letters(letters + _ROUNDING)
        return self._after_letters((speech_s - _SLOW_LEAD_IN_S) * self.pace.least_per_s)

    def _after_letters(self, letters: float) -> int:
        """Return the beginning of the first word since the last flush that so many letters do not cover."""
        covered = 0
        end = self.flushed_until
        for word in re.compile(_WORD).finditer(self._text.text, self.flushed_until):
            covered += letters_of(word[0])
            if covered > letters:
                return word.start() if letters > 0 else end
            covered += 1
            end = word.end()
        return end


def _seconds(point: tuple[float, int]) -> float:
    return point[0]


def _joined(text: str, at: int) -> bool:
    """Return whether the characters before and at `at` belong to the same word."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    return before.isalnum() and after.isalnum() and not is_wide(before) and not is_wide(after)
