"""Append-only journal of intents and finished records, beside the database as `<database>.journal.<n>`.

A line is a tag, a JSON value and a newline: `I` an Intent, `F` a RequestRecord. It is copied into a mapped file, so the
kernel has it without a system call and it survives kill -9 (`durability: power` is for power cuts). The newline is stored
last and separately: a line without one was cut off while it was copied and counts as not written.

Segments of about 1 MB keep trimming cheap: each counts its finished records that are not yet in SQLite and its open intents,
and is unlinked when there are none. Nothing is ever rewritten. An intent stays open until its request's record is a line
itself, or, if that line could not be written, is committed.

    segment: current ──full──▶ closed ──nothing live──▶ finished ──writer's thread──▶ unlinked

A segment reserves its disk space at the start, so only starting one can meet a full disk. Spare segments, reserved while there
was space, are used then; when none is left, the fault is kept in `trouble` until a write or `probe` succeeds. Unused space is NUL
bytes; a segment is cut to its lines when the next one starts.

    spare: reserved by the writer's thread ──disk full──▶ renamed to the current segment
"""

from __future__ import annotations

import errno
import itertools
import math
import mmap
import os
from collections import deque
from contextlib import suppress
from pathlib import Path

import msgspec

from gw.errors import StoreUnavailable
from gw.store.disk import why
from gw.store.journal_files import number_of, segment_paths
from gw.store.record_lines import INTENT, RECORD
from gw.types.usage import Intent, RequestRecord

SEGMENT_BYTES = 2**20
LIMIT_BYTES = 256_000_000
"""All segments together. Beyond it writes fail as on a full disk."""
LEAST_BYTES = 4 * SEGMENT_BYTES
"""Smallest limit of a journal: it must hold a segment that fills and one whose records are being committed."""
SPARES = 32
"""Spare segments of a daemon: 32 MB are about 40,000 records."""
_LEFT_PER_SPARE = 100  # spares take at most a hundredth of the free space
_NEWLINE = ord("\n")


class Segment:
    """`live` counts records not yet committed and open intents; `oldest` is their earliest timestamp ever."""

    __slots__ = ("live", "map", "n", "oldest", "path", "room", "size")

    def __init__(self, n: int, path: Path) -> None:
        self.n = n
        self.path = path
        self.size = 0  # bytes of complete lines
        self.live = 0
        self.oldest = math.inf

    def open(self, room: int) -> None:
        """Create the file and reserve its space. Raises OSError, and then leaves no file."""
        self.room = room
        reserve(self.path, room)
        self._map()

    def adopt(self, spare: Path, room: int) -> None:
        """Take over a spare file of this size. Raises OSError."""
        self.room = room
        spare.rename(self.path)
        self._map()

    def _map(self) -> None:
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self.map = mmap.mmap(fd, self.room)
        except BaseException:
            self.path.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)

    def close(self) -> None:
        """Write no more lines: release the unused space."""
        self.map.close()
        with suppress(OSError):
            os.truncate(self.path, self.size)


def reserve(path: Path, room: int) -> None:
    """Create a file of this size, of which the disk keeps the space. Raises OSError, and then leaves no file."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, room)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


class Spares:
    """Files of the size of a segment, whose space is reserved. `fill` runs in another thread than `take`."""

    def __init__(self, database: Path, room: int, most: int) -> None:
        """Remove what a killed process left. `most`: how many to reserve."""
        self._database = database
        self._room = room
        self.most = most
        self._next = itertools.count(1)
        self._paths: deque[Path] = deque()
        prefix = f"{database.name}.journal.spare."
        for path in sorted(p for p in database.parent.iterdir() if p.name.startswith(prefix)):
            path.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._paths)

    @property
    def missing(self) -> bool:
        return len(self._paths) < self.most

    def take(self) -> Path | None:
        return self._paths.popleft() if self._paths else None

    def fill(self) -> None:
        """Reserve what is missing while the disk has a hundred times that left. Blocks; a full disk ends it."""
        with suppress(OSError):
            while self.missing and self._free() >= _LEFT_PER_SPARE * self._room * (len(self._paths) + 1):
                path = self._database.with_name(f"{self._database.name}.journal.spare.{next(self._next)}")
                reserve(path, self._room)
                self._paths.append(path)

    def close(self) -> None:
        while (path := self.take()) is not None:
            path.unlink(missing_ok=True)

    def _free(self) -> int:
        disk = os.statvfs(self._database.parent)
        return disk.f_bavail * disk.f_frsize


class Journal:
    """Written by one thread, the event loop's. Every method takes a microsecond or two, except for a new segment every 1 MB."""

    def __init__(
        self, database: Path, *, segment_bytes: int = SEGMENT_BYTES, limit_bytes: int = LIMIT_BYTES, spares: int = 0
    ) -> None:
        """Start a segment after the existing ones. `spares`: how many to reserve. Raises StoreUnavailable."""
        self._segment_bytes = segment_bytes
        self.limit_bytes = limit_bytes
        """Largest size of all segments together; may be set at any time."""
        self._database = database
        self._encode = msgspec.json.Encoder().encode_into
        self._intent_line = bytearray([INTENT])
        self._record_line = bytearray([RECORD])
        self._open: dict[str, list[Segment]] = {}
        self._finished: list[Segment] = []
        self._last_line = 0
        self.segments: dict[int, Segment] = {}
        self.bytes = 0
        self.failures = 0
        self.trouble = ""
        try:
            self.spares = Spares(database, segment_bytes, spares)
            self.current = self._start_segment(1 + max(map(number_of, segment_paths(database)), default=0))
        except OSError as error:
            raise StoreUnavailable(what=f"cannot write the journal beside the database: {why(error, database)}") from error

    def intent(self, intent: Intent) -> None:
        """Write an intent; it stays open until `finish` or `committed` names its request. A fault goes to `trouble`."""
        if not self._append(self._intent_line, intent, intent.timestamp):
            return
        segment = self.current
        segments = self._open.get(intent.id)
        if segments is None:
            self._open[intent.id] = [segment]
            segment.live += 1
        elif segments[-1] is not segment:
            segments.append(segment)
            segment.live += 1

    def finish(self, record: RequestRecord) -> Segment | None:
        """Write a finished record; return its segment for `committed`, None if it could not be written."""
        if not self._append(self._record_line, record, record.timestamp):
            return None
        current = self.current
        current.live += 1
        for segment in self._open.pop(record.id, ()):
            self._release(segment)
        return current

    @property
    def record_line(self) -> bytes:
        """Line of the record that was finished last, whether it could be written or not."""
        return bytes(self._record_line)

    @property
    def last_offset(self) -> int:
        """Offset of the last record in the current segment."""
        return self._last_line

    def committed(self, record_id: str, segment: Segment | None) -> None:
        """Note that a record is in SQLite: its line, or without one its intents, are no longer needed."""
        if segment is None:
            self._close_intents(record_id)
        else:
            self._release(segment)

    @property
    def open_intents(self) -> int:
        return len(self._open)

    def open_places(self) -> tuple[frozenset[str], list[Path]]:
        """Return the ids of requests without a record, and the segments with their intents."""
        segments = {segment.n: segment.path for holders in self._open.values() for segment in holders}
        return frozenset(self._open), [segments[n] for n in sorted(segments)]

    @property
    def oldest(self) -> float:
        """Time of the earliest request in the journal (Unix seconds; infinity when it is empty)."""
        return min((segment.oldest for segment in self.segments.values()), default=math.inf)

    def rotate_if_older(self, before: float) -> None:
        """Start another segment if the current one has lines from before this time, so that it can be removed."""
        if self.current.oldest < before:
            try:
                self._rotate()
            except OSError as error:
                self._failed(error)

    def take_finished(self) -> list[Path]:
        """Return the segments that are no longer needed, for the caller to unlink off the event loop."""
        paths = [segment.path for segment in self._finished]
        self._finished.clear()
        return paths

    def probe(self) -> bool:
        """Return whether writing works again."""
        try:
            self._make_room(self._segment_bytes // 2)
        except OSError as error:
            self._failed(error)
        else:
            self.trouble = ""
        return not self.trouble

    def close(self) -> None:
        """Close the segment, and remove those without live lines, and the spares."""
        self.current.close()
        if not self.current.live:
            self._retire(self.current)
        for path in self.take_finished():
            path.unlink(missing_ok=True)
        self.spares.close()

    def _append(self, line: bytearray, value: Intent | RequestRecord, timestamp: float) -> bool:
        self._encode(value, line, 1)
        length, segment = len(line) + 1, self.current
        if segment.size + length > segment.room or self.bytes >= self.limit_bytes:
            try:
                self._make_room(length)
            except OSError as error:
                self._failed(error)
                return False
            segment = self.current
        self._last_line = start = segment.size
        segment.size = end = start + length
        last = end - 1
        segment.map[start:last] = line
        segment.map[last] = _NEWLINE
        self.bytes += length
        if timestamp < segment.oldest:
            segment.oldest = timestamp
        if self.trouble and segment.room - end >= self._segment_bytes // 2:  # else just a short line did fit
            self.trouble = ""
        return True

    def _make_room(self, length: int) -> None:
        if self.bytes >= self.limit_bytes:
            limit = f"{self.limit_bytes / 1e6:.0f} MB, as much as cost_tracking.journal_mb allows this process"
            raise OSError(errno.ENOSPC, f"its records wait for the database and fill {limit}")
        if self.current.size + length > self.current.room:
            self._rotate(length)

    def _failed(self, error: OSError) -> None:
        self.failures += 1
        self.trouble = f"the journal of {self._database} cannot be written: {error.strerror}"

    def _rotate(self, length: int = 0) -> None:
        before = self.current
        self.current = self._start_segment(before.n + 1, length)
        before.close()
        if not before.live:
            self._retire(before)

    def _start_segment(self, n: int, length: int = 0) -> Segment:
        """Start a segment with room for a line of `length` bytes."""
        segment = Segment(n, self._database.with_name(f"{self._database.name}.journal.{n}"))
        try:
            segment.open(max(self._segment_bytes, length))
        except OSError:
            spare = self.spares.take() if length <= self._segment_bytes else None
            if spare is None:
                raise
            segment.adopt(spare, self._segment_bytes)
        self.segments[n] = segment
        return segment

    def _close_intents(self, record_id: str) -> None:
        for segment in self._open.pop(record_id, ()):
            self._release(segment)

    def _release(self, segment: Segment) -> None:
        segment.live -= 1
        if not segment.live and segment is not self.current:
            self._retire(segment)

    def _retire(self, segment: Segment) -> None:
        del self.segments[segment.n]
        self.bytes -= segment.size
        self._finished.append(segment)
