"""WebSockets of clients on real sockets, which the poller reads by callbacks."""

import socket
import struct
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from gw.net import poller
from gw.net.poller import Poller
from gw.net.tcp import TcpStream
from gw.web.connection import UNREAD_BYTES, Connection
from gw.web.dispatcher import HostedApp
from gw.web.drain import Drain
from gw.web.http_server import HttpServer
from gw.web.server_limits import ServerLimits
from tests.fakes.edge import Client
from tests.web.test_http_server_websocket import Peer, ws_echo

pytestmark = pytest.mark.skipif(not poller.OFFERED, reason="this system has no poller, so a task reads each connection")

RESET = struct.pack("ii", 1, 0)


class Host:
    """One connection of a server, its client, and the task that serves it."""

    def __init__(self, client: Client) -> None:
        self.client, self.peer = client, Peer(client)
        self.serving, self.done = trio.CancelScope(), trio.Event()


@asynccontextmanager
async def hosted(app):
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    host = Host(Client(trio.SocketStream(trio.socket.from_stdlib_socket(ours))))
    polled, drain = Poller(), Drain()
    served = HostedApp(app=app, counted=True, websockets=True)
    server = HttpServer(lambda method, path: served, drain, limits=ServerLimits(), max_in_flight=100, poller=polled)

    async def serve():
        with host.serving:
            await server.run_connection(transport)
        await transport.aclose()
        host.done.set()

    transport = TcpStream(theirs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(polled.run)
        nursery.start_soon(serve)
        with trio.fail_after(60):
            yield host
        nursery.cancel_scope.cancel()
    assert not polled._watchers
    ours.close()


async def accept(receive, send):
    await receive()
    await send({"type": "websocket.accept"})


async def test_messages_of_any_size_come_back_and_the_close_is_answered():
    async with hosted(ws_echo) as host:
        await host.peer.open()
        for data in (b"a", b"x" * 300_000, b"b"):
            host.peer.protocol.send_binary(data)
            await host.peer.flush()
            assert bytes((await host.peer.frame()).data) == data
        host.peer.protocol.send_close(1000)
        await host.peer.flush()
        assert await host.peer.closed() == 1000
        await host.client.stream.aclose()
        await host.done.wait()


async def test_a_ping_is_answered_while_the_app_is_busy():
    async def app(scope, receive, send):
        await accept(receive, send)
        await trio.sleep_forever()

    async with hosted(app) as host:
        await host.peer.open()
        host.peer.protocol.send_ping(b"?")
        await host.peer.flush()
        assert bytes((await host.peer.frame()).data) == b"?"


@pytest.mark.parametrize("pings", [False, True])
async def test_a_client_that_breaks_off_ends_the_app(pings):
    """Also where that is noticed by an answer to a ping that cannot be sent."""
    entered, ended = trio.Event(), trio.Event()

    async def app(scope, receive, send):
        await accept(receive, send)
        entered.set()
        try:
            while (await receive())["type"] == "websocket.receive":
                pass
        finally:
            ended.set()

    async with hosted(app) as host:
        await host.peer.open()
        await entered.wait()
        if pings:
            host.peer.protocol.send_ping(b"?")
            await host.peer.flush()
        host.client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await host.client.stream.aclose()
        await ended.wait()
        await host.done.wait()


async def test_what_must_be_awaited_holds_back_what_follows():
    steps = []

    async def slow(message):
        steps.append(f"begin {message}")
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        steps.append(f"end {message}")

    async def app(scope, receive, send):
        await accept(receive, send)
        await scope["extensions"]["gw.websocket"].for_each_message(slow)

    async with hosted(app) as host:
        await host.peer.open()
        for text in (b"a", b"b", b"c"):
            host.peer.protocol.send_text(text)
            await host.peer.flush()
        host.peer.protocol.send_close(1000)
        await host.peer.flush()
        assert await host.peer.closed() == 1000
        await host.client.stream.aclose()
        await host.done.wait()
    assert steps == [f"{step} {name}" for name in "abc" for step in ("begin", "end")]


async def test_reading_pauses_while_much_is_unread():
    taken = []
    go = trio.Event()

    async def app(scope, receive, send):
        await accept(receive, send)
        await go.wait()
        while (message := await receive())["type"] == "websocket.receive":
            taken.append(len(message["bytes"]))

    async with hosted(app) as host, trio.open_nursery() as nursery:
        await host.peer.open()
        sent = []

        async def upload():
            for _ in range(100):
                host.peer.protocol.send_binary(b"x" * 100_000)
                await host.peer.flush()
                sent.append(100_000)
            host.peer.protocol.send_close(1000)
            await host.peer.flush()

        nursery.start_soon(upload)
        before = -1
        while before != (before := sum(sent)):  # until it moves no more
            for _ in range(100):
                await trio.testing.wait_all_tasks_blocked(0.001)
        assert before < 100 * 100_000
        go.set()
        assert await host.peer.closed() == 1000
    assert taken == [100_000] * 100


@pytest.mark.parametrize("waits", [False, True], ids=["idle", "something is awaited"])
async def test_a_server_that_stops_says_so(waits):
    awaiting = trio.Event()

    async def forever(message):
        awaiting.set()
        await trio.sleep_forever()

    async def app(scope, receive, send):
        await accept(receive, send)
        if not waits:
            awaiting.set()
        await scope["extensions"]["gw.websocket"].for_each_message(forever)

    async with hosted(app) as host:
        await host.peer.open()
        if waits:
            host.peer.protocol.send_text(b"a")
            await host.peer.flush()
        await awaiting.wait()
        host.serving.cancel()
        assert await host.peer.closed() == 1012
        await host.client.stream.aclose()
        await host.done.wait()


async def test_a_body_that_nobody_takes_pauses_the_connection(nursery):
    """Before a WebSocket is accepted, what follows its handshake is kept."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    polled = Poller()
    nursery.start_soon(polled.run)
    await trio.testing.wait_all_tasks_blocked()
    client, transport = trio.SocketStream(trio.socket.from_stdlib_socket(ours)), TcpStream(theirs)
    connection = Connection(transport, ServerLimits(), Drain())
    assert connection.watch(polled)
    connection.unwatch()
    connection.read_by_callbacks()
    nursery.start_soon(client.send_all, bytes(2_000_000))
    while len(connection.buffer) <= UNREAD_BYTES:
        await connection.wait()
    received = len(connection.buffer)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert len(connection.buffer) == received <= UNREAD_BYTES + 65_536
    connection.buffer.clear()
    while received < 2_000_000:
        connection.taken()
        await connection.wait()
        received += len(connection.buffer)
        connection.buffer.clear()
    assert received == 2_000_000
    await connection.stop_reading()
    await transport.aclose()
    await client.aclose()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("early", [False, True], ids=["later", "before it begins"])
async def test_messages_are_delivered_without_a_task_until_the_client_closes(early):
    """Those received before may have to wait; the end is noted once, when all are delivered, though it came in one read with the last."""
    got, ends = [], []
    begun = trio.Event()

    async def slow(message):
        await trio.lowlevel.checkpoint()
        got.append(message)

    async def app(scope, receive, send):
        await accept(receive, send)
        host = scope["extensions"]["gw.websocket"]
        ended = trio.Event()
        if early:
            while not host._messages:
                await trio.testing.wait_all_tasks_blocked()
        pending = host.deliver(slow, lambda: (ends.append(list(got)), ended.set()))
        assert (pending is not None) == early
        begun.set()
        if pending is not None:
            await pending
        await ended.wait()
        assert host.ending()["code"] == 1000
        host.stop_delivery()

    async with hosted(app) as host:
        await host.peer.open()
        if not early:
            await begun.wait()
        host.peer.protocol.send_text(b"a")
        await host.peer.flush()
        host.peer.protocol.send_text(b"b")
        host.peer.protocol.send_close(1000)
        await host.client.send(b"".join(host.peer.protocol.data_to_send()))
        assert await host.peer.closed() == 1000
        await host.client.stream.aclose()
        await host.done.wait()
    assert ends == [["a", "b"]]


async def test_what_a_taker_raises_ends_the_delivery():
    raised = []

    def take(message):
        raise ValueError(message)

    async def app(scope, receive, send):
        await accept(receive, send)
        host = scope["extensions"]["gw.websocket"]
        ended = trio.Event()
        assert host.deliver(take, ended.set) is None
        await ended.wait()
        try:
            host.ending()
        except ValueError as error:
            raised.append(str(error))

    async with hosted(app) as host:
        await host.peer.open()
        host.peer.protocol.send_text(b"bad")
        await host.peer.flush()
        assert await host.peer.closed() == 1000
    assert raised == ["bad"]
