"""Connections that a worker gives away, from one HTTP server to another over real sockets, plain and encrypted."""

from __future__ import annotations

import socket
import ssl
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trustme

from gw.config.settings import Serve
from gw.web.drain import Drain
from gw.web.http_server import HostedApp
from gw.web.http_server_head import parse_head
from gw.web.listener import Listener, bind, open_server
from gw.workers.arrivals import Arrivals
from gw.workers.connection_sender import ConnectionSender
from tests.fakes.edge import Client, echo, read_all, request, respond


@attrs.define
class Pair:
    """A worker and a keeper; `keepers` is the keeper's end of the socket between them."""

    port: int
    keepers: socket.socket
    drain: Drain
    sender: ConnectionSender

    async def client(self, tls: ssl.SSLContext | None = None) -> Client:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        if tls is None:
            return Client(stream)
        encrypted = trio.SSLStream(stream, tls, server_hostname="127.0.0.1", https_compatible=True)
        await encrypted.do_handshake()
        return Client(encrypted)


async def _keepers(scope, receive, send):
    """Answers in the keeper's name, with what it knows of the client."""
    body = await read_all(receive)
    await respond(send, f"keeper {scope['scheme']} {scope['client'][0]} {len(body)}".encode())


@asynccontextmanager
async def pair(context: ssl.SSLContext | None = None):
    mine, keepers = socket.socketpair()
    drain = Drain()
    sender = ConnectionSender(mine, lambda head: head.raw_path.startswith(b"/data"))
    config = Serve(port=0)
    async with (
        open_server(dispatch=lambda *_: HostedApp(app=_keepers), config=config, drain=drain) as there,
        open_server(
            dispatch=lambda *_: HostedApp(app=echo, counted=True, websockets=True), config=config, drain=drain, other=sender
        ) as here,
        trio.open_nursery() as nursery,
    ):
        listeners = await bind("127.0.0.1", 0, shared=True)
        nursery.start_soon(Listener(here, context).run, listeners)
        nursery.start_soon(Arrivals(there).run, keepers, nursery)
        yield Pair(listeners[0].getsockname()[1], keepers, drain, sender)
        nursery.cancel_scope.cancel()
    mine.close()
    for listener in listeners:
        listener.close()


async def test_a_connection_moves_with_the_request_that_was_read_and_stays():
    async with pair() as both:
        client = await both.client()
        await client.send(request(body=b"1"))
        assert (await client.response()).body == b"POST /data 1"
        assert both.sender.given == 0
        await client.send(request("POST", "/control", b"x" * 200_000) + request(body=b"22"))
        assert (await client.response()).body == b"keeper http 127.0.0.1 200000"
        assert (await client.response()).body == b"keeper http 127.0.0.1 2"
        assert both.sender.given == 1
        await client.stream.aclose()


async def test_many_connections_move_at_once():
    async with pair() as both:

        async def ask(number: int) -> None:
            client = await both.client()
            await client.send(request("POST", "/control", b"x" * number * 1_000))
            assert (await client.response()).body == f"keeper http 127.0.0.1 {number * 1_000}".encode()
            await client.stream.aclose()

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(ask, number)
        assert both.sender.given == 100


async def test_an_encrypted_connection_is_decrypted_here_and_answered_there():
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    servers = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA).configure_cert(servers)
    clients = ssl.create_default_context()
    authority.configure_trust(clients)
    async with pair(servers) as both:
        client = await both.client(clients)
        await client.send(request(body=b"1"))
        assert (await client.response()).body == b"POST /data 1"
        for size in (300_000, 7):
            await client.send(request("POST", "/control", b"x" * size))
            assert (await client.response()).body == f"keeper https 127.0.0.1 {size}".encode()
        both.drain.begin()
        assert not await client.more()  # an idle connection is closed by the keeper
        await client.stream.aclose()


async def test_without_a_keeper_the_request_is_refused_and_the_worker_serves_on():
    async with pair() as both:
        both.keepers.shutdown(socket.SHUT_RDWR)
        client = await both.client()
        await client.send(request("GET", "/control"))
        answer = await client.response()
        assert answer.status == 503
        assert b"keeper" in answer.body
        other = await both.client()
        await other.send(request(body=b"1"))
        assert (await other.response()).status == 200
        await client.stream.aclose()
        await other.stream.aclose()


@pytest.mark.parametrize(
    ("target", "field", "is_kept"),
    [
        ("/data", "authorization: Bearer sk-0123456789", False),
        ("/data", "authorization: Bearer gwt_" + "a" * 80, True),
        ("/data", "sec-websocket-protocol: realtime, openai-insecure-api-key.ek_" + "a-_" * 30, True),
        ("/data?token=gwt_" + "a" * 80, "x: y", True),
        ("/data?model=deepseek_r1", "x: y", False),
        ("/data?callback=https://x.example", "x: y", True),
        ("/data?a=1&callback_method=put", "x: y", True),
        ("/data", "X-GW-Dashboard: 1", True),
        ("/other", "x: y", True),
    ],
)
def test_requests_that_need_what_one_process_knows_go_to_the_keeper(target, field, is_kept):
    mine, theirs = socket.socketpair()
    sender = ConnectionSender(mine, lambda head: head.raw_path == b"/data")
    data = f"GET {target} HTTP/1.1\r\nHost: gw\r\n{field}\r\n\r\n".encode()
    assert sender.answers(parse_head(data), data) is is_kept
    mine.close()
    theirs.close()
