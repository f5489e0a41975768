"""multipart/form-data (RFC 7578, RFC 2046 §5.1), both directions, without buffering the file.

Theory of operation: the body is read as if it started with CRLF, so that every delimiter is `CRLF -- boundary`. Bytes of a file
are passed on at once, except a tail that is the start of a delimiter: a piece without a delimiter is not copied, and once where
a delimiter or such a tail stands in it or before it. Fields are small and are buffered.

    PREAMBLE -- delimiter --> DELIMITER -- line end --> HEADERS -- with a filename --> FILE  -- delimiter --> DELIMITER
                              DELIMITER -- "--" -->     DONE       without         --> FIELD -- delimiter --> DELIMITER

Names and values are UTF-8; browsers escape `"`, CR
and LF in names as %22, %0D and %0A (WHATWG HTML, "multipart/form-data encoding algorithm").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from gw.errors import ClientProtocolError, TooLarge
from gw.wire import byte_search

_DISPOSITION = re.compile(r'(?is)(?<=[;\s])(name\*?|filename\*?)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_BOUNDARY = re.compile(rb'(?i);[ \t]*boundary=(?:"([^"\r\n]+)"|([^\s;"]+))')
_ESCAPES = (("%22", '"'), ("%0D", "\r"), ("%0A", "\n"))
_TO_ESCAPE = re.compile('["\r\n]')


class Field(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: str


class FileStart(msgspec.Struct, frozen=True, kw_only=True):
    """A file begins; `content_type` is "" if the part has none."""

    name: str
    filename: str
    content_type: str


class FileData(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes


Part: TypeAlias = Field | FileStart | FileData


class MultipartDecoder:
    """Body bytes in, parts out. A part with a filename is a file; any other is a field and must fit in memory."""

    def __init__(
        self, boundary: bytes, *, max_parts: int = 256, max_header_bytes: int = 16_384, max_field_bytes: int = 262_144
    ) -> None:
        self._delimiter = b"\r\n--" + boundary
        self._max_parts, self._max_header_bytes, self._max_field_bytes = max_parts, max_header_bytes, max_field_bytes
        self._buffer = bytearray(b"\r\n")
        self._step = MultipartDecoder._preamble   # not a bound method, which would be a reference cycle
        """Consumes one element of the buffer, and adds its part; returns False if more bytes are needed."""
        self._name = ""
        self._parts = 0
        self._field_bytes = 0
        self._searched = 0   # no delimiter begins before this in the field being collected
        self._skip = 0       # bytes at the front of a file's buffer that belong to the headers

    def feed(self, data: bytes) -> list[Part]:
        """Return the parts that `data` completes. Raises ClientProtocolError (malformed), TooLarge (over a limit)."""
        parts: list[Part] = []
        if self._step is not MultipartDecoder._done:
            if not self._pass_on(data, parts):
                self._buffer += data
            while self._step(self, parts):
                pass
        return parts

    def _pass_on(self, data: bytes, parts: list[Part]) -> bool:
        """Add what is held back of the file, and `data` up to a delimiter or a tail to hold back; False outside of a file.

        The buffer then begins after the delimiter, or with that tail.
        """
        held, delimiter = self._buffer, self._delimiter
        if self._step is not MultipartDecoder._file or self._skip or len(data) < len(delimiter):
            return False
        if held and delimiter in held + data[: len(delimiter) - 1]:
            return False
        at = byte_search.find(data, delimiter)
        keep = at if at >= 0 else _tail_at(data, delimiter)
        piece = data if not held and keep == len(data) else b"".join((held, memoryview(data)[:keep]))
        if piece:
            parts.append(FileData(data=piece))
        if at >= 0:
            self._step = MultipartDecoder._after_delimiter
            keep += len(delimiter)
        self._buffer = bytearray(memoryview(data)[keep:])
        return True

    @property
    def held_of_file(self) -> int | None:
        """Return how many bytes of a file are held back, as they may belong to a delimiter; None outside of a file."""
        return len(self._buffer) - self._skip if self._step is MultipartDecoder._file else None

    def end(self) -> None:
        """End the body. Raises ClientProtocolError if the closing delimiter has not come."""
        if self._step is not MultipartDecoder._done:
            raise ClientProtocolError(what="the multipart body ends without its closing boundary")

    def _done(self, parts: list[Part]) -> bool:
        return False

    def _preamble(self, parts: list[Part]) -> bool:
        at = self._buffer.find(self._delimiter)
        if at < 0:
            _cap(len(self._buffer), self._max_header_bytes + len(self._delimiter), "the text before the first part")
            return False
        del self._buffer[: at + len(self._delimiter)]
        self._step = MultipartDecoder._after_delimiter
        return True

    def _after_delimiter(self, parts: list[Part]) -> bool:
        buffer = self._buffer
        if buffer.startswith(b"--"):
            buffer.clear()
            self._step = MultipartDecoder._done
            return False
        if len(buffer) < 2:
            return False
        at = buffer.find(b"\r\n", 0, 256)
        if buffer[: at if at >= 0 else 256].strip(b" \t\r"):
            raise ClientProtocolError(what="a multipart boundary is followed by other text")
        if at < 0:
            _cap(len(buffer), 256, "the line of a multipart boundary")
            return False
        del buffer[:at]   # the CRLF stays: headers end with an empty line, even if there are none
        self._parts += 1
        if self._parts > self._max_parts:
            raise TooLarge(what=f"the form has more than {self._max_parts} parts")
        self._step = MultipartDecoder._headers
        return True

    def _headers(self, parts: list[Part]) -> bool:
        at = self._buffer.find(b"\r\n\r\n", 0, self._max_header_bytes + 4)
        if at < 0:
            _cap(len(self._buffer), self._max_header_bytes, "the header of a form part")
            return False
        headers = _header_lines(bytes(self._buffer[2:at]))
        del self._buffer[: at + 2]   # the CRLF stays, so that a delimiter right after the headers is seen
        name, filename = _disposition(headers.get("content-disposition", ""))
        if filename is None:
            self._name = name
            self._searched = 0
            self._step = MultipartDecoder._field
        else:
            parts.append(FileStart(name=name, filename=filename, content_type=headers.get("content-type", "")))
            self._step = MultipartDecoder._file
            self._skip = 2
        return True

    def _field(self, parts: list[Part]) -> bool:
        at = self._buffer.find(self._delimiter, self._searched)
        size = max(0, (len(self._buffer) if at < 0 else at) - 2)
        _cap(size, self._max_field_bytes + (len(self._delimiter) if at < 0 else 0), f"form field {self._name!r}")
        if at < 0:
            self._searched = max(0, len(self._buffer) - len(self._delimiter))
            return False
        self._field_bytes += size
        _cap(self._field_bytes, 4 * self._max_field_bytes, "the form's fields")
        try:
            value = bytes(self._buffer[2:at]).decode()
        except UnicodeDecodeError:
            raise ClientProtocolError(what="a form field is not UTF-8", param=self._name) from None
        parts.append(Field(name=self._name, value=value))
        del self._buffer[: at + len(self._delimiter)]
        self._step = MultipartDecoder._after_delimiter
        return True

    def _file(self, parts: list[Part]) -> bool:
        buffer, delimiter = self._buffer, self._delimiter
        at = buffer.find(delimiter)
        if at >= 0:
            if at > self._skip:
                parts.append(FileData(data=_part_of(buffer, self._skip, at)))
            del buffer[: at + len(delimiter)]
            self._step = MultipartDecoder._after_delimiter
            return True
        keep = _tail_at(buffer, delimiter)
        if keep > self._skip:
            parts.append(FileData(data=_part_of(buffer, self._skip, keep)))
            del buffer[:keep]
            self._skip = 0
        return False


def _part_of(buffer: bytearray, begin: int, end: int) -> bytes:
    """Return a part of the buffer, copied once."""
    with memoryview(buffer) as view:
        return bytes(view[begin:end])


def _tail_at(data: bytes | bytearray, delimiter: bytes) -> int:
    """Return where the longest end of `data` begins with which a delimiter begins; the length of `data` if none does."""
    at = data.find(b"\r", max(0, len(data) - len(delimiter) + 1))
    while at >= 0 and not delimiter.startswith(bytes(data[at:])):
        at = data.find(b"\r", at + 1)
    return len(data) if at < 0 else at


def _cap(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise TooLarge(what=f"{what} is larger than {limit} bytes", limit_bytes=limit)


def _header_lines(block: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in block.decode("utf-8", "replace").split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return headers


def _disposition(value: str) -> tuple[str, str | None]:
    """Return name, and filename or None. Raises ClientProtocolError for a part that is not form-data."""
    parameters: dict[str, str] = {}
    for match in _DISPOSITION.finditer(value):
        quoted = match[2]
        text = match[3] if quoted is None else quoted.replace('\\"', '"')
        parameters.setdefault(match[1].lower(), _unescaped(text) if "%" in text else text)
    if not value.lower().startswith("form-data") or "name" not in parameters:
        raise ClientProtocolError(what="a form part has no name")
    extended = parameters.get("filename*")
    return parameters["name"], parameters.get("filename") if extended is None else extended.rpartition("'")[2]


def _unescaped(text: str) -> str:
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    return text


def boundary_of(content_type: bytes) -> bytes:
    """Return the boundary of a `multipart/form-data` content type. Raises ClientProtocolError."""
    match = _BOUNDARY.search(content_type)
    if not content_type.strip().lower().startswith(b"multipart/form-data") or match is None:
        raise ClientProtocolError(what="expected multipart/form-data with a boundary")
    boundary = match[1] or match[2]
    if len(boundary) > 200:
        raise ClientProtocolError(what="the multipart boundary is longer than 200 bytes")
    return boundary


def encode_form(
    fields: Iterable[tuple[str, str]], *, file_name: str, file_content_type: str, boundary: bytes, file_field: str = "file"
) -> tuple[bytes, bytes]:
    """Return the bytes before and after those of the part `file_field`; fields come first, since vendors stream the file last.

    The caller chooses a boundary that does not occur in the file. `file_content_type` must come from a checked source.
    """
    dashes = b"--" + boundary
    head = [_fields(fields, dashes)]
    content_type = file_content_type.replace("\r", "").replace("\n", "") or "application/octet-stream"
    head.append(
        b'%b\r\nContent-Disposition: form-data; name="%b"; filename="%b"\r\nContent-Type: %b\r\n\r\n'
        % (dashes, file_field.encode(), _escaped(file_name.replace("\\", "_")), content_type.encode("ascii", "replace"))
    )
    return b"".join(head), b"\r\n" + dashes + b"--\r\n"


def encode_fields(fields: Iterable[tuple[str, str]], *, boundary: bytes) -> bytes:
    """Return a form without a file."""
    return _fields(fields, b"--" + boundary) + b"--" + boundary + b"--\r\n"


def _fields(fields: Iterable[tuple[str, str]], dashes: bytes) -> bytes:
    return b"".join([
        b'%b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (dashes, _escaped(name), value.encode())
        for name, value in fields
    ])


def _escaped(name: str) -> bytes:
    if _TO_ESCAPE.search(name) is None:
        return name.encode()
    for escape, character in _ESCAPES:
        name = name.replace(character, escape)
    return name.encode()
