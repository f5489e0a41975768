"""Uploads: a form's fields and its file, kept until the request is over.

The fields that decide the route may come after the file (some SDKs send it first), and a fallback must send the audio
again. So the file is kept as it arrives: in memory, as the pieces it came in, while the uploads of the gateway have room there, else
in a temporary file that is written and read a megabyte at a time, since each of those steps needs a thread.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Final

import trio

from gw.dialects.request_io import header
from gw.errors import ClientProtocolError, StoreUnavailable
from gw.relay.in_flight import UploadMemory
from gw.types.asgi import Receive, Scope
from gw.types.audio import AudioFormat
from gw.wire import multipart
from gw.wire.durations import LengthMeter

_ALWAYS_IN_MEMORY_BYTES: Final = 1_048_576
_BATCH_BYTES: Final = 1_048_576
"""Bytes that are written to the file, or read from it, at once."""
_LEAST_BYTES: Final = 32_768  # smaller pieces are joined before they are sent on: each is a system call


class Upload:
    """A file and the form's fields. Use as an async context manager; leaving it deletes the file.

        in memory ──more than a megabyte, and no room──▶ in a file, its last pieces in memory until they are _BATCH_BYTES
    """

    def __init__(self, memory: UploadMemory | None = None) -> None:
        """`memory` may have room for more than a megabyte; give it to uploads that end with their request."""
        self.fields: list[tuple[str, str]] = []
        self.filename = "audio"
        self.content_type = "application/octet-stream"
        self.size = 0
        self.has_file = False
        self._meter = LengthMeter()
        self._memory = memory
        self._taken = 0  # bytes of `memory`
        self._pieces: list[bytes] = []  # what is not in the file
        self._file: IO[bytes] | None = None
        self._in_file = 0

    async def __aenter__(self) -> Upload:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._free()
        self._pieces = []
        if self._file is not None:
            self._file.close()

    def begin(self, filename: str, content_type: str) -> None:
        """Start the file; an empty name or type keeps the default."""
        self.has_file = True
        self.filename = filename or self.filename
        self.content_type = content_type or self.content_type
        self._meter = LengthMeter(self.content_type, self.filename)

    @property
    def format(self) -> AudioFormat | None:
        """Format of the file; None if it cannot be recognised."""
        return self._meter.format

    @property
    def audio_seconds(self) -> float:
        """Length of what was written, measured by us; 0.0 if it cannot be."""
        return self._meter.seconds

    async def write(self, data: bytes) -> None:
        """Append to the file. Raises StoreUnavailable."""
        self.size += len(data)
        self._meter.feed(data)
        self._pieces.append(data)
        if self._file is None and (self.size <= _ALWAYS_IN_MEMORY_BYTES or self._has_room()):
            return
        if self._file is None or self.size - self._in_file >= _BATCH_BYTES:
            await trio.to_thread.run_sync(self._move_to_file)

    def _has_room(self) -> bool:
        """Take memory for all that was written, if there is any."""
        if self._memory is None or not self._memory.take(more := self.size - self._taken):
            return False
        self._taken += more
        return True

    def _free(self) -> None:
        if self._memory is not None:
            self._memory.give_back(self._taken)
            self._taken = 0

    def _move_to_file(self) -> None:
        with _disk_errors():
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed in __aexit__
            for piece in self._pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[self._file.write(rest) :]
        self._pieces = []
        self._in_file = self.size
        self._free()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the file from its beginning; each iteration has a position of its own, so two candidates may read at once."""
        at = 0
        while at < self._in_file:
            piece = await trio.to_thread.run_sync(self._read, at)
            at += len(piece)
            yield piece
        joined: list[bytes] = []
        size = 0
        for piece in self._pieces:
            joined.append(piece)
            size += len(piece)
            if size >= _LEAST_BYTES:
                yield joined[0] if len(joined) == 1 else b"".join(joined)
                joined, size = [], 0
        if joined:
            yield b"".join(joined)

    def _read(self, at: int) -> bytes:
        assert self._file is not None
        with _disk_errors():
            return os.pread(self._file.fileno(), min(_BATCH_BYTES, self._in_file - at), at)


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Raise StoreUnavailable for an error of our own disk, which must not look like a client that left."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(what=f"the upload cannot be kept: {error.strerror}") from error


async def read_upload(scope: Scope, receive: Receive, upload: Upload) -> None:
    """Fill `upload` from a form. Raises ClientProtocolError, TooLarge, or OSError when the client leaves."""
    content_type = header(scope, b"content-type") or b""
    if not content_type.lower().startswith(b"multipart/form-data"):
        raise ClientProtocolError(what="send the audio as multipart/form-data", param="content-type")
    decoder = multipart.MultipartDecoder(multipart.boundary_of(content_type))
    more = True
    while more:
        data, more = await _receive(receive)
        for event in decoder.feed(data):
            await _store(event, upload)
    decoder.end()


async def read_raw_upload(scope: Scope, receive: Receive, upload: Upload) -> None:
    """Fill `upload` from a body that is the audio itself. Raises like `read_upload`."""
    upload.begin("", (header(scope, b"content-type") or b"").decode("latin-1"))
    more = True
    while more:
        data, more = await _receive(receive)
        if data:
            await upload.write(data)


async def _receive(receive: Receive) -> tuple[bytes, bool]:
    """Return the next piece of a body, and whether more follow."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ConnectionResetError("the client left before its upload was complete")
    return message.get("body", b""), bool(message.get("more_body"))


async def _store(event: multipart.Part, upload: Upload) -> None:
    match event:
        case multipart.Field():
            upload.fields.append((event.name, event.value))
        case multipart.FileStart():
            if upload.has_file:
                raise ClientProtocolError(what="one file per request", param=event.name)
            upload.begin(event.filename, event.content_type)
        case multipart.FileData():
            await upload.write(event.data)
