"""What the edge itself answers when a request never reaches an app: a status and the usual JSON error body."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import msgspec

REASONS = {
    200: b"OK",
    201: b"Created",
    202: b"Accepted",
    204: b"No Content",
    206: b"Partial Content",
    301: b"Moved Permanently",
    302: b"Found",
    304: b"Not Modified",
    400: b"Bad Request",
    401: b"Unauthorized",
    402: b"Payment Required",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    409: b"Conflict",
    413: b"Content Too Large",
    414: b"URI Too Long",
    415: b"Unsupported Media Type",
    417: b"Expectation Failed",
    422: b"Unprocessable Content",
    426: b"Upgrade Required",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}
_TYPES = {408: "Timeout", 413: "TooLarge", 414: "TooLarge", 431: "TooLarge", 500: "InternalError", 503: "Overloaded"}
_CODES = {
    408: "timeout",
    413: "too_large",
    414: "too_large",
    431: "too_large",
    500: "internal_error",
    503: "overloaded",
}

Headers = list[tuple[bytes, bytes]]


class Refused(Exception):
    """The request is answered with `status` and the connection closed. `message` quotes nothing of the request."""

    def __init__(self, status: int, message: str, *, retry_after_s: int = 0, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s
        self.request_id = uuid.uuid4().hex
        self._more = headers or []

    @property
    def body(self) -> bytes:
        error: dict[str, object] = {
            "type": _TYPES.get(self.status, "ClientProtocolError"),
            "code": _CODES.get(self.status, "invalid_request"),
            "message": self.message,
            "param": None,
            "request_id": self.request_id,
        }
        if self.retry_after_s:
            error["retry_after_s"] = self.retry_after_s
        return msgspec.json.encode({"error": error})

    @property
    def headers(self) -> Headers:
        """Everything but content-length and connection."""
        found = [(b"content-type", b"application/json"), (b"x-request-id", self.request_id.encode()), *self._more]
        if self.retry_after_s:
            found.append((b"retry-after", b"%d" % self.retry_after_s))
        return found

    def response(self, *, with_body: bool = True) -> bytes:
        """A whole HTTP/1.1 response that closes the connection."""
        return whole_response(self.status, self.headers, self.body, with_body=with_body)


def whole_response(
    status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, *, with_body: bool = True
) -> bytes:
    """HTTP/1.1 bytes of a response that closes its connection. Raises ValueError for a header with a line break."""
    fields = [(name, value) for name, value in headers if name not in (b"content-length", b"connection")]
    if any(b"\r" in part or b"\n" in part for field in fields for part in field):
        raise ValueError("a response header holds a line break")
    lines = [b"HTTP/1.1 %d %b" % (status, REASONS.get(status, b"Status"))]
    lines += [b"%b: %b" % field for field in fields]
    lines += [b"content-length: %d" % len(body), b"connection: close", b"", body if with_body else b""]
    return b"\r\n".join(lines)


def overloaded(message: str = "the gateway has reached its limit of requests in flight") -> Refused:
    return Refused(503, message, retry_after_s=1)


def crashed(request_id: str = "") -> Refused:
    """The app failed before it answered. `request_id` is the one its log line carries."""
    refusal = Refused(500, "the gateway failed while handling this request")
    refusal.request_id = request_id or refusal.request_id
    return refusal
