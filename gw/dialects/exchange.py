"""One request over HTTP as the handlers of dialects see it, and the protocol that it came in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from gw.dialects import error_bodies, request_io
from gw.dialects.keepalive import KeepAlive
from gw.dialects.request_io import Headers
from gw.dialects.upload import Upload
from gw.errors import GwError
from gw.gateway import Gateway
from gw.relay.large_requests import LARGE_BYTES
from gw.types.asgi import Receive, Scope, Send
from gw.types.ids import Caller
from gw.types.pending import Pending
from gw.wire import sse

T = TypeVar("T")


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Protocol of a caller. Answers of providers with the same dialect `name` pass through unchanged.

    `error_body` returns the body of a failed response for an error and the request's id; `in_band` frames such a body once
    the head of a streamed response has been sent.
    """

    name: str
    error_body: Callable[[GwError, str], bytes] = error_bodies.vendor_body_of
    status_of: Callable[[GwError], int] = error_bodies.status_of
    in_band: Callable[[bytes], bytes] = sse.encode
    id_headers: tuple[bytes, ...] = (b"x-request-id",)


def id_headers(dialect: Dialect, request_id: str) -> Headers:
    """Return the headers that name a request to its caller."""
    value = request_id.encode()
    return [(name, value) for name in dialect.id_headers]


class HttpExchange(msgspec.Struct, eq=False):
    """One request. `started`: the head of an unstreamed response has been sent, so a failure can only cut it."""

    dialect: Dialect
    gateway: Gateway
    keepalive: KeepAlive
    scope: Scope
    receive: Receive
    send: Send
    caller: Caller
    started: bool = False

    @property
    def id_headers(self) -> Headers:
        return id_headers(self.dialect, self.caller.request_id)

    @property
    def query(self) -> bytes:
        query: bytes = self.scope.get("query_string", b"")
        return query

    def body(self) -> Awaitable[bytes]:
        """Read the body. Raises TooLarge."""
        return request_io.read_body(self.receive)

    def upload(self) -> Upload:
        """Return a place for an upload that ends with this request."""
        return Upload(self.gateway.relay.in_flight.upload_memory)

    async def decoded(self, decode: Callable[[bytes], T]) -> T:
        """Read and decode the body, a large one in a thread. Raises TooLarge and what `decode` raises."""
        body = await request_io.read_body(self.receive)
        if len(body) <= LARGE_BYTES:
            return decode(body)
        return await self.gateway.relay.in_flight.large.in_thread(partial(decode, body))


Handler = Callable[[HttpExchange], Awaitable[Pending]]
"""Answers a request, or returns the wait for its answer: a handler that has ended holds nothing while a long answer streams."""

Routes: TypeAlias = Mapping[tuple[str, str], Handler]
"""Method and path → handler."""
