"""Cyclic redundancy check of 8 bits with polynomial x^8+x^2+x+1 (0x07), one table look-up per byte."""

from __future__ import annotations


def crc8(data: bytes | bytearray, crc: int = 0xFF) -> int:
    """Return the check of `data`, starting from `crc`."""
    for byte in data:
        crc = _TABLE[crc ^ byte]
    return crc


def _entry(crc: int) -> int:
    for _ in range(8):
        crc = (crc << 1 ^ 0x07 if crc & 0x80 else crc << 1) & 0xFF
    return crc


_TABLE = tuple(map(_entry, range(256)))
