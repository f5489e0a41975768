"""The pace of each voice, learned from the texts that it has spoken completely.

A voice is a model, a vendor's voice and a speed. Its pace is measured in letters: a letter of an alphabet counts one, a
space between two words one, an ideograph or syllable three and a digit four, since they take so much longer to say.
Punctuation and markup are not spoken.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

from gw.policy.wide_letters import is_wide

SILENCE_S: Final = 0.3
"""Silence of an utterance: some before its first word and some after its last."""
LEAD_IN_S: Final = 0.2
"""The part of it before the first word."""
USUAL_PER_S: Final = 14.0
SLOW_PER_S: Final = 11.0
FAST_PER_S: Final = 40.0
"""Letters a second of an ordinary voice, of a slow one, and of one so fast that hardly anybody could follow it."""
LEAST_S_A_WORD: Final = 0.02
"""A word that takes less was not spoken."""
LETTERS: Final = 20
"""A shorter text says little about the pace."""
_SLOWER_THAN_OTHERS = SLOW_PER_S / USUAL_PER_S  # a slow voice among those of a model
_SAMPLES = 16  # texts remembered for each voice
_VOICES = 1_024  # voices remembered; then the one that has not spoken for longest is forgotten
_ENOUGH = 3  # texts after which it is known how much the pace varies

_MARKUP = re.compile(r"<[^<>]*>")
_ASCII_SPACE = bytes(code for code in range(128) if chr(code).isspace())
_ASCII_SILENT = bytes(code for code in range(128) if not chr(code).isspace() and not chr(code).isalnum())


def letters_of(text: str) -> int:
    """Return the letters of a text, as this module counts them."""
    if text.isascii():  # twenty times as fast
        spoken_bytes = _MARKUP.sub(" ", text).encode().translate(None, _ASCII_SILENT)
        characters = spoken_bytes.translate(None, _ASCII_SPACE)
        digits = len(characters) - len(characters.translate(None, b"0123456789"))
        return len(characters) + 3 * digits + max(0, len(spoken_bytes.decode().split()) - 1)
    words = 0
    letters = 0
    for word in _MARKUP.sub(" ", text).split():
        spoken = sum(4 if c.isdigit() else 3 if is_wide(c) else 1 for c in word if c.isalnum())
        letters += spoken
        words += bool(spoken)
    return letters + max(0, words - 1)


def words_of(text: str) -> int:
    """Return the words that a voice has to speak; without spaces each ideograph or syllable counts as one."""
    if text.isascii():
        return len(_MARKUP.sub(" ", text).encode().translate(None, _ASCII_SILENT).decode().split())
    count = 0
    for word in _MARKUP.sub(" ", text).split():
        if any(map(str.isalnum, word)):
            count += max(1, sum(1 for c in word if is_wide(c)))
    return count


def _median(values: Iterable[float]) -> float:
    """Return the median of some values, of which there is at least one."""
    from statistics import median  # with all it loads, for gateways that speak

    return median(values)


class VoicePace:
    """Pace of one voice. `others_per_s`: the usual pace of the other voices of its model, if any is known."""

    def __init__(self, others_per_s: float | None = None) -> None:
        self._others_per_s = others_per_s
        self._per_s: deque[float] = deque(maxlen=_SAMPLES)
        self._loud_ends = 0.0  # share of its utterances that end in the middle of a sound, the latest counting most

    @property
    def is_known(self) -> bool:
        return bool(self._per_s)

    @property
    def per_s(self) -> float:
        """Letters a second; until it is known, those of the model's other voices or of an ordinary one."""
        return _median(self._per_s) if self._per_s else self._others_per_s or USUAL_PER_S

    @property
    def least_per_s(self) -> float:
        """Letters a second that were spoken at least: of a voice that is not known, a slow one's.

        A word spoken twice is better than a word that is lost.
        """
        if self._per_s:
            return self.per_s
        return SLOW_PER_S if self._others_per_s is None else _SLOWER_THAN_OTHERS * self._others_per_s

    @property
    def spread(self) -> float | None:
        """Median deviation of its texts from the usual pace, as a share of it; None until enough texts are known."""
        if len(self._per_s) < _ENOUGH:
            return None
        usual = self.per_s
        return _median(abs(sample - usual) for sample in self._per_s) / usual

    @property
    def ends_in_silence(self) -> bool:
        """Return whether an end in the middle of a sound is unusual for it."""
        return self._loud_ends < 0.2

    def learn(self, text: str, seconds: float, *, loud_end: bool | None) -> None:
        """Note that `text` was spoken completely in so many seconds. `loud_end` is None where that cannot be measured."""
        letters = letters_of(text)
        if letters < LETTERS or seconds <= SILENCE_S:
            return
        self._per_s.append(letters / (seconds - SILENCE_S))
        if loud_end is not None:
            self._loud_ends += 0.2 * (loud_end - self._loud_ends)

    def seconds(self, letters: int) -> float:
        """Return how long so many letters take, without silence."""
        return letters / self.per_s

    def enough(self, *, loud_end: bool | None) -> float:
        """Return the share of the expected length below which an utterance is incomplete."""
        spread = self.spread
        if loud_end and self.ends_in_silence:
            return 0.6 if spread is None else 1 - min(0.25, max(0.06, 1.5 * spread))
        return self.per_s / FAST_PER_S if spread is None else 1 - min(0.5, max(0.08, 4 * spread))


class VoicePaces:
    """The paces of all voices that spoke lately."""

    def __init__(self) -> None:
        self._paces: OrderedDict[tuple[str, str, float], VoicePace] = OrderedDict()

    def of(self, model_id: str, voice: str, speed: float | None) -> VoicePace:
        key = (model_id, voice, speed or 1.0)
        pace = self._paces.get(key)
        if pace is None:
            known = [pace.per_s for (model, _, at), pace in self._paces.items() if model == model_id and at == key[2] and pace.is_known]
            pace = self._paces[key] = VoicePace(_median(known) if known else None)
            if len(self._paces) > _VOICES:
                self._paces.popitem(last=False)
        else:
            self._paces.move_to_end(key)
        return pace
