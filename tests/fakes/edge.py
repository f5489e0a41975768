"""A byte-level HTTP client and small ASGI apps for the tests of gw.web's hosts."""

from __future__ import annotations

from contextlib import asynccontextmanager
from math import inf

import attrs
import msgspec
import trio
import trio.testing

from gw.web.drain import Drain
from gw.web.http_server import HostedApp, HttpServer
from gw.web.server_limits import ServerLimits
from tests.fakes.net import StreamTransport


def request(method="POST", path="/data", body=b"", *fields, host="gw"):
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: " + host.encode(), *fields]
    if body or method == "POST":
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@attrs.define
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    def error(self):
        return msgspec.json.decode(self.body)["error"]


@attrs.define(slots=False)
class Client:
    """Reads responses off any trio stream."""

    stream: trio.abc.Stream
    seen: bytearray = attrs.field(factory=bytearray)

    async def send(self, data):
        await self.stream.send_all(data)

    async def more(self):
        data = await self.stream.receive_some(65536)
        self.seen += data
        return bool(data)

    async def _until(self, mark):
        while (at := self.seen.find(mark)) < 0:
            assert await self.more(), f"the connection ended before {mark!r}: {bytes(self.seen)!r}"
        data = bytes(self.seen[:at])
        del self.seen[: at + len(mark)]
        return data

    async def _exactly(self, count):
        while len(self.seen) < count:
            assert await self.more(), "the body was cut"
        data = bytes(self.seen[:count])
        del self.seen[:count]
        return data

    async def response(self, *, head_only=False):
        lines = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = dict(line.lower().split(": ", 1) for line in lines[1:])
        if head_only or status in (100, 101, 204, 304):
            return Response(status, headers, b"")
        return Response(status, headers, await self._body(headers))

    async def _body(self, headers):
        if "content-length" in headers:
            return await self._exactly(int(headers["content-length"]))
        body = b""
        if headers.get("transfer-encoding") != "chunked":
            while await self.more():
                pass
            return bytes(self.seen)
        while size := int(await self._until(b"\r\n"), 16):
            body += await self._exactly(size)
            await self._until(b"\r\n")
        await self._until(b"\r\n")
        return body

    async def ended(self):
        """Whether the server has closed, without another byte."""
        try:
            return not self.seen and not await self.stream.receive_some(1)
        except trio.BrokenResourceError:
            return True


async def read_all(receive):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def respond(send, body, status=200, headers=()):
    await send({"type": "http.response.start", "status": status, "headers": [(b"x-app", b"echo"), *headers]})
    await send({"type": "http.response.body", "body": body})


async def echo(scope, receive, send):
    """Answers with what it was asked."""
    body = await read_all(receive)
    await respond(send, f"{scope['method']} {scope['path']} ".encode() + body)


@attrs.define
class Stuck:
    """Begins, waits for ever, and notes what became of it."""

    started: trio.Event = attrs.field(factory=trio.Event)
    ended: trio.Event = attrs.field(factory=trio.Event)

    async def __call__(self, scope, receive, send):
        self.started.set()
        try:
            await trio.sleep(inf)
        finally:
            self.ended.set()


class StalledStream(trio.abc.Stream):
    """Its peer never reads."""

    def __init__(self, inner):
        self.inner = inner

    async def send_all(self, data):
        await trio.sleep_forever()

    async def wait_send_all_might_not_block(self):
        await trio.sleep_forever()

    async def receive_some(self, max_bytes=None):
        return await self.inner.receive_some(max_bytes)

    def abort(self):
        self.inner.send_stream.close()
        self.inner.receive_stream.close()

    async def aclose(self):
        await self.inner.aclose()


@attrs.define
class Host:
    client: Client
    drain: Drain
    done: trio.Event = attrs.field(factory=trio.Event)
    cancel: trio.CancelScope = attrs.field(factory=trio.CancelScope)


@asynccontextmanager
async def open_host(
    app, *, limits=None, max_in_flight=100, max_body_bytes=None, pair=trio.testing.memory_stream_pair, **options
):
    """The gateway's HTTP host on one end of a pair of streams, a Client on the other. `options`: of the HostedApp."""
    ours, theirs = pair()
    host = Host(Client(ours), Drain())
    hosted = HostedApp(app=app, **{"counted": True, "websockets": True} | options)
    server = HttpServer(
        lambda method, path: hosted, host.drain, limits=limits or ServerLimits(), max_in_flight=max_in_flight,
        max_body_bytes=max_body_bytes,
    )
    transport = StreamTransport(theirs)

    async def run():
        with host.cancel:
            await server.run_connection(transport)
        await transport.aclose()
        host.done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        nursery.start_soon(server.close_idle)
        nursery.start_soon(server.long_answers.run)
        yield host
        nursery.cancel_scope.cancel()
