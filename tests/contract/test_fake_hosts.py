"""The host of the fakes: a client that breaks its connection ends that connection only, and a pause of the machine is no silence."""

from __future__ import annotations

import errno
import socket
import ssl
import struct
import time
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
import trustme

from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.google_cloud import FakeGoogleCloud
from tests.fakes.vendors.live import Peer
from tests.fakes.vendors.scripted import Entry


async def _fail_when_cancelled():
    """What a send does that fails just as the client's leaving is noticed."""
    try:
        await trio.sleep_forever()
    finally:
        raise OSError(errno.EPIPE, "the client is gone")


async def test_a_send_that_fails_while_its_client_leaves_does_not_end_the_server():
    failed = 0

    async def app(scope, receive, send):
        nonlocal failed
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"some", "more_body": True})
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_fail_when_cancelled)
                nursery.start_soon(trio.sleep_forever)
        except BaseExceptionGroup:
            failed += 1
            raise

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            address = await nursery.start(serve_asgi, app)
            host, port = address.removeprefix("http://").split(":")
            for n in (1, 2):
                async with await trio.open_tcp_stream(host, int(port)) as stream:
                    await stream.send_all(b"GET / HTTP/1.1\r\nHost: fake\r\n\r\n")
                    assert (await stream.receive_some(12)) == b"HTTP/1.1 200"
                while failed < n:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()


async def test_a_client_that_resets_its_tls_connection_does_not_end_the_server():
    ended = 0

    async def app(scope, receive, send):
        nonlocal ended
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": bytes(65_536), "more_body": True})
        finally:
            ended += 1

    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            address = await nursery.start(partial(serve_asgi, app, context))
            host, port = address.removeprefix("https://").split(":")
            for n in (1, 2):
                plain = await trio.open_tcp_stream(host, int(port))
                stream = trio.SSLStream(plain, trusting, server_hostname=host, https_compatible=True)
                await stream.send_all(b"GET / HTTP/1.1\r\nHost: fake\r\n\r\n")
                assert (await stream.receive_some(12)) == b"HTTP/1.1 200"
                plain.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                plain.socket.close()
                while ended < n:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("sends", [True, False])
async def test_a_process_that_stands_still_is_no_silent_client(sends):
    plain, theirs = socket.socketpair()
    plain.setblocking(False)
    ours = trio.socket.from_stdlib_socket(plain)
    frames, received = trio.open_memory_channel[dict[str, Any]](1)
    fake = FakeGoogleCloud(audio_within_s=0.05)
    entry = Entry(method="WS", path="/", headers={}, opened=0.0)
    peer = Peer(fake=fake, entry=entry, query=b"", receive=received.receive, send=frames.send)
    outcome = []

    async def read():
        await frames.send({"type": "websocket.receive", "bytes": await ours.recv(5)})

    async def listen():
        try:
            outcome.append(await peer.receive())
        except trio.TooSlowError:
            outcome.append(None)
        nursery.cancel_scope.cancel()

    with ours, theirs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(listen)
            await trio.testing.wait_all_tasks_blocked()
            if sends:
                theirs.send(b"audio")   # without a checkpoint, at which it would be read at once
            time.sleep(0.1)  # noqa: ASYNC251, the whole process stands still
    assert outcome == [b"audio" if sends else None]
