"""Answers of the control plane, and how they are sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import trio

from gw.store.chunked_body import Encoded, in_pieces
from gw.types.asgi import Send

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
