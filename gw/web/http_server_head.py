"""HTTP/1.1 request framing: where a head ends, its fields, and where its body ends. RFC 9112, sections 2 to 7.

The connection cuts the head out of its buffer and gives exactly that to httptools, whose strict grammar refuses bare
LF, obs-fold, a space before the colon, two lengths, a length beside chunks. Bodies are framed here, because httptools
does not report at which byte a message ended, and the next request may follow it.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import httptools

from gw.net.http_chunks import ChunkedBody, MalformedChunks
from gw.web.http_errors import Refused

HEAD_BYTES = 65_536
HEADER_FIELDS = 200
TARGET_BYTES = 16_384
_LINE_BYTES = TARGET_BYTES + 64  # request line: the target with a method and a version around it

_LENGTH = re.compile(rb"\r\ncontent-length:[\t ]*([0-9]{1,15})[\t ]*\r\n", re.IGNORECASE)
_FRAMING = frozenset((b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"expect"))
_LISTS = frozenset((b"transfer-encoding", b"connection"))  # fields that continue where they are repeated


def head_end(buffer: bytearray, searched: int = 0) -> int:
    """Return the index after the blank line, or -1 while the head is incomplete. `searched` bytes were searched before.

    Raises Refused as soon as the bytes cannot become an acceptable head.
    """
    end = buffer.find(b"\r\n\r\n", searched - 3 if searched > 3 else 0)
    if 0 <= end <= HEAD_BYTES - 4:
        return end + 4
    line_end = buffer.find(b"\n", 0, _LINE_BYTES)
    if line_end < 0 and len(buffer) >= _LINE_BYTES:
        raise Refused(414, "the request line is too long")
    if line_end == 0 or (line_end > 0 and buffer[line_end - 1] != 13):
        raise Refused(400, "lines of a request end in CR LF")
    if end >= 0 or len(buffer) > HEAD_BYTES:
        raise Refused(431, "the request head is too large")
    if buffer and not (65 <= buffer[0] <= 90):
        raise Refused(400, "this is not an HTTP/1.1 request")
    return -1


def _origin_form(target: bytes) -> bytes:
    """Return path and query of an absolute-form target (RFC 9112 3.2.2), other forms unchanged."""
    if target.startswith(b"/") or target[:4].lower() != b"http":
        return target
    _, scheme_end, authority = target.partition(b"://")
    if not scheme_end:
        return target
    slash = authority.find(b"/")
    return authority[slash:] if slash >= 0 else b"/"


class Head:
    """One parsed request head; httptools calls `on_url` and `on_header`."""

    __slots__ = (
        "_after", "_at", "_before", "_length", "_target", "body", "expects", "facts", "headers", "keep", "method", "query", "raw_path",
        "scope", "upgrade", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []  # names in lower case, in the order received
        self._target = b""
        self.method = b""
        self.version = "1.1"
        self.raw_path = b""
        self.query = b""
        self.keep = True
        self.expects = False
        self.upgrade = b""  # the requested protocol in lower case, if the `connection` field lists `upgrade`
        self.body: BodyFraming
        self.scope: dict[str, Any] | None = None  # the ASGI scope, made once for all requests with this head
        self.facts: dict[str, Any] = {}  # what was made out of it, for all requests with this head (`gw.types.asgi`)
        self._before: bytes | None = None  # what was sent before the content-length, if `again` is to know it
        self._length = self._after = b""
        self._at = 0

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value.strip(b" \t")))

    @property
    def path(self) -> str:
        path = self.raw_path.decode("latin-1")
        return unquote(path) if "%" in path else path

    @property
    def target(self) -> str:
        """Return the path and query as they were sent."""
        target = self.raw_path + b"?" + self.query if self.query else self.raw_path
        return target.decode("latin-1")

    def check(self) -> None:
        """Check the request line and read the fields that frame the message. Raises Refused."""
        if self.version not in ("1.0", "1.1"):
            raise Refused(400, "only HTTP/1.1 is supported")
        if len(self.headers) > HEADER_FIELDS:
            raise Refused(431, "the request has too many header fields")
        if len(self._target) > TARGET_BYTES:
            raise Refused(414, "the request target is too long")
        self.raw_path = path = _origin_form(self._target)
        if b"?" in path or b"#" in path:
            self.raw_path, _, self.query = path.partition(b"#")[0].partition(b"?")
        if self.method == b"CONNECT" or not self.raw_path.startswith((b"/", b"*")):
            raise Refused(400, "the request target must be a path")
        self._framing()

    def _framing(self) -> None:
        hosts, fields = 0, dict[bytes, bytes]()
        for name, value in self.headers:
            if name in _FRAMING:
                hosts += name == b"host"
                fields[name] = fields[name] + b"," + value if name in _LISTS and name in fields else value
        connection, upgrade = fields.get(b"connection", b"").lower(), fields.get(b"upgrade", b"").lower()
        encoding = fields.get(b"transfer-encoding", b"")
        if b"expect" in fields:
            if fields[b"expect"].lower() != b"100-continue":
                raise Refused(417, "this expectation is not supported")
            self.expects = self.version == "1.1"
        if hosts > 1 or (not hosts and self.version == "1.1"):
            raise Refused(400, "exactly one Host header is required")
        if encoding and (encoding.lower() != b"chunked" or self.version == "1.0"):
            raise Refused(400, "the only supported transfer-encoding is chunked")
        self.keep = self.version == "1.1"
        if connection:
            tokens = [token.strip() for token in connection.split(b",")]
            self.keep = self.keep and b"close" not in tokens
            if upgrade and b"upgrade" in tokens:
                self.upgrade = upgrade  # other protocols than WebSocket, such as the JDK's h2c, are ignored: RFC 9110 7.8
        self.body = BodyFraming(int(fields.get(b"content-length", b"0")), chunked=bool(encoding))

    def remember(self, before: bytes, length: bytes, after: bytes) -> None:
        """Note how this head was sent (`without_length`), for `again`. Its body is not chunked."""
        self._before, self._length, self._after = before, length, after
        if length:
            self._at = [name for name, _ in self.headers].index(b"content-length")

    def copy(self) -> Head:
        """Return the same head for another connection, whose own body `again` sets."""
        copied = Head()
        copied._target, copied.headers, copied.facts, copied.body = self._target, self.headers, self.facts, self.body
        copied.method, copied.version, copied.raw_path, copied.query = self.method, self.version, self.raw_path, self.query
        copied.keep, copied.expects, copied.upgrade = self.keep, self.expects, self.upgrade
        copied._before, copied._length, copied._after, copied._at = self._before, self._length, self._after, self._at
        return copied

    def again(self, data: bytes) -> bool:
        """Return whether `data` is this head but for its content-length, as most clients send it; then this is the head of the request.

        The request before has ended.
        """
        before, after = self._before, self._after
        if before is None or not (data.startswith(before) and data.endswith(after)):
            return False
        length = data[len(before) : len(data) - len(after)]
        if length != self._length:
            if not length.isdigit() or len(length) > 15 or not self._length:
                return False
            self._length = length
            self.headers = headers = self.headers.copy()  # the app may have kept those of the request before
            headers[self._at] = (b"content-length", length)
            if self.scope is not None:
                self.scope["headers"] = headers
        self.body = BodyFraming(int(length or b"0"))
        return True

    def let_go(self) -> None:
        """Keep the fields and what is made of them no longer: they take kilobytes, and the answer may take minutes."""
        self._before = self.scope = None
        self.headers, self.facts = [], {}
        self._target = self._after = self._length = self.query = b""


def without_length(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a head up to its content-length, the digits of that, and what follows them; all of it, and nothing, where it has none."""
    match = _LENGTH.search(data)
    if match is None:
        return data, b"", b""
    begins, ends = match.span(1)
    return data[:begins], match[1], data[ends:]


def parse_head(data: bytes) -> Head:
    """Parse one complete head, blank line included. Raises Refused."""
    if data.startswith(b"PRI * HTTP/2"):
        raise Refused(400, "HTTP/2 is not supported")
    head = Head()
    parser = httptools.HttpRequestParser(head)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass  # reports where the head ended, which is known
    except httptools.HttpParserError as error:
        if len(head.headers) > HEADER_FIELDS:
            raise Refused(431, "the request has too many header fields") from error
        raise Refused(400, "the request head is malformed") from error
    head.method = parser.get_method()
    head.version = parser.get_http_version()
    head.check()
    return head


class BodyFraming:
    """Cuts one request body out of the connection's buffer and leaves what follows it."""

    __slots__ = ("_chunks", "_left", "done")

    def __init__(self, length: int = 0, *, chunked: bool = False) -> None:
        self._chunks = ChunkedBody() if chunked else None
        self._left = length
        self.done = not chunked and not length

    @property
    def chunked(self) -> bool:
        return self._chunks is not None

    @property
    def left(self) -> int | None:
        """Return the number of bytes still to come; None while that is unknown (chunks)."""
        return 0 if self.done else None if self.chunked else self._left

    @property
    def at_least(self) -> int:
        """Return a number of bytes that are sure to belong to the body; 0 if it comes in chunks."""
        return 0 if self.chunked else self._left

    def count(self, size: int) -> None:
        """Note that `size` bytes of the body, at most `at_least`, have been received past the buffer."""
        self._left -= size
        self.done = not self._left

    def take(self, buffer: bytearray) -> bytes:
        """Remove and return the body bytes at the buffer's start; b"" when none have arrived. Raises Refused."""
        if self._chunks is not None:
            return self._take_chunks(self._chunks, buffer)
        if len(buffer) <= self._left:  # all of it, in one copy
            data = bytes(buffer)
            buffer.clear()
        else:
            data = bytes(buffer[: self._left])
            del buffer[: self._left]
        self._left -= len(data)
        self.done = not self._left
        return data

    def _take_chunks(self, chunks: ChunkedBody, buffer: bytearray) -> bytes:
        pieces: list[bytes] = []
        try:
            chunks.take(buffer, pieces)
        except MalformedChunks as error:
            raise Refused(400, f"the chunked body is malformed: {error}") from error
        self.done = chunks.done
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
