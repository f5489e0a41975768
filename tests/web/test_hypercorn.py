from contextlib import asynccontextmanager, suppress
from math import inf

import pytest
import quart
import trio
import trio.testing
from quart_trio import QuartTrio

from gw.web.cold import Cold
from gw.web.connection import ServerLimits
from gw.web.drain import Drain
from gw.web.hypercorn import open_hypercorn
from gw.web.transport import StreamTransport
from tests.fakes.edge import Client, StalledStream, echo, request, respond


def _app():
    app = QuartTrio("cold")

    @app.route("/cold", methods=["GET", "POST"])
    async def cold():
        return (await quart.request.get_data()).decode() or "empty"

    return app


@asynccontextmanager
async def hosting(app=None, limits=None, pair=trio.testing.memory_stream_pair, first=b""):
    drain, limits = Drain(), limits or ServerLimits()
    cold = Cold(app=app or _app(), hot=echo, is_hot=lambda m, p: p == b"/hot", drain=drain, limits=limits)
    async with open_hypercorn(cold, drain, limits) as host, trio.open_nursery() as nursery:
        ours, theirs = pair()
        client = Client(ours)
        client.drain, client.host, client.done = drain, host, trio.Event()
        transport = StreamTransport(theirs)
        if first:
            transport.unread(first)

        async def run():
            await host.run(transport)
            client.done.set()

        nursery.start_soon(run)
        yield client
        nursery.cancel_scope.cancel()


async def test_serves_quart_from_bytes_that_were_read_ahead(autojump_clock):
    async with hosting(first=request("POST", "/cold", b"one")) as client:
        assert (await client.response()).body == b"one"
        await client.send(request("GET", "/cold"))
        response = await client.response()
        assert response.body == b"empty"
        assert "server" not in response.headers


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST /cold HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /cold HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\nHost: a\r\n\r\n", 400),
        (b"GET /cold HTTP/1.1\r\n\r\n", 400),
        (b"GET /cold HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 70_000, 431),
        (b"POST /cold HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n", 413),
    ],
)
async def test_refuses_and_closes(data, status, autojump_clock):
    async with hosting() as client:
        await client.send(data)
        response = await client.response()
        assert response.status == status
        assert response.headers["connection"] == "close"
        assert response.error()["request_id"]
        assert await client.ended()
        await client.done.wait()


UPGRADE = b"""GET /cold HTTP/1.1\r
Host: gw\r
Connection: Upgrade\r
Upgrade: websocket\r
Sec-WebSocket-Version: 13\r
Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r
\r
"""


@pytest.mark.parametrize("more", [b"", b"\x89\x80\x00\x00\x00\x00", request("GET", "/cold")])
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_refused_handshake_ends_its_connection(more, at_once, autojump_clock):
    """Whatever the client sends beside it or afterwards."""

    async def app(scope, receive, send):
        if scope["type"] == "websocket":
            headers = [(b"content-length", b"2")]
            await send({"type": "websocket.http.response.start", "status": 404, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": b"no"})

    async with hosting(app) as client:
        await client.send(UPGRADE + more if at_once else UPGRADE)
        response = await client.response()
        assert (response.status, response.headers["connection"]) in ((404, "close"), (400, "close"))
        if not at_once:
            assert response.body == b"no"
            with suppress(trio.BrokenResourceError):
                await client.send(more)
        assert await client.ended()
        await client.done.wait()


async def test_an_idle_connection_is_closed_under_quart_trio(autojump_clock):
    async with hosting(limits=ServerLimits(idle_s=75)) as client:
        await client.send(request("GET", "/cold"))
        await client.response()
        began = trio.current_time()
        assert await client.ended()
        assert trio.current_time() - began == pytest.approx(75)


async def test_a_drain_closes_an_idle_connection_at_once(autojump_clock):
    async with hosting() as client:
        await client.send(request("GET", "/cold"))
        await client.response()
        began = trio.current_time()
        client.drain.begin(30)
        await client.host.close_idle()
        assert await client.ended()
        assert trio.current_time() - began < 0.3


async def test_a_client_that_closes_its_idle_connection_frees_it_at_once(autojump_clock):
    async with hosting() as client:
        await client.send(request("GET", "/cold"))
        await client.response()
        began = trio.current_time()
        await client.stream.aclose()
        await client.done.wait()
        assert trio.current_time() == began


async def test_a_stalled_reader_is_dropped_after_the_write_deadline(autojump_clock):
    def pair():
        ours, theirs = trio.testing.memory_stream_pair()
        return ours, StalledStream(theirs)

    async with hosting(limits=ServerLimits(write_s=30), pair=pair) as client:
        began = trio.current_time()
        await client.send(request("GET", "/cold"))
        await client.done.wait()
        assert trio.current_time() - began == pytest.approx(30)


async def test_an_app_that_never_reads_its_body_does_not_block_the_connection(autojump_clock):
    async def app(scope, receive, send):
        if scope["type"] == "http":
            await respond(send, b"no", 403)

    async with hosting(app) as client, trio.open_nursery() as nursery:

        async def upload():
            with suppress(trio.BrokenResourceError):
                await client.send(request("POST", "/cold", b"x" * 5_000_000)[:-1])

        nursery.start_soon(upload)
        assert (await client.response()).status == 403
        await client.done.wait()


async def test_a_crash_in_the_middle_of_an_answer_cuts_it(autojump_clock):
    async def app(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise ValueError

    async with hosting(app) as client:
        await client.send(request("GET", "/cold"))
        with pytest.raises(AssertionError, match=r"ended|cut"):
            await client.response()
        await client.done.wait()


async def test_the_lifespan_is_run_and_shut_down_also_when_cancelled():
    events = []

    async def app(scope, receive, send):
        assert scope["type"] == "lifespan"
        for kind in ("startup", "shutdown"):
            events.append((await receive())["type"])
            await send({"type": f"lifespan.{kind}.complete"})

    with trio.CancelScope() as scope:
        async with open_hypercorn(app, Drain()):
            assert events == ["lifespan.startup"]
            scope.cancel()
            await trio.sleep(inf)
    assert events == ["lifespan.startup", "lifespan.shutdown"]
