"""Compressed sound decoded as it comes, for live sessions: Ogg and WebM with Opus, Opus packets, FLAC, MP3, AAC, and WAV.

    decoder = LiveDecoder(fmt)             # raises CannotConvert
    samples = decoder.feed(piece)          # 16 kHz mono; a second of speech takes about 3 ms

What it is, its first bytes tell, whatever was announced. WAV needs no library; for all else PyAV is used, which `gw[audio]`
installs. What is decoded in a recording only when it is whole (`gw.codecs.compressed`), a live session cannot wait for; so
containers are taken apart here (`gw.wire.containers.packets`) and the codec is given its packets.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, Protocol

from gw.codecs.compressed import EXTRA, library
from gw.types.audio import PCM_16K, AudioFormat, Encoding
from gw.wire import convert, wav
from gw.wire.containers.packets import MatroskaPackets, NoPackets, OggPackets, Packets
from gw.wire.convert import CannotConvert

_HEAD_BYTES = 12
"""Enough to tell one container from another."""
_DECODED: frozenset[Encoding] = frozenset({"opus", "ogg", "webm", "flac", "mp3", "aac", "wav", "unknown"})
_FLAC_HEAD = 42
"""`fLaC`, the head of the first block, and STREAMINFO."""
_FEWEST_BAD = 10
"""Packets in a row that cannot be decoded: then this is no such sound."""


def require(fmt: AudioFormat) -> None:
    """Raises CannotConvert where a stream of this kind cannot be decoded as it comes, for want of the library or at all."""
    if fmt.encoding not in _DECODED:
        raise CannotConvert(f"{fmt.encoding} cannot be decoded as it comes")
    if fmt.encoding not in ("wav", "unknown") and find_spec("av") is None:
        raise CannotConvert(f"{fmt.encoding} cannot be decoded", EXTRA)


class _Samples(Protocol):
    def feed(self, data: bytes) -> bytes: ...

    def end(self) -> bytes: ...


class LiveDecoder:
    """Pieces of a container in, 16-bit samples at 16 kHz out. Where a stream of bare Opus packets was announced, a piece is
    a packet."""

    def __init__(self, fmt: AudioFormat) -> None:
        require(fmt)
        self._told = fmt
        self._held: list[bytes] | None = []
        """Pieces that came before it was known what they are."""
        self._samples: _Samples | None = None

    def feed(self, data: bytes) -> bytes:
        """Raises CannotConvert, naming the extra where that would help."""
        if self._samples is not None:
            return self._samples.feed(data)
        if self._held is None:
            raise CannotConvert("what came before cannot be decoded")
        self._held.append(data)
        if sum(map(len, self._held)) < _HEAD_BYTES and self._told.encoding != "opus":
            return b""
        held, self._held = self._held, None
        self._samples = self._begun(b"".join(held)[:_HEAD_BYTES])
        return b"".join(map(self._samples.feed, held))

    def end(self) -> bytes:
        """What is left. Raises as `feed` does."""
        return self._samples.end() if self._samples is not None else b""

    def _begun(self, head: bytes) -> _Samples:
        encoding = _kind_of(head, self._told.encoding)
        if encoding == "wav":
            told = AudioFormat(encoding="wav", sample_rate_hz=self._told.sample_rate_hz or PCM_16K.sample_rate_hz)
            made = convert.converter(told, PCM_16K)
            assert made is not None
            return made
        if encoding not in _DECODED or encoding == "unknown":
            raise CannotConvert("this is no sound that can be decoded as it comes")
        av = library(f"{encoding} cannot be decoded")
        match encoding:
            case "ogg":
                return _Contained(av, OggPackets())
            case "webm":
                return _Contained(av, MatroskaPackets())
            case "opus":
                return _Codec(av, "opus", b"")
            case "flac":
                return _Flac(av)
        return _Parsed(av, encoding)


def _kind_of(head: bytes, told: Encoding) -> Encoding:
    if head.startswith(b"RIFF"):
        return "wav"
    if told == "opus" and not head.startswith((b"OggS", b"\x1a\x45\xdf\xa3")):
        return told    # a packet may begin as anything else does
    found, _ = wav.sniff(head, len(head), "")
    return found.encoding if found is not None else told


class _Codec:
    """Packets to samples. One that cannot be decoded is left out; when none can, this is no such sound."""

    def __init__(self, av: Any, name: str, head: bytes) -> None:
        self._av = av
        self._name = name
        self._codec = av.CodecContext.create(name, "r")
        if head:
            self._codec.extradata = head
        if name == "opus":
            self._codec.sample_rate = 48_000
            self._codec.layout = "stereo" if len(head) > 9 and head[9] == 2 else "mono"
        self._resampler = av.AudioResampler(format="s16", layout="mono", rate=PCM_16K.sample_rate_hz)
        self._bad = 0
        self._sounded = False

    def feed(self, data: bytes) -> bytes:
        """One packet."""
        return self.decoded(self._av.Packet(data)) if data else b""

    def end(self) -> bytes:
        """What the codec and the resampler still hold."""
        made = self.decoded(None)
        return made + _joined(self._resampler.resample(None)) if self._sounded else made

    def decoded(self, packet: Any) -> bytes:
        try:
            frames = [made for frame in self._codec.decode(packet) for made in self._resampler.resample(frame)]
        except (self._av.FFmpegError, ValueError):
            self._bad += 1
            if self._bad >= _FEWEST_BAD:
                raise CannotConvert(f"this is no {self._name}") from None
            return b""
        self._bad = 0
        self._sounded = self._sounded or bool(frames)
        return _joined(frames)

    def parsed(self, data: bytes) -> bytes:
        """Packets that follow one another without a container."""
        return b"".join(self.decoded(packet) for packet in self._codec.parse(data)) if data else b""

    def parsed_to_the_end(self) -> bytes:
        """Those the parser still holds, of which it gives one at a time."""
        made = b""
        while packets := self._codec.parse(b""):
            made += b"".join(map(self.decoded, packets))
        return made + self.end()


def _joined(frames: Iterable[Any]) -> bytes:
    return b"".join(bytes(frame.planes[0])[: frame.samples * 2] for frame in frames)


class _Contained:
    def __init__(self, av: Any, packets: Packets) -> None:
        self._av = av
        self._packets = packets
        self._codec: _Codec | None = None

    def feed(self, data: bytes) -> bytes:
        try:
            packets = self._packets.feed(data)
        except NoPackets as error:
            raise CannotConvert(str(error)) from None
        if not packets:
            return b""
        if self._codec is None:
            self._codec = _Codec(self._av, self._packets.codec, self._packets.head)
        return b"".join(map(self._codec.feed, packets))

    def end(self) -> bytes:
        return self._codec.end() if self._codec is not None else b""


class _Parsed:
    def __init__(self, av: Any, name: str) -> None:
        self._codec = _Codec(av, name, b"")

    def feed(self, data: bytes) -> bytes:
        return self._codec.parsed(data)

    def end(self) -> bytes:
        return self._codec.parsed_to_the_end()


class _Flac:
    """Frames after a head, which the codec is told beforehand. Where one ends is known when some more have come: up to two seconds
    of sound are held."""

    def __init__(self, av: Any) -> None:
        self._av = av
        self._head = b""
        self._codec: _Codec | None = None

    def feed(self, data: bytes) -> bytes:
        if self._codec is None:
            self._head += data
            if len(self._head) < _FLAC_HEAD:
                return b""
            self._codec = _Codec(self._av, "flac", self._head[8:_FLAC_HEAD])
            data = self._head[_FLAC_HEAD:]
        return self._codec.parsed(data)

    def end(self) -> bytes:
        return self._codec.parsed_to_the_end() if self._codec is not None else b""
