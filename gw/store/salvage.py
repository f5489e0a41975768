"""Records outside of the database: in logs, where a full disk left them, and in files of the journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gw.store.journal_files import read_lines
from gw.types.usage import RequestRecord

EVENTS = frozenset(("usage_record_dropped", "usage_record_unwritable"))


class _LogLine(msgspec.Struct):
    """A line of the log. Other members are ignored."""

    event: str = ""
    record: msgspec.Raw = msgspec.Raw(b"null")


_log_line = msgspec.json.Decoder(_LogLine).decode
_record = msgspec.json.Decoder(RequestRecord, strict=False).decode


def records_in(path: Path) -> Iterator[RequestRecord | None]:
    """Yield the records of a log or of a file of the journal; None for one that cannot be read. Blocks. Raises OSError."""
    with path.open("rb") as file:
        first = file.read(1)
    if first in (b"I", b"F"):
        for _, value in read_lines(path):
            if value is None or isinstance(value, RequestRecord):
                yield value
        return
    with path.open("rb") as file:
        for line in file:
            if any(event.encode() in line for event in EVENTS):
                yield _of_log_line(line)


def _of_log_line(line: bytes) -> RequestRecord | None:
    try:
        result = _log_line(line[line.index(b"{") :])
        return _record(result.record) if result.event in EVENTS else None
    except (ValueError, RecursionError):
        return None
