"""Lines of the journal: a tag and a JSON value, `I` an Intent, `F` a RequestRecord. Here without the newline that ends each."""

from __future__ import annotations

import msgspec

from gw.types.usage import Intent, RequestRecord

INTENT, RECORD = b"IF"

_encode_record = msgspec.json.Encoder().encode_into
_record_decoder = msgspec.json.Decoder(RequestRecord)
_intent_decoder = msgspec.json.Decoder(Intent)


class _Named(msgspec.Struct):
    id: str


_named_decoder = msgspec.json.Decoder(_Named)


def encode_record(record: RequestRecord) -> bytes:
    """Return the line of a finished record. Raises ValueError for text or a number that no line can hold."""
    line = bytearray([RECORD])
    _encode_record(record, line, 1)
    return bytes(line)


def decode_record(line: bytes) -> RequestRecord:
    """Return the record of a line that begins with RECORD. Raises ValueError, RecursionError."""
    return _record_decoder.decode(line[1:])  # a copy of about 1 kB takes less time than a view


def record_id(line: bytes) -> str:
    """Return the id of a record's line, without decoding the remainder. Raises ValueError, RecursionError."""
    return _named_decoder.decode(memoryview(line)[1:]).id


def decode_line(line: bytes) -> Intent | RequestRecord | None:
    """Return the value of a line; None for one that cannot be read."""
    try:
        if line[0] == RECORD:
            return decode_record(line)
        if line[0] == INTENT:
            return _intent_decoder.decode(memoryview(line)[1:])
    except (ValueError, RecursionError, IndexError):  # invalid JSON or UTF-8, or another kind of line
        pass
    return None
