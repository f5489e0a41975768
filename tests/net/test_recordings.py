"""Addresses that callers name: what is connected to, over real sockets."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.abc

from gw.net import recordings
from gw.net.connect import connect_tcp
from gw.net.recordings import RecordingNotFetched
from tests.fakes.net import ServerSide


async def fetch(url, *hosts, most=1_000):
    got, begun = bytearray(), []

    async def write(data):
        got.extend(data)

    await recordings.fetch(
        connect_tcp, url, "url", lambda *named: begun.append(named), write, max_bytes=most, private_hosts=hosts
    )
    return bytes(got), begun


@asynccontextmanager
async def server(answers):
    seen = []

    async def handle(stream):
        side = ServerSide(stream)
        while (request := await side.request()) is not None:
            seen.append(request)
            await side.respond(*answers.pop(0))

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        yield listener.socket.getsockname()[1], seen
        nursery.cancel_scope.cancel()


class Resolver(trio.abc.HostnameResolver):
    """Every name is this address; a second question gets another answer, as from a server that rebinds."""

    def __init__(self, *addresses):
        self.addresses = list(addresses)

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # noqa: A002  # the names of the interface
        address = self.addresses.pop(0)
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(kind, socket.SOCK_STREAM, 6, "", (address, port))]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


PRIVATE = (
    "127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "0.0.0.0", "::1", "fc00::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "fec0::1",
)  # fmt: skip
NEVER = (
    "169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "100.100.100.200", "fd00:ec2::254", "168.63.129.16",
    "metadata.google.internal",
)  # fmt: skip


async def test_private_addresses_are_refused_by_number_and_by_name():
    tried = 0
    for address in PRIVATE:
        for host in (f"[{address}]" if ":" in address else address, "files.example.com"):
            trio.socket.set_custom_hostname_resolver(Resolver(address))
            with pytest.raises(RecordingNotFetched, match=r"list the host in serve\.recording_hosts") as caught:
                await fetch(f"http://{host}:9/a.wav?secret=1")
            assert (caught.value.param, "secret" in caught.value.what) == ("url", False)
            tried += 1
    assert tried == 32


async def test_metadata_services_are_refused_even_where_the_host_is_listed():
    for address in NEVER:
        host = f"[{address}]" if ":" in address else address
        with pytest.raises(RecordingNotFetched, match="never called"):
            await fetch(f"http://{host}/latest/meta-data", address)
        trio.socket.set_custom_hostname_resolver(Resolver(address))
        if not address[0].isalpha() or ":" in address:
            with pytest.raises(RecordingNotFetched, match="never called"):
                await fetch("http://files.example.com/latest", "files.example.com")


async def test_the_address_that_was_checked_is_the_one_connected_to():
    """The name is looked up once for a connection: an answer that changes afterwards is never asked for."""
    async with server([(200, b"audio")]) as (port, seen):
        resolver = Resolver("127.0.0.1", "10.0.0.1")
        trio.socket.set_custom_hostname_resolver(resolver)
        got, begun = await fetch(f"http://files.example.com:{port}/d/a%20b.wav", "files.example.com")
        assert (got, begun, resolver.addresses) == (b"audio", [("a%20b.wav", "")], ["10.0.0.1"])
        assert seen[0].headers == {b"host": f"files.example.com:{port}".encode(), b"accept": b"*/*", b"user-agent": b"gw",
                                   b"accept-encoding": b"identity"}  # fmt: skip


async def test_a_redirect_to_a_private_address_is_refused():
    for target in ("http://10.0.0.1/a", "http://[::1]:9/a", "http://169.254.169.254/latest", "file:///etc/passwd"):
        async with server([(302, b"", (b"location", target.encode()))]) as (port, seen):
            with pytest.raises(recordings.ClientProtocolError, match=r"private|never called|must begin"):
                await fetch(f"http://127.0.0.1:{port}/", "127.0.0.1")
            assert len(seen) == 1


async def test_a_callback_goes_to_public_or_listed_hosts_only():
    async with server([(204, b"")]) as (port, seen):
        url = f"http://127.0.0.1:{port}/done"
        post = partial(recordings.post, connect_tcp, url, [(b"x", b"y")], b"{}", within_s=5)
        assert "private" in await post(private_hosts=())
        assert seen == []
        assert await post(private_hosts=("127.0.0.1",)) == 204
        assert (seen[0].method, seen[0].body, seen[0].headers[b"x"]) == (b"POST", b"{}", b"y")
