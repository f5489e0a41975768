"""Audio files written by hand, with silence or rubbish for sound: just the structure that tells a length."""

from __future__ import annotations

import struct

OPUS_20_MS = bytes([0x78])
"""A packet's first byte: CELT, 20 ms, one frame."""


def mp3_frame(*, kbit_index: int = 9, rate_index: int = 0, version: int = 3, layer: int = 1, body: bytes = b"") -> bytes:
    """At the defaults 128 kbit/s, 44.1 kHz, 417 bytes, 1152 samples."""
    sizes = {(3, 1, 9, 0): 417, (2, 1, 4, 1): 96, (3, 3, 4, 1): 128}
    head = bytes([0xFF, 0xE0 | version << 3 | layer << 1 | 1, kbit_index << 4 | rate_index << 2, 0xC0])
    return (head + body).ljust(sizes[version, layer, kbit_index, rate_index], b"\0")


def id3(size: int) -> bytes:
    return b"ID3\4\0\0" + bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0)) + bytes([0xFF, 0xFB, 0x90]) + bytes(size - 3)


def adts_frame(*, rate_index: int = 6, size: int = 200, blocks: int = 1) -> bytes:
    """At the defaults 24 kHz, 1024 samples."""
    head = bytes([0xFF, 0xF1, 1 << 6 | rate_index << 2, size >> 11 & 3, size >> 3 & 0xFF, (size & 7) << 5, blocks - 1])
    return head + bytes(size - 7)


def ogg_page(serial: int, granule: int, packets: list[bytes], *, first: bool = False) -> bytes:
    lacing = b"".join(b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    head = struct.pack("<4sBBQIIIB", b"OggS", 0, 2 if first else 0, granule % 2**64, serial, 0, 0, len(lacing))
    return head + lacing + b"".join(packets)


def ogg_opus(seconds: float, *, pre_skip: int = 312, begins: int = 0, serial: int = 7) -> bytes:
    """Pages of 25 packets of 20 ms; the last position cuts off what is too much."""
    head = b"OpusHead\1\1" + struct.pack("<HIHB", pre_skip, 48_000, 0, 0)
    pages = [ogg_page(serial, 0, [head], first=True), ogg_page(serial, 0, [b"OpusTags" + bytes(8)])]
    total = begins + pre_skip + round(seconds * 48_000)
    at = begins
    while at < total:
        at += 25 * 960
        pages.append(ogg_page(serial, min(at, total), [OPUS_20_MS + bytes(60)] * 25))
    return b"".join(pages)


def ogg_vorbis(seconds: float, *, rate: int = 22_050) -> bytes:
    head = b"\1vorbis" + struct.pack("<IBI", 0, 1, rate) + bytes(14)
    pages = [ogg_page(3, 0, [head], first=True), ogg_page(3, 0, [b"\3vorbis" + bytes(30)])]
    pages += [ogg_page(3, -1, [bytes(254)]), ogg_page(3, round(seconds * rate), [bytes(500)])]
    return b"".join(pages)


def flac(seconds: float, *, rate: int = 16_000, block: int = 4_096, declared: bool = True) -> bytes:
    """STREAMINFO with or without a total, a block of tags, and frames with true heads."""
    total = round(seconds * rate)
    facts = rate << 44 | 15 << 36 | (total if declared else 0)
    info = struct.pack(">HH", block, block) + bytes(6) + facts.to_bytes(8, "big") + bytes(16)
    tags = bytes([0x84]) + (70_000).to_bytes(3, "big") + b"\xff\xf8" * 35_000
    return b"fLaC\0" + (34).to_bytes(3, "big") + info + tags + b"".join(_flac_frames(total, block))


def _flac_frames(total: int, block: int) -> list[bytes]:
    frames = []
    for number in range(-(-total // block)):
        samples = min(block, total - number * block)
        coded = chr(number).encode()
        head = bytes([0xFF, 0xF8, 0x70, 0x08]) + coded + (samples - 1).to_bytes(2, "big")
        frames.append(head + bytes([_crc8(head)]) + bytes(40))
    return frames


def _crc8(data: bytes) -> int:
    remainder = int.from_bytes(data, "big") << 8
    for bit in range(remainder.bit_length() - 1, 7, -1):
        if remainder >> bit & 1:
            remainder ^= 0x107 << (bit - 8)
    return remainder


def element(name: int, content: bytes, *, size: int | None = None) -> bytes:
    """`size` -1 = unknown."""
    length = len(content) if size is None else size
    size = b"\x01" + b"\xff" * 7 if length < 0 else (length | 1 << 28).to_bytes(4, "big")
    return name.to_bytes(-(-name.bit_length() // 8), "big") + size + content


def webm(seconds: float, *, declared: bool, live: bool = False, step_ms: int = 20, scale: int = 1_000_000) -> bytes:
    """Clusters of a second. `live`: as a browser records, sizes of segment and clusters unknown."""
    unknown = -1 if live else None
    duration = element(0x4489, struct.pack(">d", seconds * 1e9 / scale)) if declared else b""
    info = element(0x1549A966, element(0x2AD7B1, scale.to_bytes(3, "big")) + duration)
    blocks = [
        [element(0xA3, b"\x81" + (ms % 1_000).to_bytes(2, "big") + b"\x80" + bytes(50)) for ms in range(at, end, step_ms)]
        for at in range(0, round(seconds * 1_000), 1_000)
        for end in [min(at + 1_000, round(seconds * 1_000))]
    ]
    clusters = b"".join(
        element(0x1F43B675, element(0xE7, (n * 1_000).to_bytes(4, "big")) + b"".join(within), size=unknown)
        for n, within in enumerate(blocks)
    )
    tracks = element(0x1654AE6B, bytes(80))
    body = info + tracks + element(0xEC, bytes(100_000)) + clusters
    return element(0x1A45DFA3, element(0x4282, b"webm")) + element(0x18538067, body, size=unknown)


def box(name: bytes, content: bytes, *, large: bool = False) -> bytes:
    if large:
        return struct.pack(">I4sQ", 1, name, len(content) + 16) + content
    return struct.pack(">I4s", len(content) + 8, name) + content


_FTYP = box(b"ftyp", b"M4A \0\0\0\0")


def _movie(scale: int, length: int, track: bytes, *, version: int = 0, more: bytes = b"") -> bytes:
    wide = struct.pack(">B3xQQIQ", 1, 0, 0, scale, length)
    head = wide if version else struct.pack(">B3xIIII", 0, 0, 0, scale, length)
    return box(b"moov", box(b"mvhd", head + bytes(80)) + track + more)


def _track(scale: int, kind: bytes = b"soun", number: int = 1) -> bytes:
    media = box(b"mdhd", struct.pack(">IIIII", 0, 0, 0, scale, 0) + bytes(4)) + box(b"hdlr", bytes(8) + kind + bytes(12))
    return box(b"trak", box(b"tkhd", struct.pack(">IIII", 0, 0, 0, number) + bytes(60)) + box(b"mdia", media))


def m4a(seconds: float, *, at_end: bool = False, version: int = 0, large: bool = False) -> bytes:
    movie = _movie(1_000, round(seconds * 1_000), _track(44_100), version=version)
    sound = box(b"mdat", b"moov" * 50_000, large=large)
    return _FTYP + (sound + movie if at_end else movie + sound)


def fragmented_m4a(fragments: int, *, samples: int = 50, each: int = 1_024, listed: bool = False, rate: int = 44_100) -> bytes:
    """Beside the sound a track of something else, which is longer and does not count."""
    extends = box(b"mvex", box(b"trex", struct.pack(">IIIIII", 0, 1, 1, each, 0, 0)))
    tracks = _track(rate) + _track(1, b"text", 2)
    parts = []
    for _ in range(fragments):
        head = struct.pack(">II", 0 if not listed else 0x20000, 1)
        sizes = b"".join(struct.pack(">II", each, 9) for _ in range(samples)) if listed else b""
        run = struct.pack(">III", 0x301 if listed else 1, samples, 0) + sizes
        text = box(b"traf", box(b"tfhd", struct.pack(">III", 8, 2, 1_000)) + box(b"trun", struct.pack(">II", 0, 9)))
        parts.append(box(b"moof", box(b"traf", box(b"tfhd", head) + box(b"trun", run)) + text) + box(b"mdat", bytes(3_000)))
    return _FTYP + _movie(1_000, 0, tracks, more=extends) + b"".join(parts)
