"""How long recorded or made audio is, told from its bytes as they pass: nothing is held but a container's own structure.

    meter = LengthMeter(content_type)
    for piece in pieces: meter.feed(piece)
    meter.seconds
"""

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

PREFIX_BYTES = 4_096
"""Enough for the head of a WAV, and to tell one container from another."""
FEWEST_BYTES_PER_S = 16
"""Silence in the leanest codec takes more. A container that declares more time than that is not believed."""

_WALKS: dict[Encoding, Callable[[], Walk]] = {
    "mp3": MpegWalk, "aac": AdtsWalk, "ogg": OggWalk, "opus": OggWalk, "flac": FlacWalk, "webm": MatroskaWalk,
    "mp4": Mp4Walk,
}  # fmt: skip
_BY_NAME: dict[str, str] = {
    ".ulaw": "audio/basic", ".mulaw": "audio/basic", ".ul": "audio/basic", ".alaw": "audio/pcma", ".al": "audio/pcma",
}  # fmt: skip
"""Ending of a file's name → the type of raw samples whose bytes tell nothing."""


class LengthMeter:
    """Bytes in, seconds out. Never raises, whatever the bytes are.

    `content_type` and `filename` matter only where the bytes tell nothing; `size` is the number of bytes of the whole where
    that is known before it has come, as for a file of which only the beginning is fed.
    """

    def __init__(self, content_type: str = "", filename: str = "", size: int = 0) -> None:
        self._type = content_type
        self._name = filename
        self._declared = size
        self._fed = 0
        self._prefix: bytearray | None = bytearray()
        """What came before the container was known; None afterwards."""
        self._head = b""
        self._walk: Walk | None = None

    def feed(self, data: bytes) -> None:
        self._fed += len(data)
        if self._prefix is None:
            if self._walk is not None:
                self._walk.feed(data)
            return
        self._prefix += data
        if len(self._prefix) >= PREFIX_BYTES:
            self._begin()

    @property
    def format(self) -> AudioFormat | None:
        """None when it cannot be told. What was fed last does not change it once there are 4 KiB."""
        return self._measured()[0]

    @property
    def seconds(self) -> float:
        """Of all that was fed; 0.0 when it cannot be told."""
        fmt, raw_s = self._measured()
        walk = self._walk
        if walk is None and fmt is not None and self._prefix:   # shorter than a prefix
            walk = _walked(fmt, bytes(self._prefix))
        if walk is None:
            return raw_s
        return min(walk.seconds, self._size / FEWEST_BYTES_PER_S)

    @property
    def _size(self) -> int:
        return max(self._fed, self._declared)

    def _begin(self) -> None:
        prefix = bytes(self._prefix or b"")
        self._head, self._prefix = prefix[:PREFIX_BYTES], None
        fmt, _ = self._measured()
        if fmt is not None:
            self._walk = _walked(fmt, prefix)

    def _measured(self) -> tuple[AudioFormat | None, float]:
        head = self._head if self._prefix is None else bytes(self._prefix)
        fmt, seconds = wav.sniff(head, self._size, self._type)
        ending = self._name[self._name.rfind(".") :].lower()
        if fmt is None and (named := _BY_NAME.get(ending)):
            return wav.sniff(head, self._size, named)
        return fmt, seconds


def _walked(fmt: AudioFormat, data: bytes) -> Walk | None:
    make = _WALKS.get(fmt.encoding)
    if make is None:
        return None
    walk = make()
    walk.feed(data)
    return walk
