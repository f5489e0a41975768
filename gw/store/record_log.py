"""The store's log lines, and what becomes of a record that can be stored nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
import structlog

from gw.store import requests
from gw.store.record_lines import decode_line
from gw.types.usage import RequestRecord

log = structlog.get_logger()


def log_safely(level: Callable[..., object], event: str, **fields: object) -> None:
    """Log, ignoring a log on the disk that is full."""
    with suppress(OSError):
        level(event, **fields)


def log_unwritable(record: RequestRecord, why: str) -> None:
    """Log all of a record that the database does not accept."""
    content = requests.clean(msgspec.to_builtins(record))
    log_safely(log.error, "usage_record_unwritable", id=record.id, why=why, record=content)


def log_unwritable_line(line: bytes, why: str) -> None:
    """Do as `log_unwritable`, from the record's line of the journal."""
    if isinstance(record := decode_line(line), RequestRecord):
        log_unwritable(record, why)
    else:
        log_safely(log.error, "usage_record_unwritable", why=why, line=line.decode(errors="replace"))
