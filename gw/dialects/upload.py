"""Uploads: a form's fields and its file, kept until the request is over.

The fields that decide the route may come after the file (some SDKs send it first), and a fallback must send the audio
again. So the file is kept as it arrives: in memory, as the pieces it came in, while the uploads of the gateway have room there, else
in a temporary file that is written and read a megabyte at a time, since each of those steps needs a thread. It can be read while
it still arrives (`gw.dialects.arriving_upload`).
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
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

    Between `expect` and `end` it arrives: `size` is what was announced, and readers wait for the rest.
    """

    def __init__(self, memory: UploadMemory | None = None) -> None:
        """`memory` may have room for more than a megabyte; give it to uploads that end with their request."""
        self.fields: list[tuple[str, str]] = []
        self.filename = "audio"
        self.content_type = "application/octet-stream"
        self.size = 0
        """Bytes of the file: all that was announced while it arrives, else all that was received."""
        self.received = 0
        self.has_file = False
        self._meter = LengthMeter()
        self._memory = memory
        self._taken = 0  # bytes of `memory`
        self._pieces: list[bytes] = []  # what is not in the file
        self._file: IO[bytes] | None = None
        self._in_file = 0
        self._arriving = False
        self._readers = trio.lowlevel.ParkingLot()  # those that wait for more

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
        """Length of what was written, measured by us; 0.0 if it cannot be. While it arrives: of samples, all of it, else 0.0."""
        return self._meter.seconds_of_samples(self.size) if self._arriving else self._meter.seconds

    def expect(self, size: int) -> None:
        """Let the file be read before its end, which is expected after `size` bytes."""
        self.size, self._arriving = size, True

    def stop_expecting(self) -> None:
        """Take `expect` back, before any reading has begun."""
        self.size, self._arriving = self.received, False

    def end(self) -> bool:
        """Note that all was received. Return whether it has the expected size; if not, readings that have begun never go on."""
        as_expected = self.received == self.size
        self.size, self._arriving = self.received, False
        if as_expected:
            self._readers.unpark_all()
        return as_expected

    async def write(self, data: bytes) -> None:
        """Append to the file. Raises StoreUnavailable."""
        self.received += len(data)
        if not self._arriving:
            self.size = self.received
        self._meter.feed(data)
        self._pieces.append(data)
        in_memory = self._file is None and (self.received <= _ALWAYS_IN_MEMORY_BYTES or self._has_room())
        if not in_memory and (self._file is None or self.received - self._in_file >= _BATCH_BYTES):
            await self._move_to_file()
        if self._arriving and self.received < self.size:  # the last piece waits for `end`
            self._readers.unpark_all()

    def _has_room(self) -> bool:
        """Take memory for all that was written, if there is any."""
        if self._memory is None or not self._memory.take(more := self.received - self._taken):
            return False
        self._taken += more
        return True

    def _free(self) -> None:
        if self._memory is not None:
            self._memory.give_back(self._taken)
            self._taken = 0

    async def _move_to_file(self) -> None:
        moved = len(self._pieces)
        await trio.to_thread.run_sync(self._write_pieces)
        del self._pieces[:moved]
        self._in_file = self.received
        self._free()

    def _write_pieces(self) -> None:
        with _disk_errors():
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed in __aexit__
            for piece in self._pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[self._file.write(rest) :]

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the file from its beginning; each iteration has a position of its own, so two candidates may read at once."""
        at = in_file = next_piece = 0
        expected = self.size
        while True:
            while self._arriving and (at == self.received or self.received >= self.size):
                await self._readers.park()
            if self.size != expected:
                await trio.sleep_forever()  # it ended elsewhere: who reads is about to be cancelled
            if at >= self.size:
                return
            if in_file != self._in_file:
                in_file, next_piece = self._in_file, 0
            if at < in_file:
                piece = await trio.to_thread.run_sync(self._read, at)
            else:
                piece, next_piece = self._joined(next_piece)
            at += len(piece)
            yield piece

    def _joined(self, first: int) -> tuple[bytes, int]:
        """Return pieces in memory from the one with the index `first` on, joined where they are small, and the next index."""
        size = 0
        for index in range(first, len(self._pieces)):
            size += len(self._pieces[index])
            if size >= _LEAST_BYTES:
                break
        else:
            index = len(self._pieces) - 1
        pieces = self._pieces[first : index + 1]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), index + 1

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


class UploadReader(ABC):
    """Reads a request's body into `upload`, piece by piece."""

    def __init__(self, scope: Scope, receive: Receive, upload: Upload) -> None:
        self._receive = receive
        self.upload = upload
        length = header(scope, b"content-length") or b""
        self._left = int(length) if length.isdigit() and header(scope, b"content-encoding") is None else None
        self.more_arrived = False
        """The next `read` does not wait."""

    @property
    def bytes_left(self) -> int:
        """Return how many bytes of the body were announced and not received; 0 if that is unknown."""
        return self._left or 0

    async def read(self) -> bool:
        """Read a piece; return whether more follow. Raises ClientProtocolError, TooLarge, or OSError when the client leaves."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client left before its upload was complete")
        data, more = message.get("body", b""), bool(message.get("more_body"))
        self.more_arrived = message.get("gw.arrived", False)
        if self._left is not None:
            self._left -= len(data)
        await self._add(data)
        if not more:
            self._end()
        return more

    @abstractmethod
    async def _add(self, data: bytes) -> None: ...

    @abstractmethod
    def _end(self) -> None:
        """Note that the body is complete. Raises ClientProtocolError."""

    @property
    @abstractmethod
    def file_size(self) -> int | None:
        """Return how many bytes the file has if nothing comes after it; None if that cannot be said yet."""


class FormReader(UploadReader):
    """Reads a form. The constructor raises ClientProtocolError if the body is not multipart/form-data."""

    def __init__(self, scope: Scope, receive: Receive, upload: Upload) -> None:
        super().__init__(scope, receive, upload)
        content_type = header(scope, b"content-type") or b""
        if not content_type.lower().startswith(b"multipart/form-data"):
            raise ClientProtocolError(what="send the audio as multipart/form-data", param="content-type")
        boundary = multipart.boundary_of(content_type)
        self._closing_bytes = len(b"\r\n--%b--\r\n" % boundary)
        self._decoder = multipart.MultipartDecoder(boundary)

    @property
    def file_size(self) -> int | None:
        held = self._decoder.held_of_file
        return None if held is None or self._left is None else self.upload.received + held + self._left - self._closing_bytes

    async def _add(self, data: bytes) -> None:
        for event in self._decoder.feed(data):
            await _store(event, self.upload)

    def _end(self) -> None:
        self._decoder.end()


class AudioReader(UploadReader):
    """Reads a body that is the audio itself."""

    def __init__(self, scope: Scope, receive: Receive, upload: Upload) -> None:
        super().__init__(scope, receive, upload)
        upload.begin("", (header(scope, b"content-type") or b"").decode("latin-1"))

    @property
    def file_size(self) -> int | None:
        return None if self._left is None else self.upload.received + self._left

    async def _add(self, data: bytes) -> None:
        if data:
            await self.upload.write(data)

    def _end(self) -> None:
        pass


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
