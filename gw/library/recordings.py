"""Recordings of a program: the bytes of an audio file, its path, or bare samples with their rate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import trio

from gw.errors import RequestError
from gw.types.audio import AudioFormat
from gw.wire import wav
from gw.wire.durations import LengthMeter

_PIECE_BYTES = 64 * 1024


class Recording:
    """An `AudioSource` in memory or on disk, read once to measure it, and once for every provider it is sent to.

    `format` and `seconds` are measured here; None and 0.0 where they are unknown.
    """

    content_type = "application/octet-stream"

    def __init__(self, content: bytes | Path, filename: str) -> None:
        """Block for the measuring. Raises OSError."""
        self.filename = filename
        self.size = 0
        self._content = content
        meter = LengthMeter(self.content_type, filename)
        while piece := self._piece(self.size):
            meter.feed(piece)
            self.size += len(piece)
        self.format, self.seconds = meter.format, meter.seconds

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raise RequestError for a fault of this disk, which must not look like one of the provider's connection."""
        at = 0
        while at < self.size:
            try:
                on_disk = isinstance(self._content, Path)
                piece = await trio.to_thread.run_sync(self._piece, at) if on_disk else self._piece(at)
            except OSError as error:
                what = f"{self.filename} can no longer be read: {error.strerror}"
                raise RequestError(what=what, param="audio") from error
            if not piece:
                raise RequestError(what=f"{self.filename} has become shorter", param="audio")
            piece = piece[: self.size - at]
            at += len(piece)
            yield piece

    def _piece(self, at: int) -> bytes:
        if isinstance(self._content, bytes):
            return self._content[at : at + _PIECE_BYTES]
        with self._content.open("rb") as file:
            file.seek(at)
            return file.read(_PIECE_BYTES)


def recording(audio: bytes | str | Path, sample_rate_hz: int) -> Recording:
    """Return the recording. Blocks on the disk. With a rate, the content is bare signed 16-bit mono samples.

    Raises RequestError for an empty recording or an unknown format; OSError for a file.
    """
    path, data = (Path(audio), b"") if isinstance(audio, (str, Path)) else (None, bytes(audio))
    if sample_rate_hz:
        return _samples(path.read_bytes() if path else data, sample_rate_hz)
    source = Recording(path, path.name) if path else Recording(data, "audio")
    if not source.size:
        raise RequestError(what="the recording is empty", param="audio")
    if not path and source.format is None:
        message = "these bytes are not a known audio format; for bare 16-bit mono samples give sample_rate_hz"
        raise RequestError(what=message, param="audio")
    return source


def _samples(data: bytes, sample_rate_hz: int) -> Recording:
    if sample_rate_hz not in wav.RATES_HZ:
        message = f"sample_rate_hz must be from {wav.RATES_HZ.start} to {wav.RATES_HZ.stop - 1}"
        raise RequestError(what=message, param="sample_rate_hz")
    if not data:
        raise RequestError(what="the recording is empty", param="audio")
    fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=sample_rate_hz)
    return Recording(wav.header(fmt, len(data)) + data, "audio.wav")
