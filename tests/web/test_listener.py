import errno
import socket
import ssl
from contextlib import asynccontextmanager

import pytest
import quart
import structlog
import trio
import trio.testing
import trustme
from quart_trio import QuartTrio
from websockets.sync.client import connect

from gw.config.settings import Serve
from gw.web import listener
from gw.web.drain import Drain
from gw.web.http_server import HostedApp, HttpServer
from gw.web.server_limits import ServerLimits
from tests.fakes.edge import Client, Stuck, echo, read_all, request, respond


def _control_plane():
    app = QuartTrio("control")

    @app.route("/control", methods=["GET", "POST"])
    async def control():
        return {"body": (await quart.request.get_data()).decode()}

    return app


async def _data_plane(scope, receive, send):
    if scope["type"] == "http":
        await echo(scope, receive, send)
        return
    await send({"type": "websocket.accept"})
    await receive()
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message.get("bytes"), "text": message.get("text")})


class Server:
    def __init__(self, url, drain):
        self.url = url
        self.drain = drain
        self.port = int(url.rpartition(":")[2])
        self.ended = trio.Event()
        self.streams = []

    async def client(self):
        self.streams.append(await trio.open_tcp_stream("127.0.0.1", self.port))
        return Client(self.streams[-1])

    def close(self):
        for stream in self.streams:
            stream.socket.close()


@asynccontextmanager
async def serving(data_plane=_data_plane, control=None, **options):
    config = Serve(host="127.0.0.1", port=0, **options.pop("config", {}))
    drain = Drain()
    server = None
    data = HostedApp(app=data_plane, counted=True, websockets=True)
    changes = HostedApp(app=control or _control_plane())

    async def run(task_status):
        await listener.serve(
            dispatch=lambda method, path: data if path.startswith(b"/data") else changes,
            config=config,
            drain=drain,
            task_status=task_status,
            **options,
        )
        server.ended.set()

    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(run)
        server = Server(url, drain)
        try:
            yield server
            nursery.cancel_scope.cancel()
        finally:
            server.close()


async def test_one_port_serves_both_planes_on_one_connection():
    async with serving() as server:
        client = await server.client()
        await client.send(request(body=b"1"))
        assert (await client.response()).body == b"POST /data 1"
        await client.send(request(body=b"2") + request("POST", "/control", b"hello"))
        assert (await client.response()).body == b"POST /data 2"
        response = await client.response()
        assert (response.status, response.body) == (200, b'{"body":"hello"}\n')
        assert "server" not in response.headers
        await client.send(request(body=b"3"))
        assert (await client.response()).body == b"POST /data 3"
        await client.send(request("GET", "/control"))
        assert (await client.response()).status == 200


async def test_a_websocket_client_of_the_real_world():
    def talk(port):
        with connect(f"ws://127.0.0.1:{port}/data/ws") as ws:
            for message in ("text", b"bytes", b"", "x" * 300_000):
                ws.send(message)
                assert ws.recv() == message
            ws.send(["frag", "ments"])
            assert ws.recv() == "fragments"
            assert ws.ping().wait(60)
            assert ws.protocol.extensions == []

    async with serving() as server:
        await trio.to_thread.run_sync(talk, server.port)


async def test_a_websocket_on_a_connection_that_began_with_the_control_plane():
    async with serving() as server:
        client = await server.client()
        await client.send(request("GET", "/control"))
        await client.response()
        await client.send(
            b"GET /data/ws HTTP/1.1\r\nHost: gw\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert (await client.response()).status == 101
        await client.send(b"\x82\x81\0\0\0\0x")
        while bytes(client.seen) != b"\x82\x01x":
            assert await client.more()


async def test_a_drain_closes_idle_connections_of_both_planes_at_once():
    async with serving() as server:
        data, control = [await server.client() for _ in range(2)]
        await data.send(request())
        await data.response()
        await control.send(request("GET", "/control"))
        await control.response()
        with trio.fail_after(60):
            server.drain.begin(3_600)
            for client in (data, control):
                assert await client.ended()
            await server.ended.wait()
        with pytest.raises(OSError, match="connect"):
            await server.client()


async def test_a_drain_lets_a_running_answer_finish_on_both_planes():
    go = trio.Event()
    both = trio.Event()
    begun = []

    async def app(scope, receive, send):
        begun.append(scope["path"])
        if len(begun) == 2:
            both.set()
        await go.wait()
        await respond(send, b"done", headers=[(b"content-length", b"4")])

    async with serving(data_plane=app, control=app) as server:
        clients = [await server.client() for _ in range(2)]
        for client, path in zip(clients, ("/data", "/control"), strict=True):
            await client.send(request("GET", path))
        await both.wait()
        server.drain.begin(3_600)
        go.set()
        with trio.fail_after(60):
            for client in clients:
                response = await client.response()
                assert (response.body, response.headers["connection"]) == (b"done", "close")
                assert await client.ended()
            await server.ended.wait()


@pytest.mark.parametrize("path", ["/data", "/control"])
async def test_a_client_that_never_reads_cannot_hold_up_the_end(path):
    begun = trio.Event()

    async def app(scope, receive, send):
        begun.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})

    async with serving(data_plane=app, control=app, limits=ServerLimits(write_s=3_600)) as server:
        client = await server.client()
        await client.send(request("GET", path))
        await begun.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        server.drain.begin(0.1)
        with trio.fail_after(60):
            await server.ended.wait()


async def test_cancelling_serve_does_not_wait_for_stalled_writes():
    begun = trio.Event()

    async def app(scope, receive, send):
        begun.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 50_000_000})

    with trio.fail_after(60):
        async with serving(data_plane=app, control=app, limits=ServerLimits(write_s=3_600)) as server:
            client = await server.client()
            await client.send(request("GET", "/control"))
            await begun.wait()
            await trio.testing.wait_all_tasks_blocked(0.01)


async def test_a_client_that_leaves_cancels_its_request():
    app = Stuck()
    async with serving(data_plane=app) as server:
        client = await server.client()
        await client.send(request())
        await app.started.wait()
        await client.stream.aclose()
        with trio.fail_after(60):
            await app.ended.wait()


async def test_a_reset_in_the_middle_is_nobodys_crash():
    app = Stuck()
    with structlog.testing.capture_logs() as logs:
        async with serving(data_plane=app) as server:
            client = await server.client()
            await client.send(request())
            await app.started.wait()
            client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            await client.stream.aclose()
            await app.ended.wait()
            await trio.testing.wait_all_tasks_blocked()
    assert logs == []


async def test_too_many_connections_are_told_so():
    async with serving(limits=ServerLimits(max_connections=1)) as server:
        first, second = await server.client(), await server.client()
        response = await second.response()
        assert (response.status, response.error()["code"]) == (503, "overloaded")
        await first.send(request())
        assert (await first.response()).status == 200


async def test_requests_in_flight_are_limited_for_the_data_plane_only():
    async with serving(config={"max_in_flight": 0}) as server:
        client = await server.client()
        await client.send(request(body=b"1"))
        assert (await client.response()).status == 503
        await client.send(request("GET", "/control"))
        assert (await client.response()).status == 200
        await client.send(request(body=b"1"))
        assert (await client.response()).headers["retry-after"] == "1"


async def test_tls():
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    client_context = ssl.create_default_context()
    authority.configure_trust(client_context)
    with (
        certificate.cert_chain_pems[0].tempfile() as chain,
        certificate.private_key_pem.tempfile() as key,
    ):
        async with serving(config={"tls_cert": chain, "tls_key": key}) as server:
            assert server.url.startswith("https://")
            tcp = (await server.client()).stream
            stream = trio.SSLStream(tcp, client_context, server_hostname="localhost", https_compatible=True)
            client = Client(stream)
            await client.send(request(body=b"x" * 300_000))
            assert len((await client.response()).body) == 300_011
            await client.send(request("GET", "/control"))
            assert (await client.response()).status == 200
            plain = await server.client()
            await plain.send(request())
            with pytest.raises((AssertionError, trio.BrokenResourceError)):
                await plain.response()
            server.drain.begin(1)
            await tcp.aclose()
            await server.ended.wait()


async def test_binds_every_address_of_a_name_on_one_port():
    listeners = await listener.bind("localhost", 0)
    try:
        assert len({bound.getsockname()[1] for bound in listeners}) == 1
        with pytest.raises(OSError, match="use") as caught:
            await listener.bind("127.0.0.1", listeners[0].getsockname()[1])
        assert caught.value.errno == errno.EADDRINUSE
    finally:
        for bound in listeners:
            bound.close()


@pytest.mark.parametrize("shared", [False, True])
async def test_an_address_is_reserved_where_nobody_listens_and_accepts_nobody(shared):
    [listening] = await listener.bind("127.0.0.1", 0, shared=shared)
    address = listening.getsockname()
    with listening, pytest.raises(OSError, match="use"):
        await listener.bind(*address, listens=False)
    [reserved] = await listener.bind(*address, listens=False)
    with reserved, pytest.raises(ConnectionRefusedError):
        await trio.to_thread.run_sync(socket.create_connection, address)


class Exhausted:
    """A listener whose accept fails as it does without file descriptors, then works."""

    def __init__(self, inner, failures):
        self.inner, self.failures = inner, failures

    def fileno(self):
        return self.inner.fileno()

    def accept(self):
        if self.failures:
            raise OSError(self.failures.pop(), "no")
        return self.inner.accept()

    def close(self):
        self.inner.close()


async def test_accepting_survives_exhaustion_and_says_so_once():
    drain = Drain()
    hosted = HostedApp(app=_data_plane)
    server = HttpServer(lambda method, path: hosted, drain)
    with structlog.testing.capture_logs() as logs:
        (inner,) = await listener.bind("127.0.0.1", 0)
        exhausted = Exhausted(inner, [errno.ECONNABORTED, errno.EMFILE, errno.EMFILE])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.Listener(server, None).run, [exhausted])
            client = Client(await trio.open_tcp_stream("127.0.0.1", inner.getsockname()[1]))
            await client.send(request())
            assert (await client.response()).status == 200
            await client.stream.aclose()
            drain.begin(1)
    assert [line["event"] for line in logs] == ["accept_paused"]


async def test_an_app_that_reads_its_body_slowly_holds_nobody_else_up():
    async def app(scope, receive, send):
        body = await read_all(receive)
        await respond(send, b"%d" % len(body))

    async with serving(data_plane=app) as server:
        slow, quick = await server.client(), await server.client()
        await slow.send(request(body=b"x" * 1_000_000)[:-10])
        await quick.send(request(body=b"x"))
        assert (await quick.response()).body == b"1"
        await slow.send(b"x" * 10)
        assert (await slow.response()).body == b"1000000"
