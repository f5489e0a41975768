"""Live audio as AssemblyAI takes it: one channel, in frames of 50 to 1000 ms. A session that sends others is closed (3007).

Source: the vendor's specification of `/v3/ws`, operation sendAudio, and its close codes (November 2026).
"""

from __future__ import annotations

import msgspec

from gw.types.audio import AudioFormat
from gw.wire.convert import CannotConvert, converter

ENCODINGS = {"pcm_s16le": "pcm_s16le", "mulaw": "pcm_mulaw"}
"""Our name → the vendor's."""
_SILENCE = {"pcm_s16le": b"\0", "mulaw": b"\xff"}
_LEAST_MS, _MOST_S = 50, 1


class Frames:
    """Joins what is too short and cuts what is too long. Raises CannotConvert for a format that is not in `ENCODINGS`."""

    def __init__(self, fmt: AudioFormat) -> None:
        rate = fmt.sample_rate_hz
        if fmt.encoding not in ENCODINGS or rate <= 0:
            raise CannotConvert(f"{fmt.encoding} is not taken in a live session")
        mono = msgspec.structs.replace(fmt, channels=1)
        self._mono = converter(fmt, mono)
        sample_bytes = mono.bytes_per_second // rate
        self._least = -(-rate * _LEAST_MS // 1000) * sample_bytes
        self._most = rate * _MOST_S * sample_bytes
        self._silence = _SILENCE[fmt.encoding]
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole by now; at most 50 ms are held back."""
        if self._mono is not None:
            data = self._mono.feed(data)
        if not self._held and self._least <= len(data) <= self._most:
            return [data]
        self._held += data
        frames = []
        while len(self._held) >= self._least:
            frames.append(bytes(self._held[: self._most]))
            del self._held[: self._most]
        return frames

    def rest(self) -> list[bytes]:
        """What is held back, with silence up to what is taken."""
        held = bytes(self._held)
        self._held.clear()
        return [held + self._silence * (self._least - len(held))] if held else []
