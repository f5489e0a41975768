"""SQL of the capture file: what projects with `capture` keep, encrypted, in a database beside that of the records.

It is a file of its own, so that no backup, export or copy of the records has captured words in it, and so that
writing it never delays a record. In clear are the ids, the times and the sizes; every content is sealed together with its
place (`_about`), so that it cannot be moved to another request.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import structlog

from gw.engines.presidio import PresidioFailed
from gw.errors import StoreUnavailable
from gw.store.private_file import open_private_file
from gw.store.sqlite import translated
from gw.types.captured import CapturedPiece, CaptureSummary, Piece, PieceKind
from gw.vault import ContentCipher

_APPLICATION_ID = 0x67774361  # "gwCa"
_SCHEMA = """
create table pieces (
    seq integer primary key, request_id text not null, project text not null, at real not null, expires_at real not null,
    kind text not null, part integer not null, size integer not null, body blob not null) strict;
create index pieces_request on pieces (request_id);
create index pieces_expiry on pieces (expires_at);
create index pieces_project on pieces (project, at, size, request_id);
"""
_INSERT = "insert into pieces (request_id, project, at, expires_at, kind, part, size, body) values (?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT = "select seq, request_id, project, at, kind, part, body from pieces"
_MAX_CONTENT_BYTES = 64 * 2**20  # of one piece, unpacked

_log = structlog.get_logger("gw.store")


def capture_path(db_path: Path) -> Path:
    """Return the capture file of a database."""
    real = Path(os.path.realpath(db_path))
    return real.with_name(f"{real.name}.capture")


class CaptureFile:
    """One connection. Every method blocks, and raises StoreUnavailable or DatabaseLocked."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        with translated(path):
            self._db = open_private_file(path, _SCHEMA, _APPLICATION_ID, "a capture file", read_only=read_only)
            try:
                self.bytes = self.summary().bytes
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        self._db.close()

    def add(self, pieces: Sequence[Piece], cipher: ContentCipher, content_of: Callable[[Piece], bytes]) -> int:
        """Store pieces in one transaction and return how many. One whose content cannot be made is left out, and logged."""
        rows: list[tuple[Any, ...]] = []
        for piece in pieces:
            try:
                content = content_of(piece)
            except PresidioFailed:
                continue  # it may be so for every piece, so it is logged once, as trouble
            except Exception as error:
                # Whatever a caller has sent must not keep other requests from being stored. No text of the error: it may quote.
                _log.error("capture_failed", request_id=piece.request_id, kind=piece.kind, error=type(error).__name__)
                continue
            packed = zlib.compress(content, 1) if piece.kind == "text" else content
            body = cipher.seal(packed, about=_about(piece.request_id, piece.project, piece.kind, piece.part))
            rows.append(
                (piece.request_id, piece.project, piece.at, piece.expires_at, piece.kind, piece.part, len(body), body)
            )
        with translated(self._path), self._db:
            self._db.executemany(_INSERT, rows)
        self.bytes += sum(row[6] for row in rows)
        return len(rows)

    def read(self, request_ids: Collection[str], kind: PieceKind, now: float, cipher: ContentCipher) -> list[CapturedPiece]:
        """Return the pieces of these requests that have not expired, in their order."""
        result: list[CapturedPiece] = []
        with translated(self._path):
            for request_id in request_ids:
                sql = f"{_SELECT} where request_id = ? and kind = ? and expires_at > ? order by part"
                result += [_opened(row, cipher)[1] for row in self._db.execute(sql, (request_id, kind, now))]
        return result

    def texts_before(self, before: int | None, limit: int, now: float, cipher: ContentCipher) -> list[tuple[int, CapturedPiece]]:
        """Return the newest texts stored before the one with this number, with their numbers."""
        sql = f"{_SELECT} where kind = 'text' and expires_at > ? and (? is null or seq < ?) order by seq desc limit ?"
        with translated(self._path):
            return [_opened(row, cipher) for row in self._db.execute(sql, (now, before, before, limit))]

    def known(self, request_ids: Collection[str], now: float) -> dict[str, set[PieceKind]]:
        """Return which of these requests have something stored, and of which kinds."""
        kinds: dict[str, set[PieceKind]] = {}
        with translated(self._path):
            for request_id in request_ids:
                sql = "select distinct kind from pieces where request_id = ? and expires_at > ?"
                if stored := {row[0] for row in self._db.execute(sql, (request_id, now))}:
                    kinds[request_id] = stored
        return kinds

    def forget(self, request_ids: Collection[str]) -> int:
        """Delete everything of these requests, also from the write-ahead log, and return how many pieces that were."""
        with translated(self._path):
            with self._db:
                deleted = sum(self._delete("request_id = ?", request_id) for request_id in request_ids)
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return deleted

    def prune(self, now: float, keep_s: Mapping[str, float]) -> int:
        """Delete what has expired, also by what its project keeps now; return how many pieces that were."""
        with translated(self._path), self._db:
            deleted = self._delete("expires_at <= ?", now)
            deleted += sum(self._delete("project = ? and at < ?", name, now - kept) for name, kept in keep_s.items())
        return deleted

    def evict(self, most_bytes: int) -> int:
        """Delete the oldest pieces until the rest has at most so many bytes; return how many pieces that were."""
        excess, last = self.bytes - most_bytes, 0
        if excess <= 0:
            return 0
        with translated(self._path), self._db:
            for seq, size in self._db.execute("select seq, size from pieces order by seq"):
                last, excess = seq, excess - size
                if excess <= 0:
                    break
            deleted = self._delete("seq <= ?", last)
        return deleted

    def _delete(self, where: str, *values: object) -> int:
        sizes = [row[0] for row in self._db.execute(f"delete from pieces where {where} returning size", values)]
        self.bytes -= sum(sizes)
        return len(sizes)

    def summary(self) -> CaptureSummary:
        sql = "select count(distinct request_id), count(*), coalesce(sum(size), 0), min(at) from pieces"
        with translated(self._path):
            requests, pieces, size, oldest_at = next(iter(self._db.execute(sql)))
        return CaptureSummary(requests=requests, pieces=pieces, bytes=size, oldest_at=oldest_at)


def _about(request_id: str, project: str, kind: str, part: int) -> str:
    return f"{kind}/{part}/{project}/{request_id}"


def _opened(row: Sequence[Any], cipher: ContentCipher) -> tuple[int, CapturedPiece]:
    seq, request_id, project, at, kind, part, body = row
    try:
        content = cipher.open(body, about=_about(request_id, project, kind, part))
    except ValueError as error:
        raise StoreUnavailable(what=f"what was captured of the request {request_id} cannot be decrypted: {error}") from None
    if kind == "text":
        content = zlib.decompressobj().decompress(content, _MAX_CONTENT_BYTES)
    return seq, CapturedPiece(request_id, project, at, kind, part, content)


