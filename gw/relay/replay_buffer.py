"""Audio of a live session that no final transcript covers yet, kept so that another provider can hear it again."""

from __future__ import annotations

from collections import deque

from gw.types.audio import AudioFormat


class ReplayBuffer:
    """Offsets count the session's bytes from its beginning. Holds at most `most_s` seconds of raw audio, else `most_bytes`.

    Beyond that the oldest audio goes: what another provider then cannot hear again is lost, and `lost_s` says how much.
    """

    def __init__(self, fmt: AudioFormat, *, most_s: float, most_bytes: int) -> None:
        self._format = fmt
        self._block = max(1, fmt.bytes_per_second // (fmt.sample_rate_hz or 1))
        """Bytes of one sample of every channel: audio is cut between blocks only."""
        self._most = int(most_s * fmt.bytes_per_second) or most_bytes
        self._pieces: deque[bytes] = deque()
        self.start = 0
        """Offset of the first byte held."""
        self.end = 0
        """Offset after the last byte received."""
        self.lost_s = 0.0

    @property
    def seekable(self) -> bool:
        """Raw audio: it can be cut anywhere, and its bytes tell its time. Containers can only be sent from their beginning."""
        return self._format.bytes_per_second > 0

    def seconds(self, offset: int) -> float:
        """The time at an offset; 0.0 where bytes do not tell."""
        return self._format.seconds(offset)

    def append(self, data: bytes) -> None:
        self._pieces.append(data)
        self.end += len(data)
        if self.end - self.start > self._most:
            before = self.start
            offset = self.end - self._most
            self._drop(offset + -offset % self._block)
            self.lost_s += self.seconds(self.start - before)

    def final_until(self, at_s: float) -> None:
        """A transcript stands up to this time: the audio before it need not be heard again."""
        if self.seekable:
            offset = int(at_s * self._format.bytes_per_second)
            self._drop(min(offset - offset % self._block, self.end))

    def read(self, offset: int, most: int) -> bytes:
        """About `most` bytes from `offset` on (from the first held, if that is later); b"" when all were read."""
        at = self.start
        found: list[bytes] = []
        size = 0
        for piece in self._pieces:
            if offset < at + len(piece):
                part = piece[max(0, offset - at) :]
                found.append(part)
                size += len(part)
                if size >= most:
                    break
            at += len(piece)
        return b"".join(found)

    def _drop(self, offset: int) -> None:
        """Let go of the bytes before `offset`."""
        while self._pieces and self.start < offset:
            piece = self._pieces[0]
            surplus = offset - self.start
            if surplus < len(piece):
                self._pieces[0] = piece[surplus:]
                self.start = offset
                return
            self._pieces.popleft()
            self.start += len(piece)
