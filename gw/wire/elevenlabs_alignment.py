"""When each character is heard, as ElevenLabs tells it, and words with times, as we do; both ways.

Sources: `Alignment` and `CharacterAlignmentResponseModel` of elevenlabs 2.78.0 (November 2026). Over HTTP the times are seconds
from the beginning of the answer's audio. On sockets they are milliseconds, and clients disagree on their origin: the SDK and
Pipecat 1.14.0 take them to begin anew with each frame, LiveKit 1.8.9 to go on. So a frame whose times begin before the end of
the frame before it begins anew, wherever its audio begins, and any other goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gw.types.tts import WordTiming
from gw.wire.counts import LONGEST_S

_SLACK_MS = 50.0
"""Times that go on may overlap by so much: they are rounded, and sounds run into each other."""


class Characters(msgspec.Struct, gc=False):
    """Of a socket. LiveKit has met both spellings."""

    chars: list[str] = []
    charStartTimesMs: list[float] | None = None
    charsStartTimesMs: list[float] | None = None
    charDurationsMs: list[float] | None = None
    charsDurationsMs: list[float] | None = None


class Seconds(msgspec.Struct, gc=False):
    """Of an answer over HTTP."""

    characters: list[str] = []
    character_start_times_seconds: list[float] = []
    character_end_times_seconds: list[float] = []


class WordReader:
    """Characters in, words out as soon as the space after them is known."""

    def __init__(self) -> None:
        self._word = ""
        self._start_s = self._end_s = 0.0
        self._base_s = 0.0
        """Where the times of the present frames begin."""
        self._told_ms = 0.0
        """End of the last character, in the vendor's own times."""

    def socket(self, told: Characters, audio_s: float | None) -> list[WordTiming]:
        """`audio_s`: the audio before this frame, None where its form does not tell."""
        starts = told.charStartTimesMs or told.charsStartTimesMs or []
        lengths = told.charDurationsMs or told.charsDurationsMs or []
        if not starts or not lengths:
            return []
        if starts[0] < self._told_ms - _SLACK_MS:
            self._base_s = self._base_s + self._told_ms / 1000 if audio_s is None else audio_s
        self._told_ms = starts[-1] + lengths[-1]
        words: list[WordTiming] = []
        for text, start, length in zip(told.chars, starts, lengths, strict=False):
            self._character(text, self._base_s + start / 1000, self._base_s + (start + length) / 1000, words)
        return words

    def whole(self, told: Seconds) -> list[WordTiming]:
        words: list[WordTiming] = []
        times = zip(told.character_start_times_seconds, told.character_end_times_seconds, strict=False)
        for text, (start_s, end_s) in zip(told.characters, times, strict=False):
            self._character(text, start_s, end_s, words)
        return words

    def end(self, restart_s: float | None = None) -> list[WordTiming]:
        """The word that no space ended. With `restart_s` what follows is other text, whose audio begins there."""
        words: list[WordTiming] = []
        self._finish(words)
        if restart_s is not None:
            self._base_s, self._told_ms = restart_s, 0.0
        return words

    def _character(self, text: str, start_s: float, end_s: float, words: list[WordTiming]) -> None:
        start_s, end_s = _bounded(start_s), _bounded(end_s)
        if not text.strip():
            self._finish(words)
            return
        if not self._word:
            self._start_s = start_s
        self._word += text
        self._end_s = max(self._start_s, end_s)

    def _finish(self, words: list[WordTiming]) -> None:
        if word := self._word.strip():
            words.append(WordTiming(word=word, start_s=round(self._start_s, 6), end_s=round(self._end_s, 6)))
        self._word = ""


def _bounded(told_s: float) -> float:
    return min(max(told_s, 0.0), LONGEST_S)


class CharacterWriter:
    """Words in, characters out: a word's time is shared out evenly, the space before it lasts until it begins."""

    def __init__(self) -> None:
        self._end_s = 0.0
        self._first = True

    def socket(self, words: Sequence[WordTiming]) -> dict[str, object] | None:
        """Milliseconds since the end of the alignment before."""
        base_s = self._end_s
        chars, starts, ends = self._characters(words)
        if not chars:
            return None
        starts_ms = [round((start - base_s) * 1000) for start in starts]
        ends_ms = [round((end - base_s) * 1000) for end in ends]
        lengths = [end - start for start, end in zip(starts_ms, ends_ms, strict=True)]
        return {"chars": chars, "charStartTimesMs": starts_ms, "charDurationsMs": lengths}

    def whole(self, words: Sequence[WordTiming]) -> dict[str, object] | None:
        """Seconds since the beginning of the audio."""
        chars, starts, ends = self._characters(words)
        if not chars:
            return None
        return {
            "characters": chars,
            "character_start_times_seconds": [round(start, 3) for start in starts],
            "character_end_times_seconds": [round(end, 3) for end in ends],
        }

    def _characters(self, words: Sequence[WordTiming]) -> tuple[list[str], list[float], list[float]]:
        chars: list[str] = []
        starts: list[float] = []
        ends: list[float] = []
        for word in words:
            text = word.word.strip()
            if not text:
                continue
            start_s = max(self._end_s, word.start_s)
            end_s = max(start_s, word.end_s)
            if not self._first:
                chars.append(" ")
                starts.append(self._end_s)
                ends.append(start_s)
            self._first = False
            step = (end_s - start_s) / len(text)
            chars += text
            starts += [start_s + at * step for at in range(len(text))]
            ends += [start_s + (at + 1) * step for at in range(len(text))]
            self._end_s = end_s
        return chars, starts, ends
