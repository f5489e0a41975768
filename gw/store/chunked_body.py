"""Long answers as bytes that are ready to be sent, in pieces, so that no step of the event loop copies all of one."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

PIECE_BYTES = 65_536
"""Bytes of a long answer that one step of the event loop reads or sends; other tasks may run between two steps."""


class Encoded(msgspec.Struct, frozen=True):
    pieces: tuple[bytes, ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


def in_pieces(body: bytes) -> Iterable[bytes]:
    """Cut `body` into pieces of at most PIECE_BYTES."""
    if len(body) <= PIECE_BYTES:
        return (body,)
    return (body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES))
