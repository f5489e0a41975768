"""SQL of the phrase file: speech that the phrase cache keeps on a disk, encrypted, in a database beside that of the records.

In clear are the ids of project, model and voice, and the sizes, by which entries are chosen to be deleted. Text and audio are sealed
together with their key. The keys, and the marks of how texts begin, are hashed with the secret key, so nobody can try texts against
them without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from gw.errors import StoreUnavailable
from gw.policy.phrase_cache import KeptPhrase
from gw.policy.phrase_index import MARK_BYTES
from gw.store.private_file import open_private_file
from gw.store.sqlite import translated
from gw.vault import PhraseCipher

_APPLICATION_ID = 0x67775068  # "gwPh"
_SCHEMA = """
create table phrases (
    id integer primary key, key blob not null unique, used_at real not null, size integer not null, project text not null,
    model_id text not null, voice text not null, marks blob not null, body blob not null) strict;
create index phrases_used on phrases (used_at, size);
"""
_INSERT = """
insert into phrases (key, used_at, size, project, model_id, voice, marks, body) values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (key) do update set used_at = excluded.used_at, size = excluded.size, body = excluded.body"""
HASHES = 300
"""Hashes that are read in one portion: noting them takes a third of a millisecond, in which no other thread has its turn."""
_ROWS = 100  # rows read or deleted in one go


class PhraseTotals(msgspec.Struct, frozen=True):
    """Phrases in a file, and their bytes."""

    phrases: int
    bytes: int


class PhraseFile:
    """One connection. Every method blocks, and raises StoreUnavailable, DatabaseUnusable or DatabaseLocked."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        with translated(path):
            self._db = open_private_file(path, _SCHEMA, _APPLICATION_ID, "a file of phrases", read_only=read_only)
            self._db.pragma("cache_size", -2_000)  # kB
        self.totals = PhraseTotals(0, 0) if read_only else self._count()

    def close(self) -> None:
        self._db.close()

    def add(self, phrases: Iterable[tuple[bytes, KeptPhrase]], now: float, cipher: PhraseCipher) -> None:
        """Store phrases in one transaction, in place of those with the same key."""
        rows: list[tuple[Any, ...]] = []
        for key, phrase in phrases:
            hashed = cipher.hashed(key)
            body, marks = cipher.seal(phrase, hashed), b"".join(map(cipher.hashed_mark, phrase.marks()))
            size = len(body) + len(marks)
            rows.append((hashed, now, size, phrase.project, phrase.model_id, phrase.voice, marks, body))
        with translated(self._path), self._db:
            before = [size for row in rows for (size,) in self._db.execute("select size from phrases where key = ?", row[:1])]
            self._db.executemany(_INSERT, rows)
        self._grow(len(rows) - len(before), sum(row[2] for row in rows) - sum(before))

    def read(self, key: bytes, cipher: PhraseCipher) -> KeptPhrase | None:
        hashed = cipher.hashed(key)
        with translated(self._path):
            body = self._db.execute("select body from phrases where key = ?", (hashed,)).get
        if body is None:
            return None
        try:
            return cipher.open(body, hashed)
        except (ValueError, msgspec.MsgspecError) as error:
            raise StoreUnavailable(what=f"a phrase in {self._path} cannot be decrypted: {error}") from None

    def touch(self, keys: Iterable[bytes], now: float, cipher: PhraseCipher) -> None:
        """Note that phrases were used."""
        with translated(self._path), self._db:
            self._db.executemany("update phrases set used_at = ? where key = ?", [(now, cipher.hashed(key)) for key in keys])

    def evict(self, most_bytes: int) -> int:
        """Delete the phrases that were not used for longest until the rest has at most so many bytes; return how many those were.

        At most _ROWS of them: the next call goes on.
        """
        excess, chosen = self.totals.bytes - most_bytes, list[int]()
        if excess <= 0:
            return 0
        with translated(self._path), self._db:
            for id_, size in self._db.execute("select id, size from phrases order by used_at limit ?", (_ROWS,)):
                chosen.append(id_)
                excess -= size
                if excess <= 0:
                    break
            deleted = self._delete(f"id in ({','.join(map(str, chosen))})")
        return deleted

    def clear(self, *, project: str | None = None, model_id: str | None = None, voice: str | None = None) -> int:
        """Delete the phrases of a project, a model or a voice, or all, also from the write-ahead log; return how many those were."""
        wanted = {"project": project, "model_id": model_id, "voice": voice}
        chosen = {name: value for name, value in wanted.items() if value is not None}
        with translated(self._path):
            with self._db:
                deleted = self._delete(" and ".join(f"{name} = ?" for name in chosen) or "1", *chosen.values())
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return deleted

    def _delete(self, where: str, *values: object) -> int:
        sizes = [row[0] for row in self._db.execute(f"delete from phrases where {where} returning size", values)]
        self._grow(-len(sizes), -sum(sizes))
        return len(sizes)

    def _grow(self, phrases: int, size: int) -> None:
        self.totals = PhraseTotals(self.totals.phrases + phrases, self.totals.bytes + size)

    def _count(self) -> PhraseTotals:
        with translated(self._path):
            count, size = next(iter(self._db.execute("select count(*), coalesce(sum(size), 0) from phrases")))
        return PhraseTotals(phrases=count, bytes=size)

    def seen_clears(self) -> int | None:
        """Return the number of the latest clear of the fleet that was followed; None for a file without phrases."""
        with translated(self._path):
            return int(self._db.pragma("user_version")) if self.totals.phrases else None

    def note_clears(self, number: int) -> None:
        with translated(self._path):
            self._db.pragma("user_version", number)

    def hashes(self) -> Iterator[Sequence[tuple[bytes, bytes]]]:
        """Yield the hashed key and the marks of every phrase, in portions that have about HASHES of them."""
        last = 0
        while True:
            with translated(self._path):
                rows = list(self._db.execute("select id, key, marks from phrases where id > ? order by id limit ?", (last, _ROWS)))
            if not rows:
                return
            last = rows[-1][0]
            portion, count = list[tuple[bytes, bytes]](), 0
            for _, key, marks in rows:
                portion.append((key, marks))
                count += 1 + len(marks) // MARK_BYTES
                if count >= HASHES:
                    yield portion
                    portion, count = [], 0
            yield portion


def phrase_path(db_path: Path) -> Path:
    """Return the file of phrases of a database."""
    real = Path(os.path.realpath(db_path))
    return real.with_name(f"{real.name}.phrases")
