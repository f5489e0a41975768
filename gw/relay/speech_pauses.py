"""The pace of speech while it runs, from its pauses and the punctuation of its text.

A voice pauses where its text has punctuation. So the pauses that are heard, aligned with the punctuation, tell how far the
speech has come: at a pause exactly, and after it at the pace until then. Many paces are tried, from a slow voice's to a fast
one's: the best explains each pause by punctuation, and leaves no end of a sentence without a pause. That is used for a voice
whose pace is not known from complete texts, and costs nothing for any other.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

import msgspec

from gw.relay.voice_pace import USUAL_PER_S, letters_of
from gw.types.audio import AudioFormat
from gw.wire import wav
from gw.wire.ear import amplitude_of

LEAST_PAUSE_S: Final = 0.12
"""Shorter silences are inside words, such as before a `p` or a `t`."""
_LONG_PAUSE_S: Final = 0.25  # such a pause has a cause in the text
_WINDOW_S: Final = 0.01
_QUIET: Final = 0.04  # share of the loudest until now up to which a window is quiet
_LEAST_QUIET: Final = 60  # amplitude, of 32,768, that is always quiet
_PACES: Final = tuple(8.0 * 1.025**n for n in range(52))
"""Letters a second: 8 to 28."""
_SPREAD: Final = 0.25  # of the paces of voices, as a share of the usual one
_UNEVEN: Final = 0.06  # of the pace within one text
_UNEVEN_LETTERS: Final = 1.5
_NEAR: Final = 2.0  # within so many times that, a pause belongs to a punctuation mark
_COMMA_WITHOUT_PAUSE, _SENTENCE_WITHOUT_PAUSE = 0.7, 2.5
_PAUSE_WITHOUT_MARK, _LONG_PAUSE_WITHOUT_MARK = 2.0, 4.0
_SURER: Final = 0.35  # a slower pace that is less likely by up to so much is assumed: a word said twice is better than a lost one
_OTHER: Final = 0.08  # a pace that differs by less is the same

_MARK = re.compile(
    r"(?:[.!?\u2026\u3002\uff01\uff1f]|[,;:\u2013\u2014\u3001\uff0c])[\"'\u201d\u2019)\]]*(?=\s|$)"
    r"|\n|[\u3002\uff01\uff1f\u3001\uff0c]"
)
_ENDS = frozenset(".!?\u2026\u3002\uff01\uff1f\n")


class Pauses:
    """Finds the pauses in samples as they pass. Compressed audio has none: `hears` is false."""

    def __init__(self, fmt: AudioFormat) -> None:
        raw = msgspec.structs.replace(fmt, encoding="pcm_s16le") if fmt.encoding == "wav" else fmt
        self.hears = raw.bytes_per_second > 0
        self._amplitude = amplitude_of(raw)
        self._skip = fmt.encoding == "wav"  # its header comes first
        self._size = max(1, int(raw.sample_rate_hz * _WINDOW_S)) * max(1, raw.bytes_per_second // (raw.sample_rate_hz or 1))
        self._rest = b""
        self._loudest = 0.0
        self._quiet_since: float | None = 0.0
        self.at_s = 0.0
        """Seconds heard."""
        self.quiet_s = 0.0
        """Silence until now: before the first word, and in pauses."""
        self.pauses: list[tuple[float, float]] = []
        """Speech before each pause, and the length of it, in seconds."""
        self.has_begun = False

    def feed(self, data: bytes) -> None:
        if not self.hears:
            return
        data = self._rest + data
        if self._skip:
            info = wav.parse(data)
            if info is None:
                self._rest = data
                return
            data, self._skip = data[info.data_offset :], False
        whole = len(data) // self._size * self._size
        self._rest = data[whole:]
        for at in range(0, whole, self._size):
            level = self._amplitude(data[at : at + self._size])
            self._loudest = max(self._loudest, level)
            self._window(level <= max(_LEAST_QUIET, _QUIET * self._loudest))

    def _window(self, quiet: bool) -> None:
        if not quiet and self._quiet_since is not None:
            self._end_quiet(self.at_s - self._quiet_since)
        elif quiet and self._quiet_since is None:
            self._quiet_since = self.at_s
        self.at_s += _WINDOW_S

    def _end_quiet(self, length_s: float) -> None:
        if self.has_begun and length_s >= LEAST_PAUSE_S:
            self.pauses.append((self.speech_s - length_s, length_s))
        if not self.has_begun or length_s >= LEAST_PAUSE_S:
            self.quiet_s += length_s
        self.has_begun, self._quiet_since = True, None

    @property
    def speech_s(self) -> float:
        """Return the seconds of speech, without the silence before it and its pauses; the silence at its end counts until it is one."""
        return max(0.0, self.at_s - self.quiet_s) if self.has_begun else 0.0

    def all(self) -> tuple[float, list[tuple[float, float]]]:
        """Return the seconds of speech until now, and the pauses; the silence at the end may be one."""
        pauses, speech_s = list(self.pauses), self.speech_s
        if self.has_begun and self._quiet_since is not None and (length_s := self.at_s - self._quiet_since) >= LEAST_PAUSE_S:
            speech_s -= length_s
            pauses.append((speech_s, length_s))
        return speech_s, pauses


class _Mark(NamedTuple):
    """A punctuation mark after so many letters."""

    letters: int
    ends_sentence: bool


def _marks_of(text: str) -> list[_Mark]:
    marks: list[_Mark] = []
    letters = begin = 0
    for mark in _MARK.finditer(text):
        part = letters_of(text[begin : mark.end()])
        begin = mark.end()
        if part:
            letters += part + (1 if letters else 0)
            marks.append(_Mark(letters, mark[0][0] in _ENDS))
        elif marks and mark[0][0] in _ENDS:
            marks[-1] = _Mark(letters, True)
    return marks


class _Fit(NamedTuple):
    score: float
    per_s: float
    at: tuple[float, int]
    """The last pause that belongs to a mark: the seconds of speech and the letters before it."""


def letters_spoken(text: str, speech_s: float, pauses: list[tuple[float, float]], usual_per_s: float = USUAL_PER_S) -> float | None:
    """Return how many letters of `text` were spoken in so many seconds; None where no pause belongs to its punctuation."""
    marks = _marks_of(text)
    if not pauses or not marks:
        return None
    fits = [_fit(per_s, marks, speech_s, pauses, usual_per_s) for per_s in _PACES]
    best = max(fits)
    slow = [fit for fit in fits if fit.score >= best.score - _SURER and fit.per_s < best.per_s * (1 - _OTHER)]
    slow = [fit for fit in slow if fit.at != best.at]
    chosen = max(slow) if slow else best
    at_s, letters = chosen.at
    if not letters:
        return None
    return letters + (speech_s - at_s) * letters / at_s


def _fit(per_s: float, marks: list[_Mark], speech_s: float, pauses: list[tuple[float, float]], usual_per_s: float) -> _Fit:
    """Return how well a pace explains the pauses. The pace since the last mark places the next one."""
    score = -0.5 * (math.log(per_s / usual_per_s) / _SPREAD) ** 2
    at_s, letters, n = 0.0, 0, 0
    for pause_s, length_s in pauses:
        result = None
        for k in range(n, len(marks)):
            expected = letters + (pause_s - at_s) * per_s
            off = abs(marks[k].letters - expected) / (_UNEVEN * (marks[k].letters - letters) + _UNEVEN_LETTERS)
            if off <= _NEAR and (result is None or off < result[1]):
                result = (k, off)
        if result is None:
            score -= _LONG_PAUSE_WITHOUT_MARK if length_s >= _LONG_PAUSE_S else _PAUSE_WITHOUT_MARK
            continue
        k, off = result
        score -= 0.5 * off**2 + sum(_missed(mark) for mark in marks[n:k])
        at_s, letters, n = pause_s, marks[k].letters, k + 1
    end = letters + (speech_s - at_s) * per_s
    score -= sum(_missed(mark) for mark in marks[n:] if mark.letters + _NEAR * _UNEVEN_LETTERS < end * (1 - _UNEVEN))
    return _Fit(score, per_s, (at_s, letters))


def _missed(mark: _Mark) -> float:
    return _SENTENCE_WITHOUT_PAUSE if mark.ends_sentence else _COMMA_WITHOUT_PAUSE
