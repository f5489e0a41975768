"""A disk that loses what was not synced: the files of SQLite as a power cut leaves them.

While `Disk` is SQLite's default VFS, it keeps of each file what is on the platter since the last sync, and the writes after that. A cut
takes the synced state and any of those writes, sector by sector, in any combination: a disk may write them in any order.
SQLite's own test suite does the same (test6.c, "crash test VFS"; https://www.sqlite.org/testing.html, section 3.3).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512


class _Content:
    def __init__(self) -> None:
        self.synced = bytearray()
        self.later: list[tuple[int, bytes] | int] = []
        """Writes (offset and data) and truncations (size) since then, in order."""

    def apply(self, op: tuple[int, bytes] | int) -> None:
        _apply(self.synced, op)


def _apply(image: bytearray, op: tuple[int, bytes] | int) -> None:
    if isinstance(op, int):
        del image[op:]
        return
    offset, data = op
    image.extend(bytes(max(0, offset + len(data) - len(image))))
    image[offset : offset + len(data)] = data


class Disk(apsw.VFS):
    """`on_write` is called before each write and sync, in SQLite's thread, with the file's name, and `-sync` behind it for a sync.
    What it raises is the outcome."""

    def __init__(self, on_write: Callable[[str], None]) -> None:
        self.files: dict[str, _Content] = {}
        self.on_write = on_write
        super().__init__("losing", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:
        self.files.pop(name, None)
        super().xDelete(name, syncdir)

    def cut(self, folder: Path, chance: random.Random) -> None:
        """Write into `folder` what the disk holds after a power cut now."""
        for name, content in self.files.items():
            image = bytearray(content.synced)
            kept = chance.choice((0.0, 0.5, 0.9, 1.0))
            for op in content.later:
                if isinstance(op, int):
                    if chance.random() < kept:
                        _apply(image, op)
                    continue
                offset, data = op
                for start in range(0, len(data), SECTOR):
                    if chance.random() < kept:
                        _apply(image, (offset + start, data[start : start + SECTOR]))
            (folder / Path(name).name).write_bytes(image)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = str(path or "")
        if self._name and self._name not in disk.files:
            content = disk.files[self._name] = _Content()
            content.synced[:] = Path(self._name).read_bytes() if Path(self._name).exists() else b""
        self._content = disk.files.get(self._name) or _Content()

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.on_write(self._name)
        super().xWrite(data, offset)
        self._content.later.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._content.later.append(newsize)

    def xSync(self, flags: int) -> None:
        self._disk.on_write(f"{self._name}-sync")
        super().xSync(flags)
        for op in self._content.later:
            self._content.apply(op)
        self._content.later.clear()
