"""The same bytes get the same answer on every path, as the first request of a connection and after any other (RFC 9112).

Four kinds of paths share the connections: the data plane, a read, a change and the live feed.
"""

from __future__ import annotations

import gzip
from contextlib import asynccontextmanager, suppress
from itertools import permutations

import attrs
import pytest
import trio
import trio.testing

from gw.dialects.data_plane import DataPlane
from gw.web.app import make_dispatch
from gw.web.drain import Drain
from gw.web.http_server import HttpServer
from tests.fakes.edge import Client
from tests.fakes.net import StreamTransport
from tests.fakes.temporary_gateway import YAML, open_test_gateway

CHAT = b'{"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}'


@attrs.frozen
class Kind:
    """A path, and a request for it that is answered with 200 and keeps the connection."""

    method: bytes
    path: bytes
    body: bytes = b""

    def raw(
        self, *fields: bytes, method: bytes = b"", target: bytes = b"", version: bytes = b"HTTP/1.1",
        framing: bytes | None = None, body: bytes | None = None,
    ) -> bytes:
        """The request, with parts replaced. `framing`: the field that frames the body; None = its length."""
        body = self.body if body is None else body
        line = b"%b %b %b" % (method or self.method, target or self.path, version)
        lines = [line, b"Host: localhost", b"Content-Type: application/json", *fields]
        if framing is None:
            framing = b"Content-Length: %d" % len(body) if body else b""
        return b"\r\n".join([*lines, *([framing] if framing else []), b"", body])  # fmt: skip

    def chunked(self, size: bytes = b"", extension: bytes = b"", trailer: bytes = b"") -> bytes:
        size = size or b"%x" % len(self.body or b"x")
        body = b"%b%b\r\n%b\r\n0\r\n%b\r\n" % (size, extension, self.body or b"x", trailer)
        return self.raw(framing=CHUNKED, body=body)


KINDS = {
    "data plane": Kind(b"POST", b"/v1/chat/completions", CHAT),
    "read": Kind(b"GET", b"/health"),
    "change": Kind(b"POST", b"/api/logout", b"{}"),
    "live feed": Kind(b"GET", b"/api/live"),
}
BEFORE = KINDS | {"live feed": Kind(b"HEAD", b"/api/live")}
CHUNKED = b"Transfer-Encoding: chunked"
DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate"
UPGRADE = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13", DEFLATE)
KEY = b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg=="

VECTORS = {
    "as it should be": (200, lambda kind: kind.raw()),
    "a blank line before it": (200, lambda kind: b"\r\n\r\n" + kind.raw()),
    "absolute form": (200, lambda kind: kind.raw(target=b"http://localhost" + kind.path)),
    "chunks": (200, lambda kind: kind.chunked()),
    "a short chunk extension": (200, lambda kind: kind.chunked(extension=b";name=value")),
    "a trailer field": (200, lambda kind: kind.chunked(trailer=b"X-One: 1\r\n")),
    "HTTP/1.0": (200, lambda kind: kind.raw(version=b"HTTP/1.0")),
    "HTTP/1.0 without Host": (200, lambda kind: kind.raw(version=b"HTTP/1.0").replace(b"Host: localhost\r\n", b"")),
    "an upgrade nobody knows": (200, lambda kind: kind.raw(b"Connection: Upgrade", b"Upgrade: unknown")),
    "h2c, which is ignored": (200, lambda kind: kind.raw(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AA")),
    "only LF": (400, lambda kind: kind.raw().replace(b"\r\n", b"\n")),
    "one LF after the request line": (400, lambda kind: kind.raw().replace(b"\r\n", b"\n", 1)),
    "one LF after a field": (400, lambda kind: kind.raw(b"X-One: 1\nX-Two: 2")),
    "a CR in a value": (400, lambda kind: kind.raw(b"X-One: 1\r2")),
    "obs-fold": (400, lambda kind: kind.raw(b"X-One: 1\r\n 2")),
    "NUL in a value": (400, lambda kind: kind.raw(b"X-One: \x00")),
    "a control character in a value": (400, lambda kind: kind.raw(b"X-One: \x01")),
    "DEL in a value": (400, lambda kind: kind.raw(b"X-One: \x7f")),
    "a space before the colon": (400, lambda kind: kind.raw(b"X-One : 1")),
    "no name": (400, lambda kind: kind.raw(b": 1")),
    "no colon": (400, lambda kind: kind.raw(b"X-One")),
    "no Host": (400, lambda kind: kind.raw().replace(b"Host: localhost\r\n", b"")),
    "Host twice": (400, lambda kind: kind.raw(b"Host: localhost")),
    "length and chunks": (400, lambda kind: kind.chunked().replace(b"Host:", b"Content-Length: 3\r\nHost:")),
    "two equal lengths": (400, lambda kind: kind.raw(framing=b"Content-Length: 3\r\nContent-Length: 3", body=b"abc")),
    "two different lengths": (400, lambda kind: kind.raw(framing=b"Content-Length: 3\r\nContent-Length: 4", body=b"abcd")),
    "a list of lengths": (400, lambda kind: kind.raw(framing=b"Content-Length: 3, 3", body=b"abc")),
    "a signed length": (400, lambda kind: kind.raw(framing=b"Content-Length: +3", body=b"abc")),
    "a negative length": (400, lambda kind: kind.raw(framing=b"Content-Length: -3", body=b"abc")),
    "a hexadecimal length": (400, lambda kind: kind.raw(framing=b"Content-Length: 0x3", body=b"abc")),
    "gzip": (400, lambda kind: kind.raw(framing=b"Transfer-Encoding: gzip", body=b"abc")),
    "gzip and chunks": (400, lambda kind: kind.raw(framing=b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n")),
    "chunked twice": (400, lambda kind: kind.raw(framing=b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n")),
    "identity": (400, lambda kind: kind.raw(framing=b"Transfer-Encoding: identity", body=b"")),
    "chunks in HTTP/1.0": (400, lambda kind: kind.chunked().replace(b"HTTP/1.1", b"HTTP/1.0")),
    "a chunk size that is not a number": (400, lambda kind: kind.chunked(b"zz")),
    "a chunk size with a prefix": (400, lambda kind: kind.chunked(b"0x3")),
    "a signed chunk size": (400, lambda kind: kind.chunked(b"+3")),
    "a chunk size of 20 digits": (400, lambda kind: kind.chunked(b"f" * 20)),
    "a space before the chunk size": (400, lambda kind: kind.chunked(b" 3")),
    "a chunk that is longer than it says": (400, lambda kind: kind.chunked(b"0" * 3 + b"1").replace(b"x\r\n0", b"xy\r\n0")),
    "LF after a chunk size": (400, lambda kind: kind.chunked(b"%x\n" % len(kind.body or b"x"))),
    "NUL in a chunk extension": (400, lambda kind: kind.chunked(extension=b";a=\x00")),
    "a chunk extension of 20 kB": (400, lambda kind: kind.chunked(extension=b";a=" + b"x" * 20_000)),
    "a trailer field of 20 kB": (400, lambda kind: kind.chunked(trailer=b"X: " + b"x" * 20_000 + b"\r\n")),
    "five trailer fields of 4 kB": (400, lambda kind: kind.chunked(trailer=(b"X: " + b"x" * 4_000 + b"\r\n") * 5)),
    "a target of 20 kB": (414, lambda kind: kind.raw(target=kind.path + b"?" + b"x" * 20_000)),
    "a field of 80 kB": (431, lambda kind: kind.raw(b"X: " + b"x" * 80_000)),
    "201 fields": (431, lambda kind: kind.raw(*[b"X: y"] * 201)),
    "a body above the limit": (413, lambda kind: kind.raw(body=bytes(1_000_001))),
    "chunks above the limit": (413, lambda kind: kind.raw(framing=CHUNKED, body=b"f4241\r\n" + bytes(1_000_001))),
    "an unknown expectation": (417, lambda kind: kind.raw(b"Expect: miracles")),
    "HTTP/2 prior knowledge": (400, lambda kind: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/1.2": (400, lambda kind: kind.raw(version=b"HTTP/1.2")),
    "HTTP/3.0": (400, lambda kind: kind.raw(version=b"HTTP/3.0")),
    "HTTP/0.9": (400, lambda kind: b"GET %b\r\n\r\n" % kind.path),
    "a method in lower case": (400, lambda kind: kind.raw(method=kind.method.lower())),
    "an unknown method": (400, lambda kind: kind.raw(method=b"BREW")),
    "a method no path has": (405, lambda kind: kind.raw(method=b"PROPFIND")),
    "CONNECT": (400, lambda kind: kind.raw(method=b"CONNECT", target=b"localhost:1")),
    "a target without a slash": (400, lambda kind: kind.raw(target=b"health")),
    "a space in the target": (400, lambda kind: kind.raw(target=kind.path + b" x")),
    "TLS": (400, lambda kind: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    "a WebSocket": (404, lambda kind: kind.raw(*UPGRADE, KEY, method=b"GET", framing=b"", body=b"")),
    "a WebSocket without a key": (400, lambda kind: kind.raw(*UPGRADE, method=b"GET", framing=b"", body=b"")),
    "a WebSocket with a body": (400, lambda kind: kind.raw(*UPGRADE, KEY, method=b"GET", body=b"abc")),
}


@pytest.fixture
async def connect(tmp_path):
    """Opens a connection to a whole gateway in memory: `async with connect() as client`."""
    async with open_test_gateway(tmp_path, YAML + "serve: {max_body_mb: 1}\n") as gateway, trio.open_nursery() as nursery:
        plane, drain = DataPlane(gateway), Drain()
        nursery.start_soon(plane.run)
        server = HttpServer(make_dispatch(gateway, plane, plane.serves, drain), drain, max_body_bytes=gateway.settings.serve.max_body_bytes)

        async def serve(stream):
            transport = StreamTransport(stream)
            await server.run_connection(transport)
            await transport.aclose()

        @asynccontextmanager
        async def opened():
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(serve, theirs)
            with trio.fail_after(60):
                yield Client(ours)
            await ours.aclose()

        yield opened
        nursery.cancel_scope.cancel()


async def status_of(client: Client, data: bytes) -> int:
    with suppress(trio.BrokenResourceError):  # refused before its end
        await client.send(data)
    return (await client.response(head_only=True)).status


@pytest.mark.parametrize("before", [None, *BEFORE])
@pytest.mark.parametrize("kind", KINDS)
async def test_one_answer_wherever_it_is_sent(kind, before, connect):
    statuses = {}
    for name, (_, make) in VECTORS.items():
        async with connect() as client:
            if before is not None:
                await client.send(BEFORE[before].raw())
                assert (await client.response(head_only=before == "live feed")).status == 200
            statuses[name] = await status_of(client, make(KINDS[kind]))
    assert statuses == {name: expected for name, (expected, _) in VECTORS.items()}


@pytest.mark.parametrize("order", list(permutations(BEFORE)), ids=", ".join)
async def test_pipelined_requests_of_all_kinds_are_answered_in_order(order, connect):
    kinds = [BEFORE[name] for name in order]
    async with connect() as client:
        await client.send(b"".join(kind.raw() for kind in [*kinds, *kinds]))
        for kind in [*kinds, *kinds]:
            response = await client.response(head_only=kind.method == b"HEAD")
            assert (response.status, response.headers.get("connection")) == (200, None)


@pytest.mark.parametrize("kind", ["data plane", "change", "read"])
async def test_a_body_declared_too_large_is_refused_before_it_is_sent(kind, connect):
    async with connect() as client:
        await client.send(KINDS[kind].raw(b"Expect: 100-continue", framing=b"Content-Length: 10000000000", body=b""))
        response = await client.response()
        assert (response.status, response.headers["connection"]) == (413, "close")
        assert b"serve.max_body_mb" in response.body
        assert await client.ended()


async def answered(client: Client, body: bytes, *fields: bytes):
    await client.send(KINDS["data plane"].raw(*fields, body=body))
    return await client.response()


async def test_a_body_may_be_gzip_or_begin_with_a_byte_order_mark(connect):
    field = b"Content-Encoding: gzip"
    async with connect() as client:
        for body, *fields in (
            (b"\xef\xbb\xbf" + CHAT,), (gzip.compress(CHAT, mtime=0), field), (gzip.compress(b"\xef\xbb\xbf" + CHAT), field),
            (CHAT, b"Content-Encoding: identity"), (gzip.compress(CHAT, mtime=0), b"Content-Encoding: X-GZIP"),
        ):  # fmt: skip
            response = await answered(client, body, *fields)
            assert (response.status, b'"hi"' in response.body or b"hi" in response.body) == (200, True)


async def test_a_gzip_body_is_bounded_by_what_it_inflates_to(connect):
    padded = CHAT[:-1] + b', "user": "' + b"x" * 1_000_000 + b'"}'
    bomb = gzip.compress(padded, mtime=0)
    assert len(bomb) < 5_000
    async with connect() as client:
        response = await answered(client, bomb, b"Content-Encoding: gzip")
        assert (response.status, response.error()["code"]) == (413, "request_too_large")
        assert "serve.max_body_mb" in response.error()["message"]


@pytest.mark.parametrize(
    ("body", "coding"),
    [(CHAT, b"gzip"), (gzip.compress(CHAT, mtime=0)[:-9], b"gzip"), (CHAT, b"br"), (b"", b"gzip"), (CHAT, b"gzip, gzip")],
)
async def test_other_codings_and_broken_gzip_are_the_callers_fault(body, coding, connect):
    async with connect() as client:
        response = await answered(client, body, b"Content-Encoding: " + coding)
        assert (response.status, response.error()["param"]) == (400, "content-encoding")


async def test_a_lone_surrogate_is_the_callers_fault(connect):
    bodies = (
        b'{"model": "\\ud800", "messages": [{"role": "user", "content": "hi"}]}',
        b'{"model": "sim/echo", "messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}], "user": "\\udfff"}',
    )
    async with connect() as client:
        assert [(await answered(client, body)).status for body in bodies] == [400, 400, 400]


async def test_the_unspecified_address_is_this_machine(connect):
    async with connect() as client:
        for host, status in ((b"0.0.0.0:8080", 200), (b"[::]:8080", 200), (b"0.0.0.1:8080", 403), (b"evil.example", 403)):
            await client.send(b"GET /health HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
            assert (await client.response()).status == status
