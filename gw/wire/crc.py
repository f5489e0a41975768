"""Cyclic redundancy checks of 8 and 16 bits, one table look-up per byte."""

from __future__ import annotations


def crc8(data: bytes | bytearray, crc: int = 0xFF) -> int:
    """Return the CRC with polynomial x^8+x^2+x+1 (0x07), starting from `crc`."""
    for byte in data:
        crc = _CRC8[crc ^ byte]
    return crc


def crc16(data: bytes) -> int:
    """Return the CRC with CCITT's polynomial x^16+x^12+x^5+1 (0x1021), from 0xFFFF: "CRC-16/IBM-3740" in the CRC catalogue."""
    crc = 0xFFFF
    for byte in data:
        crc = (crc << 8 & 0xFFFF) ^ _CRC16[crc >> 8 ^ byte]
    return crc


def _table(polynomial: int, bits: int) -> tuple[int, ...]:
    table = []
    top, mask = 1 << (bits - 1), (1 << bits) - 1
    for byte in range(256):
        crc = byte << (bits - 8)
        for _ in range(8):
            crc = (crc << 1 ^ polynomial if crc & top else crc << 1) & mask
        table.append(crc)
    return tuple(table)


_CRC8 = _table(0x07, 8)
_CRC16 = _table(0x1021, 16)
