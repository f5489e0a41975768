"""Audio of a live session that no final transcript covers yet, buffered for another provider."""

from __future__ import annotations

from collections import deque

from gw.types.audio import AudioFormat


class ReplayBuffer:
    """Offsets count the session's bytes. Holds at most `max_s` seconds of raw audio, else `max_bytes`.

    Beyond that the oldest audio is dropped and cannot be sent to another provider; `lost_s` adds it up.
    """

    def __init__(self, fmt: AudioFormat, *, max_s: float, max_bytes: int) -> None:
        self._format = fmt
        self._block = max(1, fmt.bytes_per_second // (fmt.sample_rate_hz or 1))
        """Bytes of one sample of every channel: audio is cut between blocks only."""
        self._max_bytes = int(max_s * fmt.bytes_per_second) or max_bytes
        self._pieces: deque[bytes] = deque()
        self.start = 0
        """Offset of the first byte in the buffer."""
        self.end = 0
        """Offset after the last byte received."""
        self.lost_s = 0.0

    @property
    def seekable(self) -> bool:
        """Raw audio can be cut anywhere. Containers can only be sent from their beginning."""
        return self._format.bytes_per_second > 0

    def seconds(self, offset: int) -> float:
        """Return the time at an offset; 0.0 for containers."""
        return self._format.seconds(offset)

    def append(self, data: bytes) -> None:
        self._pieces.append(data)
        self.end += len(data)
        if self.end - self.start > self._max_bytes:
            before = self.start
            offset = self.end - self._max_bytes
            self._drop(offset + -offset % self._block)
            self.lost_s += self.seconds(self.start - before)

    def final_until(self, at_s: float) -> None:
        """Drop the audio before `at_s`, which a final transcript covers."""
        if self.seekable:
            offset = int(at_s * self._format.bytes_per_second)
            self._drop(min(offset - offset % self._block, self.end))

    def read(self, offset: int, size: int) -> bytes:
        """Return about `size` bytes from `offset` on (from `start`, if that is later); b"" when all were read."""
        at = self.start
        parts: list[bytes] = []
        read = 0
        for piece in self._pieces:
            if offset < at + len(piece):
                part = piece[max(0, offset - at) :]
                parts.append(part)
                read += len(part)
                if read >= size:
                    break
            at += len(piece)
        return b"".join(parts)

    def _drop(self, offset: int) -> None:
        """Drop the bytes before `offset`."""
        while self._pieces and self.start < offset:
            piece = self._pieces[0]
            surplus = offset - self.start
            if surplus < len(piece):
                self._pieces[0] = piece[surplus:]
                self.start = offset
                return
            self._pieces.popleft()
            self.start += len(piece)
