"""Knows which phrases a place has that keeps them, a disk or the server of a fleet, in a fixed piece of memory.

So a text that is not there costs no question. Phrases are known by hashes: those of their keys, and those of the beginnings of their
texts (marks), with which live speech whose text is still to come is held back.
"""

from __future__ import annotations

from typing import Protocol

from gw.policy.seen_filter import BITS, SeenFilter

MARK_BYTES = 8
"""Length of the hash that stands for the beginning of a text."""


class PhraseHashes(Protocol):
    def hashed(self, key: bytes) -> bytes: ...

    def hashed_mark(self, mark: bytes) -> bytes: ...


class PhraseIndex:
    """`may_have` and `may_begin` take what is not hashed yet. Without `hashes` nothing can be there."""

    def __init__(self, key_bits: int, mark_bits: int = BITS) -> None:
        self.hashes: PhraseHashes | None = None
        self.is_whole = False
        """Everything that is there was noted."""
        self._keys, self._marks = SeenFilter(key_bits), SeenFilter(mark_bits)

    def note(self, hashed: bytes, marks: bytes) -> None:
        """Note a phrase: the hash of its key, and those of its beginnings one after the other."""
        self._keys.add(hashed)
        for at in range(0, len(marks), MARK_BYTES):
            self._marks.add(marks[at : at + MARK_BYTES])

    def may_have(self, key: bytes) -> bool:
        """Return whether a phrase may be there."""
        return self.hashes is not None and (not self.is_whole or self.hashes.hashed(key) in self._keys)

    def may_begin(self, mark: bytes) -> bool:
        """Return whether a text that is there may begin as a mark says. Not before all of them are known."""
        return self.is_whole and self.hashes is not None and self.hashes.hashed_mark(mark) in self._marks

    def clear(self) -> None:
        self._keys.clear()
        self._marks.clear()
