"""Audio on its way to a listener: how long it is, whether it comes fast enough, and whether it ends in a sound."""

from __future__ import annotations

from array import array
from sys import byteorder
from typing import Final

import msgspec

from gw.types.audio import CONTENT_TYPES, AudioFormat
from gw.wire.convert import CannotConvert, converter
from gw.wire.durations import LengthMeter

LOW_S: Final = 0.3
"""Least audio left to play while nothing more comes: then the provider has failed. Another needs this long to begin."""
PATIENCE_S: Final = 0.4
"""The least time that a provider has for its next audio, whatever is left to play."""
SLOWER: Final = 1.5
"""Later audio may take so many times longer than a provider's first."""
_KEEPS_UP = 0.5  # least seconds of audio for each second that it is waited for
_TAIL_S = 0.02
_LOUD = 330.0  # mean magnitude, of 32,768, above which the end of a word is still to come: about -40 dBFS


class AudioLength:
    """Length of a stream of audio, measured as it passes. A format whose length cannot be read has zero seconds."""

    def __init__(self, fmt: AudioFormat) -> None:
        self.seconds = 0.0
        self.bytes = 0
        self._format = fmt
        self._meter = None if fmt.bytes_per_second else LengthMeter(CONTENT_TYPES[fmt.encoding])

    def add(self, data: bytes) -> float:
        """Add a piece, and return by how many seconds the audio has become longer."""
        self.bytes += len(data)
        if self._meter is None:
            added = self._format.seconds(len(data))
            self.seconds += added
            return added
        self._meter.feed(data)
        before, self.seconds = self.seconds, max(self.seconds, self._meter.seconds)
        return self.seconds - before


class Supply:
    """Measures if audio keeps up with a listener who plays it at once. Audio that only drips is as good as none."""

    def __init__(self, now: float) -> None:
        self.since = now
        """Begin of the wait: since then less audio came than half the time that has passed."""
        self._received_s = 0.0

    def add(self, seconds: float, now: float) -> None:
        self._received_s += seconds
        if self._received_s >= _KEEPS_UP * (now - self.since):
            self.since, self._received_s = now, 0.0


def ends_loud(tail: bytes, fmt: AudioFormat, bytes_before: int) -> bool | None:
    """Return whether audio ends in the middle of a sound; None for compressed audio.

    `tail` is its last piece, after `bytes_before` others.
    """
    if not fmt.bytes_per_second or not tail:
        return None
    raw = msgspec.structs.replace(fmt, encoding="pcm_s16le") if fmt.encoding == "wav" else fmt
    block = raw.bytes_per_second // raw.sample_rate_hz
    end = len(tail) - (bytes_before + len(tail)) % block
    begin = end - min(int(raw.sample_rate_hz * _TAIL_S), end // block) * block
    data = tail[begin:end]
    try:
        convert = converter(raw, msgspec.structs.replace(raw, encoding="pcm_s16le"))
        samples = array("h", data if convert is None else convert.feed(data))
    except (CannotConvert, ValueError):
        return None
    if byteorder == "big":
        samples.byteswap()
    return sum(map(abs, samples)) / len(samples) > _LOUD if samples else None
