"""RIFF/WAVE headers, and telling an upload's audio format from its first bytes.

Chunks and codes: "Multimedia Programming Interface and Data Specifications 1.0" (August 1991) and Microsoft's
WAVEFORMATEXTENSIBLE. One that is streamed as it is made cannot know its length: sizes are 0, 0xFFFFFFFF or near it
(streamed answers of the speech endpoint), and then the data is what follows.
"""

from __future__ import annotations

import struct

import msgspec

from gw.types.audio import AudioFormat, Encoding

_PCM, _FLOAT, _ALAW, _MULAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_WIDTHS = {
    "wav": (_PCM, 16), "pcm_s16le": (_PCM, 16), "pcm_f32le": (_FLOAT, 32), "alaw": (_ALAW, 8), "mulaw": (_MULAW, 8),
}
"""Encoding → format code and bits per sample."""
RATES_HZ = range(8_000, 192_001)
CHANNELS = range(1, 9)
"""Beyond these nobody records speech, and a declared length is worth nothing: it decides what a transcript costs."""
_WIDEST_BITS = 64
_PLACEHOLDER = 0xFFFF_FF00
"""Writers that do not know the length put the largest number, some less the size of the header."""


class WavInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`format` tells the samples from `data_offset` on.

    `wav` = signed 16-bit PCM; `mulaw`, `alaw`, `pcm_f32le`; `unknown` = PCM or floats of another width.
    """

    format: AudioFormat
    data_offset: int
    data_bytes: int | None
    """None when the header holds a placeholder."""
    bytes_per_second: int

    def seconds(self, size: int) -> float:
        """Length of a file of `size` bytes; a false length in the header does not count for more than is there."""
        present = max(0, size - self.data_offset)
        n_bytes = present if self.data_bytes is None else min(self.data_bytes, present)
        return n_bytes / self.bytes_per_second


def parse(prefix: bytes) -> WavInfo | None:
    """The header in the first bytes of a file; None when it is no WAV or the data chunk begins beyond `prefix`."""
    walked = _walk(prefix)
    if walked is None or walked[1] is None:
        return None
    audio, rate = walked[0]
    offset, size = walked[1]
    placeholder = size == 0 or size >= _PLACEHOLDER
    return WavInfo(format=audio, data_offset=offset, data_bytes=None if placeholder else size, bytes_per_second=rate)


def _walk(prefix: bytes) -> tuple[tuple[AudioFormat, int], tuple[int, int] | None] | None:
    """Format with bytes per second, then offset and size of the data chunk where it is within reach."""
    if prefix[:4] != b"RIFF" or prefix[8:12] != b"WAVE":
        return None
    at = 12
    audio: tuple[AudioFormat, int] | None = None
    while at + 8 <= len(prefix):
        name = prefix[at : at + 4]
        size = int.from_bytes(prefix[at + 4 : at + 8], "little")
        at += 8
        if name == b"data":
            return None if audio is None else (audio, (at, size))
        if name == b"fmt ":
            audio = _format(prefix[at : at + size])
            if audio is None:
                return None
        at += size + (size & 1)   # chunks are padded to even length
    return None if audio is None else (audio, None)


def _format(chunk: bytes) -> tuple[AudioFormat, int] | None:
    if len(chunk) < 16:
        return None
    code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if code == _EXTENSIBLE and len(chunk) >= 26:
        code = int.from_bytes(chunk[24:26], "little")   # the first two bytes of the sub-format's GUID
    if rate not in RATES_HZ or channels not in CHANNELS or bits not in range(8, _WIDEST_BITS + 1, 8):
        return None
    known: dict[tuple[int, int], Encoding] = {
        (_PCM, 16): "wav",
        (_FLOAT, 32): "pcm_f32le",
        (_ALAW, 8): "alaw",
        (_MULAW, 8): "mulaw",
    }
    if code not in (_PCM, _FLOAT, _ALAW, _MULAW):
        return None
    audio = AudioFormat(encoding=known.get((code, bits), "unknown"), sample_rate_hz=rate, channels=channels)
    return audio, rate * channels * (bits // 8)   # computed: the header's own average is often wrong


def header(fmt: AudioFormat, n_bytes: int | None) -> bytes:
    """A header for `n_bytes` of samples of `fmt` (`wav`, `pcm_s16le` = 16-bit PCM); None writes placeholder sizes.

    Raises ValueError for a format that has no place in a WAV.
    """
    if fmt.encoding not in _WIDTHS or not fmt.sample_rate_hz:
        raise ValueError(f"no WAV header for {fmt.encoding} at {fmt.sample_rate_hz} Hz")
    code, bits = _WIDTHS[fmt.encoding]
    frame = fmt.channels * bits // 8
    sizes = (0xFFFF_FFFF, 0xFFFF_FFFF) if n_bytes is None else (36 + n_bytes, n_bytes)
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", sizes[0], b"WAVE", b"fmt ", 16),
        *(code, fmt.channels, fmt.sample_rate_hz, fmt.sample_rate_hz * frame, frame, bits),
        *(b"data", sizes[1]),
    )


def sniff(prefix: bytes, size: int, content_type: str) -> tuple[AudioFormat | None, float]:
    """Format and seconds of an upload of `size` bytes; its own bytes outrank `content_type`.

    Seconds are told for WAV and for raw samples whose type names a rate (`audio/pcm;rate=16000`), else 0.0. A WAV whose
    data begins beyond `prefix` counts from there on what can be at most.
    """
    walked = _walk(prefix)
    if walked is not None:
        info = parse(prefix)
        (audio, rate), _ = walked
        return audio, info.seconds(size) if info else max(0, size - len(prefix)) / rate
    raw = _raw(content_type)
    encoding = _magic(prefix) or (_two_frames(prefix) if raw else _frame_sync(prefix))
    if encoding is not None:
        return AudioFormat(encoding=encoding), 0.0
    return raw, raw.seconds(size) if raw else 0.0


def _magic(prefix: bytes) -> Encoding | None:
    starts: dict[bytes, Encoding] = {
        b"RIFF": "unknown", b"ID3": "mp3", b"fLaC": "flac", b"OggS": "ogg", b"\x1a\x45\xdf\xa3": "webm",
    }
    for magic, encoding in starts.items():
        if prefix.startswith(magic):
            return encoding
    return "mp4" if prefix[4:8] == b"ftyp" else None


def _frame_sync(prefix: bytes) -> Encoding | None:
    """MPEG audio without a tag in front: eleven set bits, then version and layer; layer bits 00 are AAC's ADTS."""
    if len(prefix) >= 2 and prefix[0] == 0xFF and prefix[1] & 0xE0 == 0xE0:
        return "aac" if prefix[1] & 0xF6 == 0xF0 else "mp3" if prefix[1] & 0x06 else None
    return None


def _two_frames(prefix: bytes) -> Encoding | None:
    """As `_frame_sync`, where samples must not be taken for it: quiet ones begin alike, but have no second frame."""
    encoding = _frame_sync(prefix)
    length = 0
    if encoding == "aac" and len(prefix) >= 6:
        length = int.from_bytes(prefix[3:6], "big") >> 5 & 0x1FFF
    elif encoding == "mp3" and len(prefix) >= 4:
        length = _mpeg_frame_bytes(prefix)
    return encoding if length >= 7 and _frame_sync(prefix[length : length + 2]) == encoding else None


_KBIT_V1 = {
    1: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    3: tuple(range(0, 449, 32)),
}
_KBIT_V2 = {
    1: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    3: (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
}
"""kbit/s by the header's layer bits (1 = layer III, 3 = layer I) and bit rate index; 0 = not told."""


def _mpeg_frame_bytes(head: bytes) -> int:
    """Length of the frame that begins with these four bytes (ISO/IEC 11172-3 and 13818-3); 0 when they are none."""
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3   # 3 = version 1, 2 = version 2, 0 = version 2.5
    bit_rate, rate, padding = head[2] >> 4, head[2] >> 2 & 3, head[2] >> 1 & 1
    if version == 1 or layer == 0 or bit_rate in (0, 15) or rate == 3:
        return 0
    rate_hz = (44_100, 48_000, 32_000)[rate] // {3: 1, 2: 2, 0: 4}[version]
    bits_per_s = 1_000 * (_KBIT_V1 if version == 3 else _KBIT_V2)[layer][bit_rate]
    if layer == 3:
        return (12 * bits_per_s // rate_hz + padding) * 4
    samples = 576 if layer == 1 and version != 3 else 1_152
    return samples // 8 * bits_per_s // rate_hz + padding


def _raw(content_type: str) -> AudioFormat | None:
    name, *parameters = (piece.strip() for piece in content_type.lower().split(";"))
    values = dict(p.partition("=")[::2] for p in parameters)
    encodings: dict[str, Encoding] = {
        "audio/pcm": "pcm_s16le", "audio/x-pcm": "pcm_s16le", "audio/raw": "pcm_s16le",
        "audio/basic": "mulaw", "audio/pcmu": "mulaw", "audio/pcma": "alaw",
    }
    if name not in encodings:
        return None
    rate = values.get("rate", "8000" if encodings[name] != "pcm_s16le" else "")
    channels = values.get("channels", "1")
    if not (rate.isdecimal() and rate.isascii() and channels.isdecimal() and channels.isascii()):
        return None
    if int(rate[:9]) not in RATES_HZ or int(channels[:9]) not in CHANNELS:
        return None
    return AudioFormat(encoding=encodings[name], sample_rate_hz=int(rate), channels=int(channels))
