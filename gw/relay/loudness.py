"""Cheap test for speech in a frame of audio, good enough to tell a failed provider from a silent caller."""

from __future__ import annotations

from array import array
from sys import byteorder

from gw.types.audio import AudioFormat
from gw.wire import g711

_LOUD = 600
"""Amplitude, of 32,768: about -35 dBFS. Room noise on a headset is far below, speech far above."""
_EVERY = 8
"""One sample in so many is examined."""


class Loudness:
    def __init__(self, fmt: AudioFormat) -> None:
        self._encoding = fmt.encoding

    def speaks(self, data: bytes) -> bool:
        """Return whether any of the examined samples is loud. Always false for compressed audio."""
        match self._encoding:
            case "pcm_s16le":
                samples = array("h", data[: len(data) & ~1])
                if byteorder == "big":
                    samples.byteswap()
                examined = samples[::_EVERY]
            case "mulaw":
                examined = array("h", g711.mulaw_to_pcm16(data[::_EVERY]))
            case "alaw":
                examined = array("h", g711.alaw_to_pcm16(data[::_EVERY]))
            case _:
                return False
        return bool(examined) and (max(examined) > _LOUD or min(examined) < -_LOUD)
