"""Upstreams that say more than they were asked for, on real sockets: no caller gets what belongs to another.

Each call of every provider goes through the pool (`Pool.open`), so what holds here holds for all of them.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import partial

import pytest
import trio
import trustme

from gw.net.http1 import Origin, Pool
from tests.fakes.net import ServerSide

CALLS = 4


def answer(body: bytes, status: int = 200, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n%b\r\n%b" % (status, len(body), more, body)


TIMEOUT = answer(b"too slow", 408, b"connection: close\r\n")
SURPLUS = {
    "the answer again": lambda body: answer(body),
    "another's answer": lambda body: answer(b"of somebody else"),
    "408 on idle": lambda body: TIMEOUT,
    "half an answer": lambda body: answer(b"of somebody else")[:20],
    "blank lines": lambda body: b"\r\n\r\n",
    "one byte": lambda body: b"H",
}
HOW = ["in one piece", "when it is idle", "when it is idle, and closes"]


@pytest.fixture(scope="module")
def contexts():
    """Of a server, and of a client that trusts it."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    server.num_tickets = 0  # a ticket that comes late costs a connection, and would hide what is tested here
    authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA).configure_cert(server)
    authority.configure_trust(client)
    return server, client


class Talkative:
    """Answers each request with its body, and says `surplus` behind it; without one it is a good upstream."""

    def __init__(self, surplus, how, context):
        self._surplus, self._how, self._context = surplus, how, context
        self.said = [trio.Event() for _ in range(CALLS)]
        self.connections = 0

    async def __call__(self, stream):
        self.connections += 1
        if self._context is not None:
            stream = trio.SSLStream(stream, self._context, server_side=True, https_compatible=True)
        server = ServerSide(stream)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while (request := await server.request()) is not None:
                surplus = self._surplus(request.body) if self._surplus else b""
                if self._how == "in one piece":
                    await stream.send_all(answer(request.body) + surplus)
                else:
                    await stream.send_all(answer(request.body))
                    if surplus:
                        await stream.send_all(surplus)
                self.said[int(request.body)].set()
                if surplus and self._how.endswith("closes"):
                    await stream.aclose()
                    return


async def answers(upstream, tls, client_context):
    """What each caller got, one after the other."""
    pool, bodies = Pool(ssl_context=client_context), []
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, upstream, 0, host="127.0.0.1"))
        origin = Origin.parse(f"http{'s' if tls else ''}://127.0.0.1:{listener.socket.getsockname()[1]}")
        for number in range(CALLS):
            with trio.fail_after(60):
                async with pool.open("up", b"POST", origin, b"/", [], b"%d" % number) as response:
                    bodies.append((response.status, await response.read()))
                await upstream.said[number].wait()
        await pool.aclose()
        nursery.cancel_scope.cancel()
    return bodies


OWN = [(200, b"%d" % number) for number in range(CALLS)]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_nobody_gets_what_was_not_asked_for(contexts, tls):
    server, client = contexts
    cells = 0
    for name, surplus in SURPLUS.items():
        for how in HOW:
            upstream = Talkative(surplus, how, server if tls else None)
            assert await answers(upstream, tls, client) == OWN
            if name != "blank lines":  # read with the answer, they are skipped: parsers do before a status line (RFC 9112 2.2)
                assert (name, how, upstream.connections) == (name, how, CALLS)
            cells += 1
    assert cells == len(SURPLUS) * len(HOW)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_a_silent_upstream_keeps_its_connection(contexts, tls):
    """So the others above lose theirs for what they said."""
    server, client = contexts
    upstream = Talkative(None, "", server if tls else None)
    assert await answers(upstream, tls, client) == OWN
    assert upstream.connections == 1
