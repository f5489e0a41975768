"""Live audio as AssemblyAI accepts it: one channel, in frames of 50 to 1000 ms. A session with others is closed (3007).

Source: the vendor's specification of `/v3/ws`, operation sendAudio, and its close codes (November 2026).
"""

from __future__ import annotations

import msgspec

from gw.types.audio import AudioFormat
from gw.wire.convert import CannotConvert, converter

ENCODINGS = {"pcm_s16le": "pcm_s16le", "mulaw": "pcm_mulaw"}
"""Raw encodings: the gateway's name → the vendor's."""
_SILENCE = {"pcm_s16le": b"\0", "mulaw": b"\xff"}
_SHORTEST_MS, _LONGEST_S = 50, 1


class FrameCutter:
    """Joins frames that are too short and cuts those that are too long."""

    def __init__(self, fmt: AudioFormat) -> None:
        """Raises CannotConvert for a format that is not in `ENCODINGS`."""
        rate = fmt.sample_rate_hz
        if fmt.encoding not in ENCODINGS or rate <= 0:
            raise CannotConvert(f"{fmt.encoding} is not accepted in a live session")
        mono = msgspec.structs.replace(fmt, channels=1)
        self._mono = converter(fmt, mono)
        sample_bytes = mono.bytes_per_second // rate
        self._shortest = -(-rate * _SHORTEST_MS // 1000) * sample_bytes
        self._longest = rate * _LONGEST_S * sample_bytes
        self._silence = _SILENCE[fmt.encoding]
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are long enough; less than 50 ms stay in the buffer."""
        if self._mono is not None:
            data = self._mono.feed(data)
        if not self._buffer and self._shortest <= len(data) <= self._longest:
            return [data]
        self._buffer += data
        frames = []
        while len(self._buffer) >= self._shortest:
            frames.append(bytes(self._buffer[: self._longest]))
            del self._buffer[: self._longest]
        return frames

    def end(self) -> list[bytes]:
        """Return the rest of the buffer, filled up with silence to the shortest frame."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return [data + self._silence * (self._shortest - len(data))] if data else []
