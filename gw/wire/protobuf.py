"""Messages of Protocol Buffers: fields by their numbers, without a schema.

Source: protobuf.dev, "Encoding". A message is a list of fields, each a tag (number and wire type) and a value. A reader skips numbers that
it does not know; of a repeated scalar the last counts. Groups (wire types 3 and 4), which no message of today has, are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
_MOST_VARINT_BYTES: Final = 10
_MOST_NUMBER: Final = 2**29
_FLOAT: Final = struct.Struct("<f")

Value = int | bytes
"""The value of a field: a varint as a number from 0 on, everything else as its bytes."""


def varint(value: int) -> bytes:
    """Encode a number from 0 on."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number_field(number: int, value: int) -> bytes:
    """Encode an integer, a boolean or an enumeration; b"" for 0, which is the default."""
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """Encode bytes or a message, also an empty one."""
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    """Encode a text; b"" for an empty one, which is the default."""
    return bytes_field(number, value.encode()) if value else b""


def float_field(number: int, value: float) -> bytes:
    """Encode a number of 32 bits; b"" for 0, which is the default."""
    return varint(number << 3 | FIXED32) + _FLOAT.pack(value) if value else b""


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the fields in order. Raises ValueError for a malformed message."""
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < _MOST_NUMBER:
            raise ValueError("a field has an impossible number")
        if kind == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = _varint(message, at)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError("a field has an unknown type")
        if size > end - at:
            raise ValueError("a field ends behind its message")
        yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n, byte in enumerate(message[at : at + _MOST_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, at + n + 1
    raise ValueError("a number does not end")


def whole_number(value: Value) -> int:
    """Return the value of an integer field. Raises ValueError for one of another type."""
    if isinstance(value, bytes):
        raise ValueError("bytes in place of a number")
    return value


def data(value: Value) -> bytes:
    """Return the value of a field of bytes or of a message. Raises ValueError for one of another type."""
    if isinstance(value, int):
        raise ValueError("a number in place of bytes")
    return value


def text(value: Value) -> str:
    """Return the value of a text field. Raises ValueError for one of another type, and for what is not UTF-8."""
    return data(value).decode()


def float_number(value: Value) -> float:
    """Return the value of a field of 32 bits. Raises ValueError for one of another type."""
    encoded = data(value)
    if len(encoded) != 4:
        raise ValueError("not a number of 32 bits")
    number: float = _FLOAT.unpack(encoded)[0]
    return number
