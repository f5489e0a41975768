"""Collects the sound of one request in parts of a few seconds, so that an hour of it is never in memory.

Samples become one Opus file for each part. Audio that came compressed is kept as it came, since encoding it again would
only make it worse: its parts are of use together only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

import msgspec

from gw.codecs import speech_parts
from gw.types.audio import AudioFormat
from gw.types.captured import CapturedSound
from gw.types.stt import AudioSource
from gw.wire import wav

PART_S = 5.0
PART_BYTES = 256 * 1024  # of compressed audio
MAX_BYTES = 512 * 2**20  # of one request; four hours of samples at 16 kHz
_RAW = frozenset({"pcm_s16le", "pcm_f32le", "mulaw", "alaw"})
_HEAD_BYTES = 4_096  # a WAV's samples begin within them
_encode = msgspec.msgpack.Encoder().encode

HandOver = Callable[[int, int, Callable[[], bytes]], None]
"""Takes the number of a part, its size in memory, and what makes its content."""


class SoundCollector:
    """`add` is called for every frame: it appends bytes, and hands a part over when one is complete."""

    __slots__ = ("_bytes", "_data", "_format", "_full", "_hand_over", "_part", "cut")

    def __init__(self, hand_over: HandOver) -> None:
        self._hand_over = hand_over
        self._data = bytearray()
        self._format: AudioFormat | None = None
        self._full = PART_BYTES
        self._part = self._bytes = 0
        self.cut = False

    def add(self, data: bytes, fmt: AudioFormat) -> None:
        if self.cut:
            return
        if self._format is None:
            self._use(fmt)
        self._data += data
        self._bytes += len(data)
        if len(self._data) >= self._full:
            self._take_head()
            if len(self._data) >= self._full:
                self._pass_on()
            self.cut = self._bytes > MAX_BYTES

    def end(self) -> None:
        """Hand over what is left."""
        self._take_head()
        if self._data:
            self._pass_on()

    def _use(self, fmt: AudioFormat) -> None:
        self._format = fmt
        per_s = fmt.bytes_per_second if fmt.encoding in _RAW else 0
        self._full = _HEAD_BYTES if fmt.encoding == "wav" else int(PART_S * per_s) or PART_BYTES

    def _take_head(self) -> None:
        """Take the header off a WAV: samples follow."""
        if self._format is None or self._format.encoding != "wav":
            return
        info = wav.parse(bytes(self._data[:_HEAD_BYTES]))
        if info is None or info.format.encoding not in (*_RAW, "wav"):
            self._use(AudioFormat(encoding="unknown"))
            return
        encoding = "pcm_s16le" if info.format.encoding == "wav" else info.format.encoding
        self._use(msgspec.structs.replace(info.format, encoding=encoding))
        del self._data[: info.data_offset]

    def _pass_on(self) -> None:
        assert self._format is not None
        data, self._data = bytes(self._data), bytearray()
        self._hand_over(self._part, len(data), partial(_content, data, self._format))
        self._part += 1


class CopiedAudio:
    """An uploaded recording whose bytes are noted as they are read. Where another provider reads it too, only what is new."""

    def __init__(self, source: AudioSource, fmt: AudioFormat, sound: SoundCollector) -> None:
        self._source = source
        self._format = fmt
        self._sound = sound
        self._noted = 0
        self.size, self.filename, self.content_type = source.size, source.filename, source.content_type

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes from the beginning."""
        end = 0
        async for piece in self._source.chunks():
            start, end = end, end + len(piece)
            if end > self._noted:
                self._sound.add(piece[max(0, self._noted - start) :], self._format)
                self._noted = end
            yield piece


# ---------------------------------------------------------------------- in the writer's thread


def _content(data: bytes, fmt: AudioFormat) -> bytes:
    if fmt.encoding in _RAW:
        pcm = speech_parts.pcm_of(fmt)
        file = speech_parts.encode(data, fmt)
        sound = CapturedSound("opus", pcm.sample_rate_hz, pcm.channels, fmt.seconds(len(data)), file)
    else:
        sound = CapturedSound(fmt.encoding, fmt.sample_rate_hz, fmt.channels, None, data)
    return _encode(sound)
