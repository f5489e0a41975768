"""Does a frame of audio hold speech? A cheap guess, good enough to tell a deaf provider from a silent caller."""

from __future__ import annotations

from array import array
from sys import byteorder

from gw.types.audio import AudioFormat
from gw.wire import g711

_LOUD = 600
"""Of 32,768: about -35 dBFS. Room noise on a headset is far below, speech far above."""
_EVERY = 8
"""One sample in so many is looked at."""


class Loudness:
    def __init__(self, fmt: AudioFormat) -> None:
        self._encoding = fmt.encoding

    def speaks(self, data: bytes) -> bool:
        """Whether any of the samples looked at is loud. Compressed audio cannot be judged: never."""
        match self._encoding:
            case "pcm_s16le":
                samples = array("h", data[: len(data) & ~1])
                if byteorder == "big":
                    samples.byteswap()
                heard = samples[::_EVERY]
            case "mulaw":
                heard = array("h", g711.mulaw_to_pcm16(data[::_EVERY]))
            case "alaw":
                heard = array("h", g711.alaw_to_pcm16(data[::_EVERY]))
            case _:
                return False
        return bool(heard) and (max(heard) > _LOUD or min(heard) < -_LOUD)
