"""Recordings that a program hands over: the bytes of a file, the path of one, or bare samples with their rate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import trio

from gw.errors import RequestError
from gw.types.audio import AudioFormat
from gw.wire import wav
from gw.wire.durations import LengthMeter

_PIECE_BYTES = 64 * 1024
_ANY = "application/octet-stream"


class BytesAudio:
    """An `AudioSource` in memory. `format` and `seconds` are our own measure, None and 0.0 where it cannot be told."""

    content_type = _ANY

    def __init__(self, data: bytes, filename: str) -> None:
        self.filename = filename
        self.size = len(data)
        self._data = data
        meter = LengthMeter(_ANY, filename)
        meter.feed(data)
        self.format = meter.format
        self.seconds = meter.seconds

    async def chunks(self) -> AsyncIterator[bytes]:
        for at in range(0, self.size, _PIECE_BYTES):
            yield self._data[at : at + _PIECE_BYTES]


class FileAudio:
    """An `AudioSource` on disk, read in pieces: once to be measured, and once for every provider it is sent to."""

    content_type = _ANY

    def __init__(self, path: Path) -> None:
        """Blocks. Raises OSError."""
        self.filename = path.name
        self._path = path
        meter = LengthMeter(_ANY, path.name)
        self.size = 0
        while piece := self._piece(self.size):
            meter.feed(piece)
            self.size += len(piece)
        self.format = meter.format
        self.seconds = meter.seconds

    async def chunks(self) -> AsyncIterator[bytes]:
        at = 0
        while at < self.size:
            piece = await trio.to_thread.run_sync(self._read, at)
            at += len(piece)
            yield piece

    def _read(self, at: int) -> bytes:
        """A fault of this disk must not look like one of the provider's connection."""
        try:
            piece = self._piece(at)
        except OSError as error:
            raise RequestError(what=f"{self.filename} can no longer be read: {error.strerror}", param="audio") from error
        if not piece:
            raise RequestError(what=f"{self.filename} has become shorter", param="audio")
        return piece[: self.size - at]

    def _piece(self, at: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(at)
            return file.read(_PIECE_BYTES)


def recording(audio: bytes | str | Path, sample_rate_hz: int) -> BytesAudio | FileAudio:
    """Blocks on the disk. With a rate, the content is bare signed 16-bit mono samples.

    Raises RequestError when there is nothing, or when it does not say what it is; OSError for a file.
    """
    if isinstance(audio, (str, Path)):
        path = Path(audio)
        found: BytesAudio | FileAudio = FileAudio(path) if not sample_rate_hz else _samples(path.read_bytes(), sample_rate_hz)
    elif sample_rate_hz:
        found = _samples(bytes(audio), sample_rate_hz)
    else:
        found = BytesAudio(bytes(audio), "audio")
        if found.size and found.format is None:
            what = "these bytes do not say what audio they are; for bare 16-bit mono samples give sample_rate_hz"
            raise RequestError(what=what, param="audio")
    if not found.size:
        raise RequestError(what="the recording is empty", param="audio")
    return found


def _samples(data: bytes, sample_rate_hz: int) -> BytesAudio:
    if sample_rate_hz not in wav.RATES_HZ:
        what = f"sample_rate_hz must be from {wav.RATES_HZ.start} to {wav.RATES_HZ.stop - 1}"
        raise RequestError(what=what, param="sample_rate_hz")
    if not data:
        raise RequestError(what="the recording is empty", param="audio")
    fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=sample_rate_hz)
    return BytesAudio(wav.header(fmt, len(data)) + data, "audio.wav")
