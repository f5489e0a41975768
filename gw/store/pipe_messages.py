"""Messages between the gateway and its processes for reports and for writing: a length (4 bytes, little-endian) and a pickle.

Both ends are ours, of one version, and the pipe is private.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any, BinaryIO

LENGTH = struct.Struct("<I")


def framed(message: object) -> bytes:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


def read_message(source: BinaryIO) -> Any:
    """Return the next message; None at the end. Blocks."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    data = source.read(size)
    return pickle.loads(data) if len(data) == size else None


def take_message(buffer: bytearray) -> Any:
    """Remove the first message from the buffer and return it; None until it is complete."""
    if len(buffer) < LENGTH.size:
        return None
    end = LENGTH.size + LENGTH.unpack_from(buffer)[0]
    if len(buffer) < end:
        return None
    message = pickle.loads(memoryview(buffer)[LENGTH.size : end])
    del buffer[:end]
    return message
