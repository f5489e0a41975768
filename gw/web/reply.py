"""Answers of the control plane, every failure as an answer, and how they are sent.

The body of a failure is the gateway's own (OpenAI-shaped, with the facts of the error as further members), made where the
data plane makes it, so that both planes agree. Only the status of a faulty request differs: 422 here, 400 there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import structlog
import trio

from gw.dialects import error_bodies
from gw.errors import GwError
from gw.store.chunked_body import Encoded, in_pieces
from gw.types.asgi import Send
from gw.wire import openai_chat

_log = structlog.get_logger("gw.web")

Headers = Sequence[tuple[bytes, bytes]]

JSON = b"application/json"
NOT_CACHED = (b"cache-control", b"no-store")

StreamedBody = AbstractAsyncContextManager[AsyncIterator[bytes]]
"""A body without end; entered before the answer begins and left however it ends."""


class Reply(msgspec.Struct):
    """`headers` do not include content type (b"" = none) and length."""

    body: bytes | Encoded | StreamedBody
    content_type: bytes = JSON
    headers: Headers = ()
    status: int = 200

    async def send(self, send: Send, headers: Headers, *, head: bool = False) -> None:
        """Send the answer with further `headers`; no body in answer to a HEAD request.

        A long body goes out in pieces, and other tasks run between them.
        """
        body = self.body
        fields = [(b"content-type", self.content_type)] if self.content_type else []
        if not isinstance(body, bytes | Encoded):
            await self._stream(body, send, [*fields, *self.headers, *headers], head=head)
            return
        parts = body.pieces if isinstance(body, Encoded) else (body,)
        remaining = sum(map(len, parts))
        fields += [(b"content-length", b"%d" % remaining), *self.headers, *headers]
        await send({"type": "http.response.start", "status": self.status, "headers": fields})
        if head or not remaining:
            await send({"type": "http.response.body", "body": b""})
            return
        for piece in (piece for part in parts if part for piece in in_pieces(part)):
            remaining -= len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": remaining > 0})
            if remaining:
                await trio.lowlevel.checkpoint()

    async def _stream(self, body: StreamedBody, send: Send, headers: Headers, *, head: bool) -> None:
        start: Any = {"type": "http.response.start", "status": self.status, "headers": headers}
        if not head:
            async with body as pieces:
                await send(start)
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        else:
            await send(start)
        await send({"type": "http.response.body", "body": b""})


def json_reply(value: object, status: int = 200, headers: Headers = ()) -> Reply:
    """Encode `value`, unless it is encoded already. Not to be cached: it describes this moment."""
    body = value if isinstance(value, Encoded) else msgspec.json.encode(value)
    return Reply(body, headers=[NOT_CACHED, *headers], status=status)


def gateway_error(error: GwError, request_id: str) -> Reply:
    headers = [*error_bodies.headers_of(error), *([(b"www-authenticate", b"Bearer")] if error.status == 401 else ())]
    return Reply(error_bodies.body_of(error, request_id), headers=headers, status=error.status)


def not_found(request_id: str) -> Reply:
    return _failure(404, "NotFound", "not_found", "Not Found", request_id)


def method_not_allowed(methods: Iterable[str], request_id: str) -> Reply:
    """Return a 405; `methods` are those that the path has."""
    allow = (b"allow", ", ".join(methods).encode())
    return _failure(405, "MethodNotAllowed", "method_not_allowed", "Method Not Allowed", request_id, allow)


def unexpected_error(error: BaseException, request_id: str) -> Reply:
    """Log a fault of ours with all details; the caller gets the id of the log line."""
    _log.error("request_failed", request_id=request_id, exc_info=error)
    message = "the gateway failed while handling this request"
    return _failure(500, "InternalError", "internal_error", message, request_id)


def _failure(status: int, kind: str, code: str, message: str, request_id: str, *headers: tuple[bytes, bytes]) -> Reply:
    body = openai_chat.error_body(type=kind, code=code, message=message, request_id=request_id)
    return Reply(body, headers=headers, status=status)
