"""Brings every journal that belongs to a database into it when it is opened, and notes what was in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import attrs
import structlog

from gw.errors import StoreUnavailable
from gw.store import worker_journals
from gw.store.disk import why
from gw.store.record_lines import encode_record
from gw.store.recovery import Replayed, WritePossible, replay
from gw.store.writer import QUEUED, OnCommitted
from gw.types.usage import RequestRecord

log = structlog.get_logger()


def replayed_lines(on_committed: OnCommitted | None) -> deque[bytes]:
    """Return where to note the lines of replayed records: the newest ones, or none where nobody takes them."""
    return deque(maxlen=0 if on_committed is None else QUEUED)


def replayed_from(path: Path, write: WritePossible) -> Replayed:
    """Bring the journal, and those that workers have left, into a database; log how much there was."""
    replayed = replay(write, path)
    try:
        for journal in worker_journals.end_writers(path):
            replayed += replay(write, journal)
            worker_journals.remove(journal)
    except OSError as error:
        raise StoreUnavailable(what=f"cannot take over the journals of worker processes: {why(error, path)}") from error
    if replayed != Replayed():
        log.warning("usage_journal_replayed", **attrs.asdict(replayed))
    return replayed


def noting(write: WritePossible, lines: deque[bytes]) -> WritePossible:
    """Return `write`, which adds the lines of the records that it was given to `lines`, if that takes any."""
    if lines.maxlen == 0:
        return write

    def write_and_note(records: Sequence[RequestRecord]) -> tuple[int, list[tuple[RequestRecord, Exception]]]:
        written = write(records)
        lines.extend(map(encode_record, records))
        return written

    return write_and_note
