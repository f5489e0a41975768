"""RIFF/WAVE headers, and recognition of an upload's audio format from its first bytes.

Chunks and codes: "Multimedia Programming Interface and Data Specifications 1.0" (August 1991) and Microsoft's
WAVEFORMATEXTENSIBLE. The length of a streamed WAV is unknown when its header is written: sizes are 0, 0xFFFFFFFF or near it
(streamed answers of the speech endpoint), and the data is everything that follows.
"""

from __future__ import annotations

import struct

import msgspec

from gw.types.audio import AudioFormat, Encoding
from gw.wire.containers.frames import adts_frame, mpeg_frame

_PCM, _FLOAT, _ALAW, _MULAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_WIDTHS = {
    "wav": (_PCM, 16), "pcm_s16le": (_PCM, 16), "pcm_f32le": (_FLOAT, 32), "alaw": (_ALAW, 8), "mulaw": (_MULAW, 8),
}
"""Encoding → format code and bits per sample."""
RATES_HZ = range(8_000, 192_001)
CHANNELS = range(1, 9)
"""Speech is not recorded outside these ranges; a header that is would give a false length, which a transcript is billed by."""
_WIDEST_BITS = 64
_PLACEHOLDER = 0xFFFF_FF00
"""Smallest placeholder: writers that do not know the length put the largest number, some minus the header's size."""


class WavInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`format` is that of the samples from `data_offset` on.

    `wav` = signed 16-bit PCM; `mulaw`, `alaw`, `pcm_f32le`; `unknown` = PCM or floats of another width.
    """

    format: AudioFormat
    data_offset: int
    data_bytes: int | None
    """None if the header has a placeholder."""
    bytes_per_second: int

    def seconds(self, size: int) -> float:
        """Return the length of a file of `size` bytes, whatever more the header declares."""
        present = max(0, size - self.data_offset)
        n_bytes = present if self.data_bytes is None else min(self.data_bytes, present)
        return n_bytes / self.bytes_per_second


def parse(prefix: bytes) -> WavInfo | None:
    """Decode the header in the first bytes of a file; None if it is not a WAV, or the data chunk starts beyond `prefix`."""
    info, has_data = _walk(prefix)
    return info if has_data else None


def _walk(prefix: bytes) -> tuple[WavInfo | None, bool]:
    """Return the header's contents, and whether the data chunk starts within `prefix`; else `data_offset` is the end of it."""
    if prefix[:4] != b"RIFF" or prefix[8:12] != b"WAVE":
        return None, False
    at, audio = 12, None
    while at + 8 <= len(prefix):
        name, size = prefix[at : at + 4], int.from_bytes(prefix[at + 4 : at + 8], "little")
        at += 8
        if name == b"data":
            break
        if name == b"fmt ":
            audio = _format(prefix[at : at + size])
            if audio is None:
                return None, False
        at += size + (size & 1)   # chunks are padded to even length
    else:
        name, at, size = b"", len(prefix), 0
    if audio is None:
        return None, False
    n_bytes = None if size == 0 or size >= _PLACEHOLDER else size
    return WavInfo(format=audio[0], data_offset=at, data_bytes=n_bytes, bytes_per_second=audio[1]), name == b"data"


def _format(chunk: bytes) -> tuple[AudioFormat, int] | None:
    if len(chunk) < 16:
        return None
    code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if code == _EXTENSIBLE and len(chunk) >= 26:
        code = int.from_bytes(chunk[24:26], "little")   # the first two bytes of the sub-format's GUID
    if rate not in RATES_HZ or channels not in CHANNELS or bits not in range(8, _WIDEST_BITS + 1, 8):
        return None
    known: dict[tuple[int, int], Encoding] = {
        (_PCM, 16): "wav", (_FLOAT, 32): "pcm_f32le", (_ALAW, 8): "alaw", (_MULAW, 8): "mulaw",
    }
    if code not in (_PCM, _FLOAT, _ALAW, _MULAW):
        return None
    audio = AudioFormat(encoding=known.get((code, bits), "unknown"), sample_rate_hz=rate, channels=channels)
    return audio, rate * channels * (bits // 8)   # computed: the header's own average is often wrong


def header(fmt: AudioFormat, n_bytes: int | None) -> bytes:
    """Return a header for `n_bytes` of samples of `fmt` (`wav`, `pcm_s16le` = 16-bit PCM), or with placeholders for None.

    Raises ValueError for a format that a WAV cannot hold.
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
    """Return format and seconds of an upload of `size` bytes; its own bytes outrank `content_type`.

    Seconds are known for WAV and for raw samples whose type names a rate (`audio/pcm;rate=16000`), else 0.0. For a WAV whose
    data starts beyond `prefix` they are an upper bound.
    """
    known = recognise(prefix, content_type)
    return format_of(known), known.seconds(size) if known is not None else 0.0


def recognise(prefix: bytes, content_type: str) -> WavInfo | AudioFormat | None:
    """Return what the first bytes of an upload, or else its type, say of it: see `sniff`. Both have `seconds` by size."""
    info, _ = _walk(prefix)
    if info is not None:
        return info
    raw = _raw(content_type)
    encoding = _magic(prefix) or (_two_frames(prefix) if raw else _frame_sync(prefix))
    return raw if encoding is None else AudioFormat(encoding=encoding)


def format_of(known: WavInfo | AudioFormat | None) -> AudioFormat | None:
    return known.format if isinstance(known, WavInfo) else known


def _magic(prefix: bytes) -> Encoding | None:
    starts: dict[bytes, Encoding] = {
        b"RIFF": "unknown", b"ID3": "mp3", b"fLaC": "flac", b"OggS": "ogg", b"\x1a\x45\xdf\xa3": "webm",
    }
    return next((starts[start] for start in starts if prefix.startswith(start)), "mp4" if prefix[4:8] == b"ftyp" else None)


def _frame_sync(prefix: bytes) -> Encoding | None:
    """Recognise MPEG audio without a tag: eleven set bits, then version and layer; layer bits 00 are AAC's ADTS."""
    if len(prefix) >= 2 and prefix[0] == 0xFF and prefix[1] & 0xE0 == 0xE0:
        return "aac" if prefix[1] & 0xF6 == 0xF0 else "mp3" if prefix[1] & 0x06 else None
    return None


def _two_frames(prefix: bytes) -> Encoding | None:
    """Recognise frames like `_frame_sync`, but not quiet samples, which start alike and have no second frame."""
    encoding = _frame_sync(prefix)
    frame = None
    if encoding == "aac" and len(prefix) >= 7:
        frame = adts_frame(prefix)
    elif encoding == "mp3" and len(prefix) >= 4:
        frame = mpeg_frame(prefix)
    length = frame[0] if frame is not None else 0
    return encoding if length >= 7 and _frame_sync(prefix[length : length + 2]) == encoding else None


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
