"""Values that a line of the journal can carry, and what takes the place of others."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gw.store import requests
from gw.store.record_lines import encode_record
from gw.types.usage import Intent, RequestRecord, Usage

Line = TypeVar("Line", Intent, RequestRecord)


def is_encodable(usage: Usage) -> bool:
    """Return False for an infinite `audio_seconds`: JSON would have null, and the line could not be read back."""
    return 0 <= usage.audio_seconds <= requests.LARGEST


def line_of(record: RequestRecord) -> bytes:
    """Return a record's line for the journal, with what no line can hold replaced."""
    try:
        return encode_record(record if is_encodable(record.usage) else scrubbed(record))
    except ValueError:
        return encode_record(scrubbed(record))


def scrubbed(line: Line) -> Line:
    """Replace what a line cannot carry: lone surrogates from a client's header, infinity, endless numbers."""
    return msgspec.convert(requests.clean(msgspec.to_builtins(line)), type(line))
