"""Decoding of compressed audio as it comes, for live sessions: Ogg and WebM with Opus, Opus packets, FLAC, MP3, AAC, and WAV.

    decoder = LiveDecoder(fmt)             # raises CannotConvert
    samples = decoder.feed(piece)          # 16 kHz mono; a second of speech takes about 3 ms

The first bytes determine the format, whatever was announced. WAV needs no library; all else uses PyAV, which the extra `audio`
installs. `gw.codecs.compressed` decodes some containers only once they are complete; a live session cannot wait, so its
containers are read by `gw.wire.containers`, and the codec gets their packets.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from gw.codecs.compressed import EXTRA, FrameResampler, library
from gw.types.audio import PCM_16K, AudioFormat, Encoding
from gw.wire import convert, wav
from gw.wire.containers.matroska import MatroskaPackets
from gw.wire.containers.ogg import OggPackets
from gw.wire.containers.walk import NoPackets, PacketReader
from gw.wire.convert import CannotConvert, Converter

_HEAD_BYTES = 12  # enough to recognise a container
_ENCODINGS: frozenset[Encoding] = frozenset({"opus", "ogg", "webm", "flac", "mp3", "aac", "wav", "unknown"})
_FLAC_HEAD_BYTES = 42  # `fLaC`, the head of the first block, and STREAMINFO
_MAX_BAD_PACKETS = 10  # packets in a row that cannot be decoded; then this is another codec


def require(fmt: AudioFormat) -> None:
    """Raise CannotConvert if streams of this format cannot be decoded, for lack of the library or at all."""
    if fmt.encoding not in _ENCODINGS:
        raise CannotConvert(f"{fmt.encoding} cannot be decoded as it comes")
    if fmt.encoding not in ("wav", "unknown") and find_spec("av") is None:
        raise CannotConvert(f"{fmt.encoding} cannot be decoded", EXTRA)


class LiveDecoder:
    """Pieces of a container in, 16-bit samples at 16 kHz out. If Opus without a container was announced, a piece is a packet."""

    def __init__(self, fmt: AudioFormat) -> None:
        require(fmt)
        self._announced = fmt
        self._pending: list[bytes] | None = []  # pieces that came before the format was recognised
        self._decoder: Converter | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the samples in `data`. Raises CannotConvert, naming the extra if that would help."""
        if self._decoder is not None:
            return self._decoder.feed(data)
        if self._pending is None:
            raise CannotConvert("the audio before cannot be decoded")
        self._pending.append(data)
        if sum(map(len, self._pending)) < _HEAD_BYTES and self._announced.encoding != "opus":
            return b""
        pending, self._pending = self._pending, None
        self._decoder = self._open(b"".join(pending)[:_HEAD_BYTES])
        return b"".join(map(self._decoder.feed, pending))

    def end(self) -> bytes:
        """Return the remaining samples. Raises like `feed`."""
        return self._decoder.end() if self._decoder is not None else b""

    def _open(self, head: bytes) -> Converter:
        encoding = _recognise(head, self._announced.encoding)
        if encoding == "wav":
            rate = self._announced.sample_rate_hz or PCM_16K.sample_rate_hz
            converter = convert.converter(AudioFormat(encoding="wav", sample_rate_hz=rate), PCM_16K)
            assert converter is not None
            return converter
        if encoding not in _ENCODINGS or encoding == "unknown":
            raise CannotConvert("this audio cannot be decoded as it comes")
        av = library(f"{encoding} cannot be decoded")
        if encoding in ("ogg", "webm"):
            return _ContainerDecoder(av, OggPackets() if encoding == "ogg" else MatroskaPackets())
        return _PacketDecoder(av, "opus", b"") if encoding == "opus" else _ParsingDecoder(av, encoding)


def _recognise(head: bytes, announced: Encoding) -> Encoding:
    if head.startswith(b"RIFF"):
        return "wav"
    if announced == "opus" and not head.startswith((b"OggS", b"\x1a\x45\xdf\xa3")):
        return announced    # a packet may start like anything else
    fmt, _ = wav.sniff(head, len(head), "")
    return fmt.encoding if fmt is not None else announced


class _PacketDecoder:
    """Packets to samples. A bad one is skipped; raises CannotConvert after several in a row."""

    def __init__(self, av: Any, name: str, head: bytes) -> None:
        self._av = av
        self._name = name
        self._codec = av.CodecContext.create(name, "r")
        if head:
            self._codec.extradata = head
        if name == "opus":
            self._codec.sample_rate = 48_000
            self._codec.layout = "stereo" if len(head) > 9 and head[9] == 2 else "mono"
        self._resampler = FrameResampler(av, PCM_16K)
        self._bad_packets = 0
        self._has_samples = False

    def feed(self, data: bytes) -> bytes:
        """Decode one packet."""
        return self.decode(self._av.Packet(data)) if data else b""

    def end(self) -> bytes:
        """Return the samples that codec and resampler have buffered."""
        samples = self.decode(None)
        return samples + self._resampler.end() if self._has_samples else samples

    def decode(self, packet: Any) -> bytes:
        try:
            samples = self._resampler.feed(self._codec.decode(packet))
        except (self._av.FFmpegError, ValueError):
            self._bad_packets += 1
            if self._bad_packets >= _MAX_BAD_PACKETS:
                raise CannotConvert(f"this is not {self._name}") from None
            return b""
        self._bad_packets = 0
        self._has_samples = self._has_samples or bool(samples)
        return samples

    def parse(self, data: bytes) -> bytes:
        """Decode packets that follow one another without a container."""
        return b"".join(self.decode(packet) for packet in self._codec.parse(data)) if data else b""

    def end_parsing(self) -> bytes:
        """Return the samples of the packets that the parser has buffered, which it returns one at a time."""
        samples = b""
        while packets := self._codec.parse(b""):
            samples += b"".join(map(self.decode, packets))
        return samples + self.end()


class _ContainerDecoder:
    def __init__(self, av: Any, packets: PacketReader) -> None:
        self._av = av
        self._packets = packets
        self._decoder: _PacketDecoder | None = None

    def feed(self, data: bytes) -> bytes:
        try:
            packets = self._packets.feed(data)
        except NoPackets as error:
            raise CannotConvert(str(error)) from None
        if not packets:
            return b""
        if self._decoder is None:
            self._decoder = _PacketDecoder(self._av, self._packets.codec, self._packets.head)
        return b"".join(map(self._decoder.feed, packets))

    def end(self) -> bytes:
        return self._decoder.end() if self._decoder is not None else b""


class _ParsingDecoder:
    """Decoder of frames without a container: MP3, AAC, and FLAC after its head, which the codec needs beforehand.

    The end of a FLAC frame is known once more have come: up to two seconds of audio are buffered.
    """

    def __init__(self, av: Any, name: str) -> None:
        self._av = av
        self._head = b""
        self._decoder = _PacketDecoder(av, name, b"") if name != "flac" else None

    def feed(self, data: bytes) -> bytes:
        if self._decoder is None:
            self._head += data
            if len(self._head) < _FLAC_HEAD_BYTES:
                return b""
            self._decoder = _PacketDecoder(self._av, "flac", self._head[8:_FLAC_HEAD_BYTES])
            data = self._head[_FLAC_HEAD_BYTES:]
        return self._decoder.parse(data)

    def end(self) -> bytes:
        return self._decoder.end_parsing() if self._decoder is not None else b""
