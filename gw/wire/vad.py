"""Energy-based voice activity detection (VAD), for engines that accept only complete utterances.

States, by frames of 20 ms:

    silent    -- some loud frames -->                            Began(onset=True), speaking
    speaking  -- `silence_s` without a loud frame -->            Ended(pause=True), silent
    speaking  -- 20 s and a short pause, or 28 s -->             Ended(pause=False), Began(onset=False), speaking

A frame is loud if the mean of its samples' magnitudes is well above the noise floor, which follows the quiet frames. An
utterance includes the third of a second before its first loud frames (words begin softly). One longer than a model's window is
cut and continues in the next, which begins where it ended, so no sample is lost or repeated. If no frame of such a long
utterance was quiet, it was noise, and raises the floor.
"""

from __future__ import annotations

from array import array
from collections import deque
from sys import byteorder
from typing import Final, TypeAlias

import msgspec

FRAME_S: Final = 0.02
LEAD_S: Final = 0.3
MAX_UTTERANCE_S: Final = 28.0  # the window of the Whisper models is 30 seconds
_LONG_S = 20.0  # length from which a short pause ends an utterance
_SHORT_PAUSE_FRAMES = 5
_ONSET_FRAMES = 3
_MIN_SPEECH_LEVEL = 120.0  # mean magnitude, of 32,768, below which nothing is speech: about -49 dBFS
_LOUD_RATIO = 3.0  # level of a loud frame, in multiples of the noise floor
_MAX_FLOOR = 400.0
_SAMPLE_STEP = 4  # every fourth sample is measured


class Began(msgspec.Struct, frozen=True, kw_only=True):
    """An utterance begins with the samples that follow."""

    from_s: float
    """Time of its first sample, in seconds of audio fed."""
    at_s: float
    """Time at which the speech begins."""
    onset: bool
    """False for the continuation of an utterance that was cut for its length."""


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float
    """End of the last loud frame; of the last sample, if the utterance was cut."""
    pause: bool
    """True if the speaker paused, False if the utterance was cut for its length."""
    voiced: bool
    """False if all of it is silence, left over from a cut."""


Cue: TypeAlias = Began | Spoken | Ended


class Utterances:
    """Mono s16le samples in, cut anywhere; cues about utterances out."""

    def __init__(self, rate_hz: int, *, silence_s: float) -> None:
        self._frame_bytes = int(rate_hz * FRAME_S) * 2
        self._silence_frames = max(1, round(silence_s / FRAME_S))
        self._partial = b""  # incomplete frame
        self._lead: deque[bytes] = deque(maxlen=round(LEAD_S / FRAME_S))
        self._frames = 0  # frames fed so far
        self._floor = _MIN_SPEECH_LEVEL / _LOUD_RATIO
        self._speaking = self._voiced = False
        self._spoken: list[bytes] = []
        self._onset = self._quiet = self._length = 0
        """Recent loud frames; quiet ones in a row; frames of this utterance."""
        self._quietest = 0.0  # level of its quietest frame

    def feed(self, data: bytes) -> list[Cue]:
        data = self._partial + data if self._partial else data
        size = self._frame_bytes
        end = len(data) - len(data) % size
        self._partial = data[end:]
        cues: list[Cue] = []
        for at in range(0, end, size):
            self._frames += 1
            self._frame(data[at : at + size], cues)
        self._flush(cues)
        return cues

    def end(self) -> list[Cue]:
        """End the current utterance. More may be fed afterwards."""
        cues: list[Cue] = []
        if self._speaking:
            last, self._partial = self._partial[: len(self._partial) & ~1], b""
            self._spoken += [last] if last else []
            self._end_utterance(cues)
        return cues

    def _frame(self, frame: bytes, cues: list[Cue]) -> None:
        level = _level(frame)
        loud = level > max(_MIN_SPEECH_LEVEL, _LOUD_RATIO * self._floor)
        if not self._speaking:
            self._lead.append(frame)
            self._update_floor(level)
            self._onset = self._onset + 1 if loud else max(0, self._onset - 1)
            if self._onset >= _ONSET_FRAMES:
                self._begin(cues)
            return
        self._spoken.append(frame)
        self._length += 1
        self._quietest = min(self._quietest, level)
        self._quiet = 0 if loud else self._quiet + 1
        self._voiced = self._voiced or loud
        length_s = self._length * FRAME_S
        if self._quiet >= self._silence_frames:
            self._end_utterance(cues)
        elif length_s >= MAX_UTTERANCE_S or (length_s >= _LONG_S and self._quiet >= _SHORT_PAUSE_FRAMES):
            self._cut(cues)

    def _begin(self, cues: list[Cue]) -> None:
        from_s, at_s = (self._frames - len(self._lead)) * FRAME_S, (self._frames - self._onset) * FRAME_S
        cues.append(Began(from_s=from_s, at_s=at_s, onset=True))
        self._spoken.extend(self._lead)
        self._speaking = self._voiced = True
        self._length, self._quiet, self._quietest = len(self._lead), 0, _MAX_FLOOR
        self._lead.clear()

    def _end_utterance(self, cues: list[Cue]) -> None:
        self._flush(cues)
        cues.append(Ended(at_s=(self._frames - self._quiet) * FRAME_S, pause=True, voiced=self._voiced))
        self._speaking = False
        self._onset = self._quiet = 0

    def _cut(self, cues: list[Cue]) -> None:
        self._flush(cues)
        at_s = self._frames * FRAME_S
        cues += Ended(at_s=at_s, pause=False, voiced=self._voiced), Began(from_s=at_s, at_s=at_s, onset=False)
        if self._quietest > self._floor * _LOUD_RATIO:
            self._floor = min(self._quietest, _MAX_FLOOR)
        self._voiced, self._length, self._quietest = False, 0, _MAX_FLOOR

    def _flush(self, cues: list[Cue]) -> None:
        """Append the samples of the utterance: they follow its Began and precede its Ended."""
        if self._spoken:
            cues.append(Spoken(data=b"".join(self._spoken)))
            self._spoken.clear()

    def _update_floor(self, level: float) -> None:
        """Lower the floor quickly and raise it slowly: the start of speech must not raise it."""
        pace = 0.2 if level < self._floor else 0.02
        self._floor = min(_MAX_FLOOR, self._floor + pace * (level - self._floor))


def _level(frame: bytes) -> float:
    samples = array("h", frame)
    if byteorder == "big":
        samples.byteswap()
    measured = samples[::_SAMPLE_STEP]
    return sum(map(abs, measured)) / len(measured)
