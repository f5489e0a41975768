"""Reading requests and sending responses over ASGI."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable

import trio

from gw.errors import ClientProtocolError, TooLarge, one_error
from gw.types.asgi import Message, Receive, Scope, Send

Headers = list[tuple[bytes, bytes]]


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first value of the header `name` (lower case)."""
    for key, value in scope["headers"]:
        if key == name:
            result: bytes = value
            return result
    return None


def content_coding(scope: Scope) -> bytes | None:
    """Return the value of Content-Encoding. That a head has none is noted, for requests with the same head."""
    known = scope.get("gw.known")
    if known is None:
        return header(scope, b"content-encoding")
    if "plain" not in known:
        known["plain"] = header(scope, b"content-encoding") is None
    return None if known["plain"] else header(scope, b"content-encoding")


def raw_path(scope: Scope) -> bytes:
    """Return the path as sent, percent-encoded, without its query."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0]


_BOM = b"\xef\xbb\xbf"
_GZIP = (b"gzip", b"x-gzip")


def inflating(coding: bytes, receive: Receive, limit_bytes: int) -> Receive:
    """Return `receive` for a request whose body is gzip, else the same; `coding` is its Content-Encoding.

    The result raises TooLarge above `limit_bytes`, whatever the body inflates to, and ClientProtocolError for other codings.
    """
    coding = coding.strip().lower()
    if coding in (b"", b"identity"):
        return receive
    if coding not in _GZIP:
        raise ClientProtocolError(what="the body may be compressed with gzip only", param="content-encoding")
    inflate = zlib.decompressobj(wbits=31)
    taken = 0

    async def receive_inflated() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] != "http.request":
            return message
        try:
            data = inflate.decompress(message.get("body", b""), limit_bytes - taken + 1)
        except zlib.error:
            raise ClientProtocolError(what="the body is not gzip", param="content-encoding") from None
        taken += len(data)
        if taken > limit_bytes:
            what = f"the request body inflates to more than {limit_bytes} bytes (serve.max_body_mb)"
            raise TooLarge(what=what, limit_bytes=limit_bytes)
        if not message.get("more_body") and not inflate.eof:
            raise ClientProtocolError(what="the gzip body ends too early", param="content-encoding")
        return {**message, "body": data}

    return receive_inflated


async def read_body(receive: Receive) -> bytes:
    """Read the request body, without a byte order mark. Raises what the host raises, such as TooLarge; OSError when the client
    leaves before its end."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.disconnect" or message.get("more_body"):
        body = await _remainder(message, receive)
    return body[3:] if body.startswith(_BOM) else body


async def _remainder(message: Message, receive: Receive) -> bytes:
    """Read the rest of a body, of which `message` is the first; return all of it."""
    parts: list[bytes] = []
    while True:
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client left before its request was complete")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()


async def send_response(send: Send, status: int, content_type: bytes, body: bytes, headers: Headers) -> None:
    head = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def send_start(send: Send, content_type: bytes, headers: Headers) -> Awaitable[None]:
    return send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", content_type), *headers]})


def send_body(send: Send, body: bytes, *, more: bool) -> Awaitable[None]:
    return send({"type": "http.response.body", "body": body, "more_body": more})


def cancels(scope: Scope) -> bool:
    """Return whether the host cancels the app when the client leaves."""
    return "gw.cancels" in scope.get("extensions", ())


async def until_disconnect(receive: Receive, work: Awaitable[None]) -> None:
    """Await `work`, cancelled when the client leaves first: for hosts that do not cancel the app themselves."""

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        nursery.cancel_scope.cancel()

    with one_error():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await work
            nursery.cancel_scope.cancel()
