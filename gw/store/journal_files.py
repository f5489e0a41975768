"""Read the segments of a journal (`gw.store.journal` writes them), after a kill or while they are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gw.store.record_lines import RECORD, decode_line, record_id
from gw.types.usage import Intent, RequestRecord


def number_of(path: Path) -> int:
    return int(path.name.rpartition(".")[2])


def segment_paths(database: Path) -> list[Path]:
    """Return the database's segments, oldest first."""
    prefix = f"{database.name}.journal."
    paths = [p for p in database.parent.iterdir() if p.name.startswith(prefix) and p.name[len(prefix) :].isdecimal()]
    return sorted(paths, key=number_of)


def read_lines(path: Path, offset: int = 0) -> Iterator[tuple[int, Intent | RequestRecord | None]]:
    """Yield each complete line from `offset` on as (offset after it, value); None for an unreadable line. Blocks.

    An incomplete last line is left out.
    """
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield offset, decode_line(line)


def bad_path(segment: Path) -> Path:
    """Return where lines of a segment are kept that cannot be read; replay and trimming leave such files alone."""
    return segment.with_name(f"{segment.name}.bad")


def keep_unreadable(segment: Path) -> Path | None:
    """Append the unreadable lines of a segment to a file of their own; return that, or None for a segment without any. Raises OSError."""
    with segment.open("rb") as file:
        lines = [line for line in file if line.endswith(b"\n") and decode_line(line) is None]
    if not lines:
        return None
    path = bad_path(segment)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as kept:
        kept.writelines(lines)
        kept.flush()
        os.fsync(kept.fileno())
    return path


def read_record_lines(path: Path, offset: int, limit: int) -> tuple[list[tuple[str, bytes]], int]:
    """Return at most `limit` finished records from `offset` on as (id, line), and the offset after them. Blocks."""
    records: list[tuple[str, bytes]] = []
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n") or len(records) == limit:
                break
            offset += len(line)
            if line[0] == RECORD:
                with suppress(ValueError, RecursionError):
                    records.append((record_id(line), line[:-1]))
    return records, offset
