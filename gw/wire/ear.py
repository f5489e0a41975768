"""Detection of speech by loudness alone, cheaply enough for every frame: the gateway's own ear.

It distinguishes a recogniser that has failed from a caller who is silent. A window of 20 to 40 ms has a level, its peak:

    level                                                  the window is
    ────────────────────────────────────────────────────   ──────────────────────────────────────────────────────────
    up to `_SOUND_RATIO` times the noise floor             silence: a replay leaves long stretches of it out
    above `_LOUD`, and `_LOUD_RATIO` times the floor       loud: enough of it without a long pause is speech
    between the two                                        a sound

The noise floor is the lowest level of the last four seconds. Speech has pauses between and within words that reach down to
the noise behind it, so it does not raise the floor; noise and music without such pauses do, and are not taken for speech for
longer than that. Where recognisers have found no words in what was loud, `disregard` raises the bar until it has been quiet.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from sys import byteorder
from typing import Final, TypeVar

from gw.types.audio import AudioFormat
from gw.wire import g711

LEAST_SPEECH_S: Final = 0.2  # loud audio without a long pause that counts as speech; less is a click or a cough
_NEVER: Final = -math.inf  # one object for all sessions
_WINDOW_S: Final = 0.02
_EVERY: Final = 8  # one sample in so many is examined
_LOUD: Final = 600.0
"""Amplitude, of 32,768: about -35 dBFS. Room noise on a headset is far below, speech far above."""
_LOUD_RATIO: Final = 3.0
_MOST_FLOAT: Final = 64.0  # 36 dB above full scale
_SOUND_RATIO: Final = 1.6
_LEAST_SOUND: Final = 40.0  # amplitude below which nothing is a sound: the last bits of a converter
_HIGHEST_FLOOR: Final = 4_000.0
_BLOCK_S: Final = 0.5
_BLOCKS: Final = 8  # the noise floor is the lowest level of so many blocks
_PAUSE_S: Final = 0.3  # quiet after which loud audio begins to count anew
_JOINED_S: Final = 1.0  # sounds that follow each other within this time are one
_BAR_RATIO: Final = 1.5  # how much louder than disregarded audio speech must be
_QUIET_AGAIN_S: Final = 1.5  # silence after which disregarded audio is over
_MOST_LEAST_SPEECH_S: Final = 0.8
_MAX_SOUNDS: Final = 512


S = TypeVar("S", "Sound", "Run")


class Sound:
    """A stretch of audio that is not silence; `speech_s` of it is speech."""

    __slots__ = ("end_s", "speech_s", "start_s")

    def __init__(self, start_s: float, end_s: float) -> None:
        self.start_s = start_s
        self.end_s = end_s
        self.speech_s = 0.0


class Run:
    """Speech without a long pause."""

    __slots__ = ("end_s", "start_s")

    def __init__(self, start_s: float, end_s: float) -> None:
        self.start_s = start_s
        self.end_s = end_s


class Ear:
    """Raw samples in, in pieces of any length. Compressed audio is not heard: `hears` is false."""

    __slots__ = (
        "_bar", "_block_ends_s", "_blocks", "_byte_s", "_examined", "_floor", "_format", "_highest", "_highest_before",
        "_least_speech_s", "_loud_level", "_lowest", "_most_bytes", "_run", "_run_s", "_size", "_sound", "_sound_level",
        "_window_bytes", "at_s", "hears", "loud_until_s", "runs", "sounds", "speech_until_s",
    )  # fmt: skip

    def __init__(self, fmt: AudioFormat) -> None:
        rate = fmt.bytes_per_second
        block = max(1, rate // (fmt.sample_rate_hz or 1))  # bytes of one sample of every channel
        self.hears = rate > 0
        self._window_bytes = max(1, int(fmt.sample_rate_hz * _WINDOW_S)) * block
        self._most_bytes = 2 * self._window_bytes
        self._byte_s = 1 / rate if rate else 0.0
        self._format = fmt
        self._size = 0
        """Bytes of the piece before, which `_examined` takes samples from; nearly always the next one is as long."""
        self._examined: _Examined = _examiner(fmt)
        self.at_s = 0.0
        """Seconds of audio heard."""
        self.speech_until_s = 0.0
        """End of the last speech."""
        self.sounds: list[Sound] = []
        """The stretches that `forget` has not dropped, in order; the latest _MAX_SOUNDS, as of `runs`."""
        self._sound = Sound(_NEVER, _NEVER)  # the last one
        self.runs: list[Run] = []
        """The speech in them, split at pauses."""
        self._run = Run(_NEVER, _NEVER)  # the last loud audio
        self._least_speech_s = LEAST_SPEECH_S
        self._run_s = 0.0  # loud audio since the last pause
        self.loud_until_s = 0.0
        """End of the last loud window."""
        self._blocks = [0.0] * _BLOCKS
        self._block_ends_s = _BLOCK_S
        self._lowest = 32_768.0  # level of the current block
        self._highest = 0.0
        self._highest_before = 0.0  # of the block before
        self._floor = 0.0
        self._bar = 0.0
        self._sound_level, self._loud_level = _LEAST_SOUND, _LOUD

    def feed(self, data: bytes) -> float:
        """Listen to the next samples. Return how many seconds of speech were noticed with them.

        This runs for every frame of every caller, so it is one long function: each call of another costs a tenth of it.
        """
        size = len(data)
        if size != self._size:
            if size > self._most_bytes:
                step = self._window_bytes
                return sum([self.feed(data[at : at + step]) for at in range(0, size, step)])
            self._size, self._examined = size, _examiner_of_size(self._format, size)
        examined = self._examined(data)
        if not examined:
            return 0.0
        start_s = self.at_s
        self.at_s = end_s = start_s + size * self._byte_s
        highest = lowest = 0
        for sample in examined:  # faster than `max` and `min`
            if sample > highest:
                highest = sample
            elif sample < lowest:
                lowest = sample
        level = float(max(highest, -lowest))
        if level < self._lowest:
            self._lowest = level
            if level < self._floor:
                self._set_levels(level)
        if level > self._highest:
            self._highest = level
        if end_s >= self._block_ends_s:
            self._end_block(end_s)
        if level <= self._sound_level:
            if self._bar and end_s - self._sound.end_s > _QUIET_AGAIN_S:
                self._bar = 0.0
                self._set_levels(self._floor)
            return 0.0
        sound = self._sound
        if start_s - sound.end_s > _JOINED_S:
            self._sound = sound = Sound(start_s, end_s)
            _append(self.sounds, sound)
        else:
            sound.end_s = end_s
        if level <= self._loud_level:
            return 0.0
        if start_s - self.loud_until_s > _PAUSE_S:
            self._run_s = 0.0
        before_s = self._run_s
        if not before_s:
            self._run = Run(start_s, end_s)
        self.loud_until_s = self._run.end_s = end_s
        self._run_s = run_s = before_s + end_s - start_s
        if run_s < self._least_speech_s:
            return 0.0
        speech_s: float = end_s - start_s
        if before_s < self._least_speech_s:
            speech_s = run_s
            _append(self.runs, self._run)
        sound.speech_s += speech_s
        self.speech_until_s = end_s
        return speech_s

    def disregard(self) -> None:
        """Note that what was loud just now was no speech: until it has been quiet, only louder audio is speech."""
        self._bar = max(self._bar, _BAR_RATIO * max(self._highest, self._highest_before))
        self._least_speech_s = min(_MOST_LEAST_SPEECH_S, 2 * self._least_speech_s)
        self._run_s = 0.0
        self._set_levels(self._floor)

    @property
    def is_complete(self) -> bool:
        """Return whether all that was heard and not forgotten is among `sounds`."""
        return self.hears and len(self.sounds) < _MAX_SOUNDS

    def speech_between(self, from_s: float, until_s: float = math.inf) -> float:
        """Return the seconds of speech between two times, about: a sound may begin or end without speech."""
        return sum(
            min(sound.speech_s, min(sound.end_s, until_s) - max(sound.start_s, from_s))
            for sound in self.sounds
            if sound.end_s > from_s and sound.start_s < until_s
        )

    def covered_until(self, at_s: float, sure_s: float) -> float:
        """Return where the audio ends that a transcript without times covers for certain.

        It came when audio until `at_s` had been sent, and the recogniser has surely heard what was said before `sure_s`.
        The transcript has words of the first speech at least; later speech it covers if that began before `sure_s`.
        """
        before: Run | None = None
        runs = list(self.runs)
        if runs and self._run is not runs[-1]:
            runs.append(self._run)  # it has just begun, and may become speech
        for run in runs:
            if run.start_s >= at_s:
                break
            if before is not None and run.start_s > sure_s:
                return max(before.end_s, run.start_s - _PAUSE_S / 2)
            before = run
        return at_s

    def forget(self, until_s: float) -> None:
        """Drop the sounds that ended before `until_s`; one that goes on begins anew."""
        while self.runs and self.runs[0].end_s <= until_s:
            del self.runs[0]
        while self.sounds and self.sounds[0].end_s <= until_s:
            if self.sounds.pop(0) is self._sound:
                self._sound = Sound(_NEVER, _NEVER)

    def _end_block(self, end_s: float) -> None:
        self._block_ends_s = end_s + _BLOCK_S
        del self._blocks[0]
        self._blocks.append(self._lowest)
        self._lowest = 32_768.0
        self._highest_before, self._highest = self._highest, 0.0
        self._set_levels(min(self._blocks))

    def _set_levels(self, floor: float) -> None:
        self._floor = floor = min(floor, _HIGHEST_FLOOR)
        self._sound_level = max(_LEAST_SOUND, _SOUND_RATIO * floor)
        self._loud_level = max(_LOUD, _LOUD_RATIO * floor, self._bar)


def _append(latest: list[S], one: S) -> None:
    if len(latest) == _MAX_SOUNDS:
        del latest[0]
    latest.append(one)


def amplitude_of(fmt: AudioFormat) -> Callable[[bytes], float]:
    """Return the function that measures the amplitude of a piece of samples, of 32,768; 0.0 for compressed audio."""
    examined = _examiner(fmt)

    def amplitude(data: bytes) -> float:
        samples = examined(data)
        return max(max(samples), -min(samples)) if samples else 0.0

    return amplitude


_Examined = Callable[[bytes], "tuple[int, ...]"]


def _examiner(fmt: AudioFormat) -> _Examined:
    """Return the function that takes one sample in `_EVERY`, as 16-bit integers."""
    match fmt.encoding:
        case "pcm_s16le":
            return _pcm16
        case "mulaw":
            return lambda data: tuple(array("h", g711.mulaw_to_pcm16(data[::_EVERY])))
        case "alaw":
            return lambda data: tuple(array("h", g711.alaw_to_pcm16(data[::_EVERY])))
        case "pcm_f32le":
            return _float32
    return lambda data: ()


def _examiner_of_size(fmt: AudioFormat, size: int) -> _Examined:
    """Return the same for pieces of `size` bytes, without a look for how long they are."""
    return _examined_pcm16(size).unpack_from if fmt.encoding == "pcm_s16le" else _examiner(fmt)


def _pcm16(data: bytes) -> tuple[int, ...]:
    return _examined_pcm16(len(data)).unpack_from(data)


@lru_cache(maxsize=64)
def _examined_pcm16(size: int) -> Struct:
    """Return what unpacks every `_EVERY`th sample of so many bytes."""
    examined = -(-(size // 2) // _EVERY)
    return Struct("<" + f"h{2 * (_EVERY - 1)}x" * (examined - 1) + "h" * min(1, examined))


def _float32(data: bytes) -> tuple[int, ...]:
    samples = array("f", data[: len(data) & ~3])
    if byteorder == "big":
        samples.byteswap()
    # Full scale is 1.0. A sample may exceed it a little; infinity and what is no number are no samples.
    return tuple(int(32_768.0 * sample) if -_MOST_FLOAT < sample < _MOST_FLOAT else 0 for sample in samples[::_EVERY])
