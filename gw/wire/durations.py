"""Length of recorded or synthesised audio, measured as its bytes pass: only a container's own structure is buffered."""

from __future__ import annotations

from collections.abc import Callable

from gw.types.audio import AudioFormat, Encoding
from gw.wire import wav
from gw.wire.containers.flac import FlacWalk
from gw.wire.containers.frames import AdtsWalk, MpegWalk
from gw.wire.containers.matroska import MatroskaWalk
from gw.wire.containers.mp4 import Mp4Walk
from gw.wire.containers.ogg import OggWalk
from gw.wire.containers.walk import Walk

PREFIX_BYTES = 4_096  # enough for the head of a WAV, and to recognise a container
MIN_BYTES_PER_S = 16
"""Silence in the most efficient codec takes more, so a container cannot be longer than its size divided by this."""
USUAL_BYTES_PER_S = 4_000  # compressed speech at 32 kbit/s: the guess where a length cannot be read

_WALKS: dict[Encoding, Callable[[], Walk]] = {
    "mp3": MpegWalk, "aac": AdtsWalk, "ogg": OggWalk, "opus": OggWalk, "flac": FlacWalk, "webm": MatroskaWalk,
    "mp4": Mp4Walk,
}  # fmt: skip
_BY_EXTENSION: dict[str, str] = {
    ".ulaw": "audio/basic", ".mulaw": "audio/basic", ".ul": "audio/basic", ".alaw": "audio/pcma", ".al": "audio/pcma",
}  # fmt: skip
"""Extension of a file → type of its raw samples, which cannot be recognised."""


class LengthMeter:
    """Bytes in, seconds out. Never raises, whatever the bytes are.

    `content_type` and `filename` matter only if the bytes cannot be recognised; `size` is the number of all bytes, if known in
    advance, as for a file of which only the beginning is fed.
    """

    def __init__(self, content_type: str = "", filename: str = "", size: int = 0) -> None:
        self._type = content_type
        self._name = filename
        self._declared = size
        self.fed = 0
        self._prefix: bytearray | None = bytearray()  # bytes before the container is recognised; None afterwards
        self._recognised: wav.WavInfo | AudioFormat | None = None  # from those bytes
        self._walk: Walk | None = None

    def feed(self, data: bytes) -> None:
        self.fed += len(data)
        if self._prefix is None:
            if self._walk is not None:
                self._walk.feed(data)
            return
        if len(self._prefix) + len(data) < PREFIX_BYTES:
            self._prefix += data
        else:
            self._start_walk(bytes(self._prefix + data) if self._prefix else data)

    @property
    def format(self) -> AudioFormat | None:
        """Format; None if it is unknown. Fixed once 4 KiB have been fed."""
        return wav.format_of(self._known())

    @property
    def seconds(self) -> float:
        """Length of all that was fed; 0.0 if it is unknown."""
        walk = self._walk
        if walk is None and self._prefix and (fmt := self.format) is not None:   # shorter than a prefix
            walk = _walk_of(fmt, bytes(self._prefix))
        if walk is None:
            return self.seconds_of_samples(self._size)
        return min(walk.seconds, self._size / MIN_BYTES_PER_S)

    def seconds_of_samples(self, size: int) -> float:
        """Return the length of a file of `size` bytes that begins as this one, if it holds samples; else 0.0."""
        known = self._known()
        return known.seconds(size) if known is not None else 0.0

    @property
    def _size(self) -> int:
        return max(self.fed, self._declared)

    def _start_walk(self, prefix: bytes) -> None:
        self._recognised, self._prefix = self._recognise(prefix[:PREFIX_BYTES]), None
        fmt = wav.format_of(self._recognised)
        if fmt is not None:
            self._walk = _walk_of(fmt, prefix)

    def _known(self) -> wav.WavInfo | AudioFormat | None:
        """Return what is known of the file: fixed once its first bytes have been fed."""
        return self._recognised if self._prefix is None else self._recognise(bytes(self._prefix))

    def _recognise(self, head: bytes) -> wav.WavInfo | AudioFormat | None:
        extension = self._name[self._name.rfind(".") :].lower()
        return wav.recognise(head, self._type) or wav.recognise(head, _BY_EXTENSION.get(extension, ""))


def _walk_of(fmt: AudioFormat, data: bytes) -> Walk | None:
    new_walk = _WALKS.get(fmt.encoding)
    if new_walk is None:
        return None
    walk = new_walk()
    walk.feed(data)
    return walk
