"""Where somebody speaks, told by loudness alone: for engines that take whole utterances only.

    utterances = Utterances(16_000, silence_s=0.6)
    for cue in utterances.feed(samples): ...       # Began, Spoken…, Ended
    for cue in utterances.end(): ...

Theory of operation. A frame of 20 ms is loud when the mean of its samples' magnitudes is well above the floor, which follows
the quiet frames. A few loud frames begin an utterance, which takes the third of a second before them along (words begin
softly); silence ends it. One that grows longer than the models hear at once is cut at its next short pause, at the latest
after `LONGEST_S`: then it goes on in another that begins where it ended, so no sample is lost or told twice. Where not one frame
of so long a stretch was quiet it was noise, and becomes the floor.
"""

from __future__ import annotations

from array import array
from collections import deque
from sys import byteorder
from typing import Final, TypeAlias

import msgspec

FRAME_S: Final = 0.02
LEAD_S: Final = 0.3
LONGEST_S: Final = 28.0
"""The Whisper family hears 30 seconds at once."""
_LONG_S = 20.0
_SHORT_PAUSE_FRAMES = 5
_ONSET_FRAMES = 3
_FAINTEST = 120.0
"""Mean magnitude, of 32,768, below which nothing is speech: about -49 dBFS."""
_TIMES_FLOOR = 3.0
_HIGHEST_FLOOR = 400.0
_EVERY = 4
"""One sample in so many is looked at."""


class Began(msgspec.Struct, frozen=True, kw_only=True):
    """The samples that follow are of one utterance."""

    from_s: float
    """Time of its first sample, in seconds of audio fed."""
    at_s: float
    """When the speech begins."""
    onset: bool
    """False where it goes on with an utterance that was cut for its length."""


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float
    """After the last loud frame; where it was cut, after its last sample."""
    pause: bool
    """The speaker has paused: it was not cut for its length."""
    voiced: bool
    """False where all of it is silence, left over from a cut."""


Cue: TypeAlias = Began | Spoken | Ended


class Utterances:
    """Mono s16le samples in, cut anywhere; what they say about utterances out."""

    def __init__(self, rate_hz: int, *, silence_s: float) -> None:
        self._frame_bytes = int(rate_hz * FRAME_S) * 2
        self._silence_frames = max(1, round(silence_s / FRAME_S))
        self._rest = b""
        self._lead: deque[bytes] = deque(maxlen=round(LEAD_S / FRAME_S))
        self._frames = 0
        """Heard so far."""
        self._floor = _FAINTEST / _TIMES_FLOOR
        self._speaking = self._voiced = False
        self._onset = self._quiet = self._length = 0
        """Loud frames lately; quiet ones in a row; frames of this utterance."""
        self._least = 0.0
        """Level of its quietest frame."""

    def feed(self, data: bytes) -> list[Cue]:
        data = self._rest + data if self._rest else data
        size = self._frame_bytes
        whole = len(data) - len(data) % size
        self._rest = data[whole:]
        cues: list[Cue] = []
        spoken: list[bytes] = []
        for at in range(0, whole, size):
            frame = data[at : at + size]
            self._frames += 1
            told = self._hear(frame, spoken)
            if told:
                _say(cues, spoken, told)
        _say(cues, spoken, [])
        return cues

    def end(self) -> list[Cue]:
        """The utterance that is being spoken is over. More may be fed."""
        if not self._speaking:
            return []
        rest, self._rest = self._rest[: len(self._rest) & ~1], b""
        return [*([Spoken(data=rest)] if rest else []), self._over(pause=True)]

    def _hear(self, frame: bytes, spoken: list[bytes]) -> list[Cue]:
        """What the next frame changes; samples of the utterance go to `spoken`."""
        level = _level(frame)
        loud = level > max(_FAINTEST, _TIMES_FLOOR * self._floor)
        if not self._speaking:
            self._lead.append(frame)
            self._follow(level)
            self._onset = self._onset + 1 if loud else max(0, self._onset - 1)
            return [self._begin(spoken)] if self._onset >= _ONSET_FRAMES else []
        spoken.append(frame)
        self._length += 1
        self._least = min(self._least, level)
        self._quiet = 0 if loud else self._quiet + 1
        self._voiced = self._voiced or loud
        if self._quiet >= self._silence_frames:
            return [self._over(pause=True)]
        length_s = self._length * FRAME_S
        if length_s >= LONGEST_S or (length_s >= _LONG_S and self._quiet >= _SHORT_PAUSE_FRAMES):
            return self._cut()
        return []

    def _begin(self, spoken: list[bytes]) -> Began:
        spoken.extend(self._lead)
        from_s = (self._frames - len(self._lead)) * FRAME_S
        self._speaking = self._voiced = True
        self._length, self._quiet, self._least = len(self._lead), 0, _HIGHEST_FLOOR
        self._lead.clear()
        return Began(from_s=from_s, at_s=(self._frames - self._onset) * FRAME_S, onset=True)

    def _over(self, *, pause: bool) -> Ended:
        ended = Ended(at_s=(self._frames - self._quiet) * FRAME_S, pause=pause, voiced=self._voiced)
        self._speaking = False
        self._onset = self._quiet = 0
        return ended

    def _cut(self) -> list[Cue]:
        at_s = self._frames * FRAME_S
        cut = Ended(at_s=at_s, pause=False, voiced=self._voiced)
        if self._least > self._floor * _TIMES_FLOOR:
            self._floor = min(self._least, _HIGHEST_FLOOR)
        self._voiced, self._length, self._least = False, 0, _HIGHEST_FLOOR
        return [cut, Began(from_s=at_s, at_s=at_s, onset=False)]

    def _follow(self, level: float) -> None:
        """Down quickly, up slowly: speech that is about to begin must not raise it."""
        pace = 0.2 if level < self._floor else 0.02
        self._floor = min(_HIGHEST_FLOOR, self._floor + pace * (level - self._floor))


def _level(frame: bytes) -> float:
    samples = array("h", frame)
    if byteorder == "big":
        samples.byteswap()
    heard = samples[::_EVERY]
    return sum(map(abs, heard)) / len(heard)


def _say(cues: list[Cue], spoken: list[bytes], told: list[Cue]) -> None:
    """`told` in its place among the samples: those of an utterance follow its beginning and come before its end."""
    for cue in told:
        if isinstance(cue, Ended) and spoken:
            cues.append(Spoken(data=b"".join(spoken)))
            spoken.clear()
        cues.append(cue)
    if not told and spoken:
        cues.append(Spoken(data=b"".join(spoken)))
        spoken.clear()
