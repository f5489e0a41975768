"""gRPC calls over HTTP/2: messages both ways, every way to end, and an upstream that takes nothing more."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
import trio
import trio.testing
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, PingAckReceived, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError

from gw.errors import ProviderUnreachable, UpstreamCut, UpstreamProtocolError
from gw.net.connect import Origin
from gw.net.grpc_call import GrpcEnded, dial_grpc_call
from tests.fakes.net import FakeNet

HEAD = [(":status", "200"), ("content-type", "application/grpc")]
ORIGIN = Origin.parse("https://speech.test/below")


def framed(*messages: bytes) -> bytes:
    return b"".join(b"\0" + struct.pack(">I", len(message)) + message for message in messages)


class Upstream:
    """The server's end of one connection, driven by the test. `reads`: whether it makes room for more."""

    def __init__(self, reads=True):
        self.reads = reads
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.head = {}
        self.received = bytearray()
        self.writing = trio.Lock()
        self.begun, self.finished, self.reset = (trio.Event() for _ in range(3))
        self.ponged = trio.Event()

    async def __call__(self, stream):
        self.stream = stream
        self.h2.initiate_connection()
        while data := await stream.receive_some(65_536):
            for event in self.read(data):
                match event:
                    case RequestReceived():
                        self.head = dict(event.headers)
                        self.begun.set()
                    case DataReceived():
                        self.received += event.data
                        if self.reads:
                            self.h2.acknowledge_received_data(event.flow_controlled_length, 1)
                    case StreamEnded():
                        self.finished.set()
                    case StreamReset():
                        self.reset.set()
                    case PingAckReceived():
                        self.ponged.set()
            with suppress(trio.BrokenResourceError):   # one who has left has sent something before
                await self.flush()

    def read(self, data):
        try:
            return self.h2.receive_data(data)
        except ProtocolError:   # it has closed the connection itself
            return []

    async def flush(self):
        async with self.writing:
            if data := self.h2.data_to_send():
                await self.stream.send_all(data)

    async def answer(self, head=HEAD, body=b"", trailers=(), piece=16_384):
        await self.begun.wait()
        if head:
            self.h2.send_headers(1, head, end_stream=not body and not trailers and head is not HEAD)
        for at in range(0, len(body), piece):
            self.h2.send_data(1, body[at : at + piece])
            await self.flush()
        if trailers:
            self.h2.send_headers(1, trailers, end_stream=True)
        await self.flush()


@pytest.fixture
def net(nursery):
    return FakeNet(nursery)


async def opened(net, upstream, headers=()):
    net.hosts["speech.test", 443] = upstream
    return await dial_grpc_call("p", ORIGIN, b"/google.Speech/Listen", headers=headers, connect=net)


async def test_messages_both_ways(net):
    upstream = Upstream()
    call = await opened(net, upstream, [(b"x-goog-api-key", b"k")])
    await call.send([b"one", b"", bytes(50_000)])
    await call.finish()
    await upstream.finished.wait()
    assert bytes(upstream.received) == framed(b"one", b"", bytes(50_000))
    assert upstream.head == {
        ":method": "POST", ":scheme": "https", ":path": "/below/google.Speech/Listen", ":authority": "speech.test", "te": "trailers",
        "content-type": "application/grpc", "user-agent": "gw", "x-goog-api-key": "k",
    }  # fmt: skip
    await upstream.answer(body=framed(b"first", b"", bytes(40_000)), trailers=[("grpc-status", "0")], piece=7_000)
    assert [await call.receive() for _ in range(3)] == [b"first", b"", bytes(40_000)]
    with pytest.raises(GrpcEnded) as caught:
        await call.receive()
    assert (caught.value.status, caught.value.http_status) == (0, 200)
    await call.leave()
    assert net.open == 0


async def test_messages_cut_at_every_byte(net):
    upstream = Upstream()
    call = await opened(net, upstream)
    await upstream.answer(body=framed(b"one", b"two"), trailers=[("grpc-status", "0")], piece=1)
    assert [await call.receive(), await call.receive()] == [b"one", b"two"]


@pytest.mark.parametrize(
    ("head", "trailers", "status", "http_status", "message"),
    [
        ([*HEAD, ("grpc-status", "16"), ("grpc-message", "bad%20key%21")], (), 16, 401, "bad key!"),
        (HEAD, [("grpc-status", "11"), ("grpc-message", "Z%C3%BCrich")], 11, 400, "Zürich"),
        (HEAD, [("grpc-status", "8"), ("retry-after", "7")], 8, 429, ""),
        (HEAD, [("grpc-status", "99")], 99, 500, ""),
        ([(":status", "503"), ("content-type", "text/html")], (), None, 503, ""),
        ([(":status", "402"), ("content-type", "application/grpc")], (), None, 402, ""),
    ],
)
async def test_statuses(head, trailers, status, http_status, message, net):
    upstream = Upstream()
    call = await opened(net, upstream)
    await upstream.answer(head, trailers=trailers)
    with pytest.raises(GrpcEnded) as caught:
        await call.receive()
    assert (caught.value.status, caught.value.http_status, caught.value.message) == (status, http_status, message)
    assert caught.value.retry_after == (b"7" if status == 8 else None)
    with pytest.raises(GrpcEnded):
        await call.send([b"more"])
    await call.finish()


@pytest.mark.parametrize(
    ("head", "body", "trailers", "detail"),
    [
        ([(":status", "200"), ("content-type", "text/html")], b"<html>", (), "not gRPC"),
        (HEAD, b"\1" + struct.pack(">I", 1) + b"x", (), "compressed"),
        (HEAD, b"\0" + struct.pack(">I", 2**30), (), "larger than allowed"),
        (HEAD, b"\0\0", [("grpc-status", "0")], "middle of a message"),
        (HEAD, b"", [("x", "y")], "without a status"),
        (HEAD, b"", [("grpc-status", "OK")], "without a status"),
    ],
)
async def test_broken_answers(head, body, trailers, detail, net):
    upstream = Upstream()
    call = await opened(net, upstream)
    await upstream.answer(head, body, trailers)
    with pytest.raises(UpstreamProtocolError, match=detail):
        await call.receive()


async def test_an_upstream_of_http_1(net):
    async def old(stream):
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await trio.sleep_forever()

    call = await opened(net, old)
    with pytest.raises(UpstreamProtocolError, match="not HTTP/2"):
        await call.receive()


@pytest.mark.parametrize("how", ["reset", "goaway", "close"])
async def test_calls_that_break_off(how, net):
    upstream = Upstream()
    call = await opened(net, upstream)
    await upstream.answer(body=framed(b"one"))
    if how == "reset":
        upstream.h2.reset_stream(1, 2)
    elif how == "goaway":
        upstream.h2.close_connection(11)
    await (upstream.flush() if how != "close" else upstream.stream.aclose())
    assert await call.receive() == b"one"
    with pytest.raises(UpstreamCut):
        await call.receive()
    with pytest.raises(UpstreamCut):
        await call.send([b"more"])


async def test_nobody_there(net):
    with pytest.raises(ProviderUnreachable):
        await dial_grpc_call("p", ORIGIN, b"/x", headers=(), connect=net)


async def test_sending_waits_for_room(net, nursery):
    upstream, sent = Upstream(reads=False), trio.Event()
    call = await opened(net, upstream)

    async def send():
        await call.send([bytes(100_000)])
        sent.set()

    async def read():
        with pytest.raises(GrpcEnded):
            await call.receive()

    async with trio.open_nursery() as tasks:
        tasks.start_soon(send)
        tasks.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert (len(upstream.received), sent.is_set()) == (65_535, False)
        upstream.h2.increment_flow_control_window(100_000, 1)
        upstream.h2.increment_flow_control_window(100_000)
        await upstream.flush()
        await sent.wait()
        await upstream.answer(trailers=[("grpc-status", "0")])
    assert bytes(upstream.received) == framed(bytes(100_000))


async def test_one_who_waits_for_room_learns_of_the_end(net, nursery):
    upstream = Upstream(reads=False)
    call = await opened(net, upstream)

    async def send():
        with pytest.raises(GrpcEnded):
            await call.send([bytes(100_000)])

    async with trio.open_nursery() as tasks:
        tasks.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        await upstream.answer(trailers=[("grpc-status", "14")])
        with pytest.raises(GrpcEnded):
            await call.receive()


async def test_leaving_resets_the_call(net):
    upstream = Upstream()
    call = await opened(net, upstream)
    await upstream.begun.wait()
    await call.leave()
    await upstream.reset.wait()
    with pytest.raises(UpstreamCut):
        await call.receive()


async def test_a_cancelled_receive_loses_nothing(net):
    upstream = Upstream()
    call = await opened(net, upstream)
    with trio.CancelScope() as scope:
        scope.cancel()
        await call.receive()
    await upstream.answer(body=framed(b"one"))
    assert await call.receive() == b"one"


async def test_pings_are_answered(net):
    upstream = Upstream()
    call = await opened(net, upstream)
    await upstream.begun.wait()
    upstream.h2.ping(b"12345678")
    await upstream.answer(body=framed(b"one"))
    assert await call.receive() == b"one"
    await upstream.ponged.wait()
