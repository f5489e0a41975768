"""The answers of the host itself when a request never reaches an app: a status and the usual JSON error body."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from http import HTTPStatus

import msgspec

REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
REASONS |= {413: b"Content Too Large", 414: b"URI Too Long", 422: b"Unprocessable Content"}  # RFC 9110; older names before 3.13
_KINDS = {
    404: ("NotFound", "not_found"), 408: ("Timeout", "timeout"), 413: ("TooLarge", "too_large"),
    414: ("TooLarge", "too_large"), 431: ("TooLarge", "too_large"), 500: ("InternalError", "internal_error"),
    503: ("Overloaded", "overloaded"),
}  # fmt: skip
"""`type` and `code` of the error body; ClientProtocolError for every other status."""

Headers = list[tuple[bytes, bytes]]


class Refused(Exception):
    """The request is answered with `status` and the connection closed. `message` quotes nothing of the request.

    `facts` are further members of the error body; `retry_after_s` among them becomes a header as well.
    """

    def __init__(self, status: int, message: str, *, headers: Headers | None = None, **facts: int) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.facts = facts
        self.request_id = uuid.uuid4().hex
        self._headers = headers or []

    @property
    def body(self) -> bytes:
        kind, code = _KINDS.get(self.status, ("ClientProtocolError", "invalid_request"))
        error: dict[str, object] = {"type": kind, "code": code, "message": self.message, "param": None}
        return msgspec.json.encode({"error": error | {"request_id": self.request_id} | self.facts})

    @property
    def headers(self) -> Headers:
        """Return all but content-length and connection."""
        headers = [(b"content-type", b"application/json"), (b"x-request-id", self.request_id.encode()), *self._headers]
        if "retry_after_s" in self.facts:
            headers.append((b"retry-after", b"%d" % self.facts["retry_after_s"]))
        return headers

    def response(self, *, with_body: bool = True) -> bytes:
        """Return a complete HTTP/1.1 response that closes the connection."""
        return closing_response(self.status, self.headers, self.body, with_body=with_body)


def closing_response(
    status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, *, with_body: bool = True
) -> bytes:
    """Return the HTTP/1.1 bytes of a response that closes its connection. Raises ValueError for a header with a line break."""
    fields = [(name, value) for name, value in headers if name not in (b"content-length", b"connection")]
    if any(b"\r" in part or b"\n" in part for field in fields for part in field):
        raise ValueError("a response header holds a line break")
    lines = [b"HTTP/1.1 %d %b" % (status, REASONS.get(status, b"Status"))]
    lines += [b"%b: %b" % field for field in fields]
    lines += [b"content-length: %d" % len(body), b"connection: close", b"", body if with_body else b""]
    return b"\r\n".join(lines)


def overloaded(message: str = "the gateway has reached its limit of requests in flight") -> Refused:
    return Refused(503, message, retry_after_s=1)


def too_large(limit_bytes: int) -> Refused:
    return Refused(413, f"the request body is larger than {limit_bytes} bytes (serve.max_body_mb)", limit_bytes=limit_bytes)


def crashed(request_id: str = "") -> Refused:
    """Return the answer for an app that failed before it answered. `request_id` is the one in its log line."""
    refused = Refused(500, "the gateway failed while handling this request")
    refused.request_id = request_id or refused.request_id
    return refused
