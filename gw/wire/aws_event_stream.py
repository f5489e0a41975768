"""Amazon's event stream encoding (`application/vnd.amazon.eventstream`): one message, of headers and a payload.

    total length  header length  CRC of these two  headers  payload  CRC of all before
    4 bytes       4 bytes        4 bytes                             4 bytes

All numbers are big-endian, both CRCs CRC-32. A header has the length of its name (1 byte), the name, the type of its value (1 byte) and
the value; a text's (type 7) has its length before it (2 bytes).

Source: amazon-transcribe 0.6.4 and botocore 1.43.117, `eventstream.py` of both, which a test compares with this. Over a WebSocket,
a binary frame has exactly one message (the vendor's page "Setting up a WebSocket stream").
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from zlib import crc32

import msgspec

_PRELUDE = Struct(">III")
_LENGTHS = Struct(">II")
_CRC = Struct(">I")
_LENGTH = Struct(">H")
_OVERHEAD = _PRELUDE.size + _CRC.size
_BYTES, _TEXT = 6, 7
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Type of a value → its length: booleans, integers, a time, a UUID."""


class EventMessage(msgspec.Struct, frozen=True, gc=False):
    """A message. `headers`: those whose values are text."""

    headers: Mapping[str, str]
    payload: bytes


def encode_headers(headers: Mapping[str, str]) -> bytes:
    encoded = bytearray()
    for name, value in headers.items():
        name_bytes, value_bytes = name.encode(), value.encode()
        encoded += bytes((len(name_bytes),)) + name_bytes + bytes((_TEXT,)) + _LENGTH.pack(len(value_bytes)) + value_bytes
    return bytes(encoded)


def encode_message(headers: bytes, payload: bytes) -> bytes:
    """Return a message with the encoded `headers`."""
    lengths = _LENGTHS.pack(len(headers) + len(payload) + _OVERHEAD, len(headers))
    message = b"".join((lengths, _CRC.pack(crc32(lengths)), headers, payload))
    return message + _CRC.pack(crc32(message))


def decode_message(frame: bytes) -> EventMessage:
    """Decode one complete message. Raises ValueError for anything else."""
    if len(frame) < _OVERHEAD:
        raise ValueError("the message is too short")
    total, headers_length, crc = _PRELUDE.unpack_from(frame)
    if crc != crc32(frame[: _LENGTHS.size]):
        raise ValueError("the CRC of the lengths is wrong")
    if total != len(frame) or headers_length > total - _OVERHEAD:
        raise ValueError("the lengths are wrong")
    if _CRC.unpack_from(frame, total - _CRC.size)[0] != crc32(frame[: -_CRC.size]):
        raise ValueError("the CRC is wrong")
    end = _PRELUDE.size + headers_length
    return EventMessage(_decode_headers(frame[_PRELUDE.size : end]), frame[end : -_CRC.size])


def _decode_headers(data: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        name, kind, at = data[at + 1 : name_end], data[name_end] if name_end < len(data) else -1, name_end + 1
        if kind in (_BYTES, _TEXT):
            if at + _LENGTH.size > len(data):
                raise ValueError("a header is cut off")
            length, at = _LENGTH.unpack_from(data, at)[0], at + _LENGTH.size
        elif (length := _FIXED.get(kind, -1)) < 0:
            raise ValueError("the type of a header is unknown")
        if at + length > len(data):
            raise ValueError("a header is cut off")
        if kind == _TEXT:
            headers[name.decode()] = data[at : at + length].decode()
        at += length
    return headers
