"""G.711: 8-bit µ-law and A-law ↔ signed 16-bit little-endian PCM (ITU-T G.711, in the form of G.191's reference code).

Decoding uses two 256-byte tables, one for the low and one for the high byte of a sample, so `bytes.translate` does the
work. Encoding looks each sample up in a table of 65,536 codes, computed on first use: codes are runs over the magnitude, and
negative samples mirror positive ones by ones' complement.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cache, partial
from sys import byteorder


def _mulaw_sample(code: int) -> int:
    code = ~code & 0xFF
    magnitude = ((((code & 0x0F) << 3) + 132) << (code >> 4 & 7)) - 132
    return -magnitude if code & 0x80 else magnitude


def _alaw_sample(code: int) -> int:
    code ^= 0x55
    exponent, mantissa = code >> 4 & 7, code & 0x0F
    magnitude = (mantissa << 4) + 8 if exponent == 0 else ((mantissa << 4) + 264) << (exponent - 1)
    return magnitude if code & 0x80 else -magnitude


@cache
def _halves(sample_of: Callable[[int], int]) -> tuple[bytes, bytes]:
    samples = [sample_of(code) & 0xFFFF for code in range(256)]
    return bytes(s & 0xFF for s in samples), bytes(s >> 8 for s in samples)


def _decode(data: bytes, sample_of: Callable[[int], int]) -> bytes:
    low, high = _halves(sample_of)
    pcm = bytearray(2 * len(data))
    pcm[0::2] = data.translate(low)
    pcm[1::2] = data.translate(high)
    return bytes(pcm)


@cache
def _mulaw_codes() -> bytes:
    """Return codes by sample read as unsigned: 0 … 32767, then -32768 … -1."""
    positive = bytearray()
    for exponent in range(8):
        for mantissa in range(16):
            upper = ((17 + mantissa) << (exponent + 3)) - 132
            positive += bytes([~(exponent << 4 | mantissa) & 0xFF]) * (upper - len(positive))
    positive += bytes([0x80]) * (32768 - len(positive))   # beyond the largest step: clipped
    return bytes(positive) + bytes(code & 0x7F for code in reversed(positive))


@cache
def _alaw_codes() -> bytes:
    positive = bytearray()
    for exponent in range(8):
        step = 16 << max(0, exponent - 1)
        for mantissa in range(16):
            positive += bytes([(exponent << 4 | mantissa | 0x80) ^ 0x55]) * step
    return bytes(positive) + bytes(code ^ 0x80 for code in reversed(positive))


def _encode(data: bytes, codes_of: Callable[[], bytes]) -> bytes:
    samples = array("H", data)
    if byteorder == "big":
        samples.byteswap()
    return bytes(map(codes_of().__getitem__, samples))


mulaw_to_pcm16 = partial(_decode, sample_of=_mulaw_sample)
alaw_to_pcm16 = partial(_decode, sample_of=_alaw_sample)
pcm16_to_mulaw = partial(_encode, codes_of=_mulaw_codes)
pcm16_to_alaw = partial(_encode, codes_of=_alaw_codes)
"""The last two raise ValueError for an odd number of bytes."""
