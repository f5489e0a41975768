"""The packets of compressed sound in a container that is still being written: Ogg (RFC 3533) and WebM (RFC 9559).

Bytes in, packets out, for one sound track; what is no sound is passed over. `codec` and `head`, what a decoder must be told
before its first packet, are known once a packet has come out. Nothing is held but the piece of the container at hand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

_MOST_BYTES: Final = 2**20
"""A page or a block of sound is kilobytes; what is longer is none."""
_OPUS_TAGS = b"OpusTags"
_OGG_FLAC_HEAD = 13
"""Bytes before STREAMINFO in the first packet of FLAC in Ogg (RFC 9639 §10.1), its own head of four left out."""


class NoPackets(ValueError):
    """This is no such container, or none with sound in it that is read here."""


class Packets(ABC):
    def __init__(self) -> None:
        self.codec = ""
        """`opus` or `flac`."""
        self.head = b""
        self._held = bytearray()
        self._skip = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Raises NoPackets."""
        held = self._held
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        held += memoryview(data)[skipped:]
        packets: list[bytes] = []
        at = 0
        while at < len(held):
            step = self._take(held, at, packets)
            if step == 0:
                break
            at += step
        self._skip += max(0, at - len(held))
        del held[:at]
        if len(held) > _MOST_BYTES:
            raise NoPackets("a piece of it is too long")
        return packets

    @abstractmethod
    def _take(self, data: bytearray, at: int, packets: list[bytes]) -> int:
        """Look at `data` from `at`: how many bytes are done with (may be more than there are); 0 = more must come."""


class OggPackets(Packets):
    def __init__(self) -> None:
        super().__init__()
        self._serial: bytes | None = None
        self._part = b""
        """Of a packet that goes on in the next page."""

    def _take(self, data: bytearray, at: int, packets: list[bytes]) -> int:
        if data[at : at + 4] != b"OggS"[: len(data) - at]:
            raise NoPackets("this is no Ogg")
        if len(data) - at < 27:
            return 0
        begins = at + 27 + data[at + 26]
        sizes = data[at + 27 : begins]
        size = sum(sizes)
        if len(data) < begins + size:
            return 0
        serial = bytes(data[at + 14 : at + 18])
        if data[at + 5] & 2 and self._opens(bytes(data[begins : begins + size])):
            self._serial, self._part = serial, b""
        elif serial == self._serial:
            self._page(data, begins, sizes, packets)
        return begins + size - at

    def _opens(self, head: bytes) -> bool:
        """Whether a page begins a stream we read; it holds the first packet alone."""
        if head.startswith(b"OpusHead"):
            self.codec, self.head = "opus", head
        elif head.startswith(b"\x7fFLAC") and len(head) >= _OGG_FLAC_HEAD + 38:
            self.codec, self.head = "flac", head[_OGG_FLAC_HEAD + 4 : _OGG_FLAC_HEAD + 38]
        elif head.startswith((b"\x01vorbis", b"Speex   ")):
            raise NoPackets("Ogg with another codec than Opus or FLAC is not decoded as it comes")
        else:
            return False
        return True

    def _page(self, data: bytearray, at: int, sizes: bytearray, packets: list[bytes]) -> None:
        length = 0
        for size in sizes:
            length += size
            if size < 255:
                packet = self._part + bytes(data[at : at + length])
                self._part = b""
                if self._is_sound(packet):
                    packets.append(packet)
                at += length
                length = 0
        if length:
            self._part += bytes(data[at : at + length])
            if len(self._part) > _MOST_BYTES:
                raise NoPackets("a packet is too long")

    def _is_sound(self, packet: bytes) -> bool:
        if self.codec == "flac":
            return packet[:1] == b"\xff"    # else a block of metadata
        return bool(packet) and not packet.startswith(_OPUS_TAGS)


class _Id:
    EBML, SEGMENT, TRACKS, ENTRY = 0x1A45DFA3, 0x18538067, 0x1654AE6B, 0xAE
    NUMBER, CODEC, PRIVATE = 0xD7, 0x86, 0x63A2
    CLUSTER, BLOCK_GROUP, BLOCK, SIMPLE_BLOCK = 0x1F43B675, 0xA0, 0xA1, 0xA3


_ENTERED = frozenset({_Id.SEGMENT, _Id.TRACKS, _Id.ENTRY, _Id.CLUSTER, _Id.BLOCK_GROUP})
_READ = frozenset({_Id.NUMBER, _Id.CODEC, _Id.PRIVATE, _Id.BLOCK, _Id.SIMPLE_BLOCK})
_LACED = 0x06


class MatroskaPackets(Packets):
    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        self._number = 0
        """Of the track whose entry is being read; of the one that is heard: `_track`."""
        self._track: int | None = None

    def _take(self, data: bytearray, at: int, packets: list[bytes]) -> int:
        element = _element(data, at)
        if element is None:
            return 0
        name, begins, size = element
        if not self._begun and name != _Id.EBML:
            raise NoPackets("this is no WebM")
        self._begun = True
        if name in _ENTERED:
            return begins - at
        if size is None:
            raise NoPackets("an element has no end")
        if name in _READ:
            if size > _MOST_BYTES:
                raise NoPackets("a block is too long")
            if len(data) < begins + size:
                return 0
            self._read(name, bytes(data[begins : begins + size]), packets)
        return begins - at + size

    def _read(self, name: int, content: bytes, packets: list[bytes]) -> None:
        match name:
            case _Id.NUMBER:
                self._number = int.from_bytes(content[:8], "big")
            case _Id.CODEC if self._track is None:
                if content.startswith(b"A_"):
                    if content.rstrip(b"\0") != b"A_OPUS":
                        raise NoPackets("WebM with another codec than Opus is not decoded as it comes")
                    self.codec, self._track = "opus", self._number
            case _Id.PRIVATE if self._number == self._track and not self.head:
                self.head = content
            case _Id.BLOCK | _Id.SIMPLE_BLOCK:
                self._block(content, packets)

    def _block(self, content: bytes, packets: list[bytes]) -> None:
        width = _width(content[0]) if content else 0
        if not width or len(content) < width + 3:
            raise NoPackets("a block has no head")
        number = int.from_bytes(content[:width], "big") & ((1 << 7 * width) - 1)
        if number != self._track or len(content) == width + 3:
            return
        if content[width + 2] & _LACED:
            raise NoPackets("frames in groups are not read")
        packets.append(content[width + 3 :])


def _element(data: bytearray, at: int) -> tuple[int, int, int | None] | None:
    """Name, where its content begins, and its size (None where it is not told); None where more must come."""
    if len(data) - at < 2:
        return None
    id_width = _width(data[at])
    if not 0 < id_width <= 4:
        raise NoPackets("this is no WebM")
    if len(data) <= at + id_width:
        return None
    size_width = _width(data[at + id_width])
    if not size_width:
        raise NoPackets("this is no WebM")
    begins = at + id_width + size_width
    if len(data) < begins:
        return None
    whole = (1 << 7 * size_width) - 1
    size = int.from_bytes(data[at + id_width : begins], "big") & whole
    return int.from_bytes(data[at : at + id_width], "big"), begins, None if size == whole else size


def _width(first: int) -> int:
    """Bytes of a number by its first; 0 for what is none."""
    return 9 - first.bit_length() if first else 0
