"""Uploads: a form's fields in memory, the file spooled.

The fields that decide the route may come after the file (some SDKs send it first), and a fallback must send the audio
again. So the file goes to a spool as it arrives (memory up to a megabyte, then a temporary file) and upstreams read it from
there in pieces: a large one is never in memory at once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import TracebackType

import trio

from gw.dialects.request_io import header
from gw.errors import ClientProtocolError, StoreUnavailable
from gw.types.asgi import Receive, Scope
from gw.types.audio import AudioFormat
from gw.wire import multipart
from gw.wire.durations import LengthMeter

_IN_MEMORY_BYTES = 1024 * 1024
_PIECE_BYTES = 64 * 1024


class Upload:
    """A spooled file and the form's fields. Use as an async context manager; leaving it deletes the spool."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, str]] = []
        self.filename = "audio"
        self.content_type = "application/octet-stream"
        self.size = 0
        self.has_file = False
        self._meter = LengthMeter()
        self._spool = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115  # closed in __aexit__

    async def __aenter__(self) -> Upload:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()

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
        self.size += len(data)
        if self.size <= _IN_MEMORY_BYTES:
            self._append(data)
        else:
            await trio.to_thread.run_sync(self._append, data)

    def _append(self, data: bytes) -> None:
        self._meter.feed(data)
        with _disk_errors():
            self._spool.write(data)
            self._spool.flush()  # `_read` goes past Python's buffer

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the file from its beginning; each iteration has a position of its own, so two candidates may read at once."""
        at = 0
        while at < self.size:
            if self.size <= _IN_MEMORY_BYTES:
                self._spool.seek(at)
                piece = self._spool.read(_PIECE_BYTES)
            else:
                piece = await trio.to_thread.run_sync(self._read, at)
            at += len(piece)
            yield piece

    def _read(self, at: int) -> bytes:
        with _disk_errors():
            return os.pread(self._spool.fileno(), _PIECE_BYTES, at)


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
