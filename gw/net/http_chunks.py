"""Cut a body out of its chunks, a request's and an answer's alike: RFC 9112, section 7.1.

    size ──n──▶ data ──n bytes──▶ end ──blank line──▶ size
     │ 0
     ▼
    trailer ──blank line──▶ done
"""

from __future__ import annotations

import re
from typing import Final, Literal

_LINE_BYTES: Final = 256
_TRAILER_BYTES: Final = 8_192
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?")
_PLAIN_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n")
_TRAILER: Final = "the fields after the body are too long"


class MalformedChunks(ValueError):
    """Says what is wrong."""


class ChunkedBody:
    """Cuts the chunks of one body out of what arrives."""

    __slots__ = ("_left", "_rest", "_state", "_trailer_bytes", "done")

    def __init__(self) -> None:
        self._left = 0  # of the chunk that is being read
        self._state: Literal["size", "data", "end", "trailer"] = "size"
        self._trailer_bytes = 0
        self._rest: bytearray | None = None  # a line of which a part has arrived
        self.done = False

    @property
    def has_surplus(self) -> bool:
        """Return whether something followed the body in what `feed` was given."""
        return self.done and self._rest is not None

    def whole(self, data: bytes) -> bytes | None:
        """Return the body bytes of `data` where it is one chunk, as nearly every token is; None for what `feed` must take."""
        line_ends = data.find(b"\r\n")
        size = len(data) - line_ends - 4
        if size <= 0 or data[:line_ends] != b"%x" % size or not data.endswith(b"\r\n") or self._state != "size" or self._rest is not None:
            return None
        return data[line_ends + 2 : -2]

    def feed(self, data: bytes, pieces: list[bytes]) -> None:
        """Append the body bytes of `data` to `pieces`; the chunks end where they may. Raises MalformedChunks after those before it."""
        at = 0
        if self._rest is None and self._state == "size":
            while (size := _PLAIN_SIZE.match(data, at)) is not None:  # whole chunks
                begins = size.end()
                ends = begins + int(size[1], 16)
                if ends == begins or data[ends : ends + 2] != b"\r\n":
                    break
                pieces.append(data[begins:ends])
                at = ends + 2
                if at == len(data):
                    return
        rest = self._rest if self._rest is not None else bytearray()
        rest += data[at:] if at else data
        self._rest = None
        self.take(rest, pieces)
        if rest:
            self._rest = rest

    def take(self, buffer: bytearray, pieces: list[bytes]) -> None:
        """Move the body bytes at the start of `buffer` to `pieces`, and leave what follows the body, or a part of a line."""
        while buffer and not self.done:
            if self._state == "data":
                piece = bytes(buffer[: self._left])
                del buffer[: self._left]
                self._left -= len(piece)
                pieces.append(piece)
                if not self._left:
                    self._state = "end"
            elif (line := self._line(buffer)) is None:
                break
            else:
                self._read(line)

    def _line(self, buffer: bytearray) -> bytes | None:
        limit = _TRAILER_BYTES if self._state == "trailer" else _LINE_BYTES
        end = buffer.find(b"\n", 0, limit)
        if end < 0:
            if len(buffer) >= limit:
                raise MalformedChunks(_TRAILER if self._state == "trailer" else "a line between the chunks of the body is too long")
            return None
        line = bytes(buffer[: end + 1])
        del buffer[: end + 1]
        if not line.endswith(b"\r\n"):
            raise MalformedChunks("a line between the chunks of the body does not end in CR LF")
        return line[:-2]

    def _read(self, line: bytes) -> None:
        if self._state == "size":
            size = _SIZE.fullmatch(line)
            if size is None:
                raise MalformedChunks("the body has a chunk without its size")
            self._left = int(size[1], 16)
            self._state = "data" if self._left else "trailer"
        elif self._state == "end":
            if line:
                raise MalformedChunks("a chunk of the body is longer than its size")
            self._state = "size"
        else:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > _TRAILER_BYTES:
                raise MalformedChunks(_TRAILER)
            self.done = not line
