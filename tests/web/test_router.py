"""The router: which requests have a route, and how answers are sent."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from gw.store.chunked_body import PIECE_BYTES, Encoded
from gw.web.drain import Drain
from gw.web.http_server import HostedApp, HttpServer
from gw.web.live_feed import Feed
from gw.web.reply import Reply
from gw.web.rights import Need
from gw.web.route import ControlPlane, Route, RouteTable
from gw.web.router import Router
from gw.web.static_files import File, Frontend
from tests.fakes.edge import Client, Stuck, request
from tests.fakes.net import StreamTransport
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import ADMIN, SHOP, call

LONG = bytes(range(256)) * 1_000


def routing(gateway, *, need=None, files=None, serves=lambda method, path: False, **handlers) -> Router:
    """Return a router of handlers by name, at `/name`; `one` takes a name, `deep` one with slashes."""
    kept = {} if need is None else {"need": need}
    paths = {"one": "/one/{name}", "deep": "/deep/{model_id}", "change": "/it"}
    table = RouteTable(
        Route("POST" if name == "change" else "GET", paths.get(name, f"/{name}"), name, "", handler, answers=(), tag="X", **kept)
        for name, handler in handlers.items()
    )
    drain = Drain()
    return Router(
        ControlPlane(gateway=gateway, drain=drain, files=files or Frontend({}), serves=serves, feed=Feed(gateway.store)), table
    )


async def connected(host: str) -> Client:
    name, _, port = host.rpartition(":")
    return Client(await trio.open_tcp_stream(name, int(port)))


async def echo(request):
    return [request.name, request.fields]


async def long(request):
    return Reply(Encoded((LONG, b"", b"the end")), b"text/plain")


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/it", 200),
        ("HEAD", "/it", 200),
        ("GET", "/it/", 200),
        ("GET", "/%69t", 200),
        ("PUT", "/it", 405),
        ("OPTIONS", "/it", 405),
        ("GET", "//it", 404),
        ("GET", "/it//", 404),
        ("GET", "/IT", 404),
        ("GET", "/it/x", 404),
        ("GET", "/v1/it", 404),
        ("POST", "/it/x", 404),
        ("GET", "/one/x", 200),
        ("GET", "/one/x/", 200),
        ("GET", "/one/", 404),
        ("GET", "/one/x/y", 404),
        ("GET", "/one/x%2fy", 404),
        ("GET", "/deep/x/y", 200),
        ("GET", "/deep/x%2Fy", 200),
        ("GET", "/deep//y", 404),
        ("GET", "/deep", 404),
        ("GET", "/\xff%ff", 404),
    ],
)
async def test_which_requests_have_a_route(gateway, method, target, status):
    router = routing(gateway, it=echo, one=echo, deep=echo)
    assert (await call(router, target, method=method)).status == status
    assert not router.changes(method.encode(), target.encode("latin-1"))


async def test_405_names_the_methods_of_both_planes(gateway):
    router = routing(gateway, it=echo, change=echo, serves=lambda method, path: (method, path) == (b"PATCH", b"/it"))
    assert router.changes(b"POST", b"/it/")
    assert not router.changes(b"PUT", b"/it")
    assert (await call(router, "/it", method="PUT")).headers["allow"] == "PATCH, GET, HEAD, POST"
    assert (await call(routing(gateway, change=echo), "/it")).headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("target", "name", "fields"),
    [
        ("/it", "", []),
        ("/it?a=1&b=x+y%21&c=&d", "", [["a", "1"], ["b", "x y!"], ["c", ""], ["d", ""]]),
        ("/it?&&", "", []),
        ("/it?a=%ff", "", [["a", "\ufffd"]]),
        ("/one/a%20b", "a b", []),
        ("/deep/groq%2Fx/y/", "groq/x/y", []),
    ],
)
async def test_what_a_handler_receives(gateway, target, name, fields):
    assert (await call(routing(gateway, need=Need("call"), it=echo, one=echo, deep=echo), target)).json == [name, fields]


async def test_files_and_pages_need_no_credential_and_no_query_check(guarded):
    page = File(content_type="text/html; charset=utf-8", etag="e", cache_control="no-cache", bodies={"": b"page"})
    router = routing(guarded, files=Frontend({"/index.html": page, "/assets/x.js": page}))
    for target in ("/costs/page/?what=ever&what=ever", "/assets/x.js"):
        answer = await call(router, target, {"accept": "text/html"})
        assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"page", "text/html; charset=utf-8")
    assert (await call(router, "/%61pi/x")).status == (await call(router, "/some/page", method="POST")).status == 404


async def test_a_route_needs_the_admin_token_unless_it_says_otherwise(guarded):
    router = routing(guarded, it=echo)
    assert [(await call(router, "/it", headers)).status for headers in ({}, SHOP, ADMIN)] == [401, 403, 200]
    assert (await call(routing(guarded, need=Need("call"), it=echo), "/it", SHOP)).status == 200


async def test_the_right_is_checked_before_the_query(guarded):
    router = routing(guarded, it=echo)
    assert [(await call(router, "/it?x=1", headers)).status for headers in (SHOP, ADMIN)] == [403, 422]


async def test_a_long_body_goes_out_in_pieces_with_a_turn_for_others_between_two(gateway):
    sent, turns = [], 0

    async def send(message):
        sent.append((turns, message))

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    scope = {"type": "http", "method": "GET", "path": "/it", "headers": [], "extensions": {"gw.cancels": {}}}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await routing(gateway, it=long)(scope, None, send)
        nursery.cancel_scope.cancel()
    (_, start), *pieces = sent
    assert dict(start["headers"])[b"content-length"] == b"%d" % (len(LONG) + 7)
    assert b"".join(message["body"] for _, message in pieces) == LONG + b"the end"
    assert max(len(message["body"]) for _, message in pieces) == PIECE_BYTES
    assert [message["more_body"] for _, message in pieces] == [True] * (len(pieces) - 1) + [False]
    assert all(message["body"] for _, message in pieces)
    assert sent[-1][0] - sent[0][0] >= len(pieces) - 2  # the order within a turn is random


async def test_a_disconnect_stops_the_handler_on_a_host_that_only_reports_it(gateway):
    stopped, started = trio.Event(), trio.Event()

    async def endless(request):
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async def receive():
        await started.wait()
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": "/it", "headers": [], "extensions": {}}
    with trio.fail_after(60):
        await routing(gateway, it=endless)(scope, receive, None)
    assert stopped.is_set()


async def test_an_unexpected_error_is_a_500(gateway):
    async def broken(request):
        raise ZeroDivisionError("secret detail")

    answer = await call(routing(gateway, it=broken), "/it")
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert b"secret" not in answer.body


async def test_reads_are_neither_counted_nor_shed(gateway):
    """Beside a data plane that takes no more."""
    client_end, host_end = trio.testing.memory_stream_pair()
    others, other_ends = trio.testing.memory_stream_pair()
    drain, stuck, reads = Drain(), Stuck(), routing(gateway, it=echo)
    data, reading = HostedApp(app=stuck, counted=True), HostedApp(app=reads)
    host = HttpServer(lambda method, path: data if path == b"/data" else reading, drain, max_in_flight=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.run_connection, StreamTransport(other_ends))
        nursery.start_soon(host.run_connection, StreamTransport(host_end))
        await others.send_all(request())
        await stuck.started.wait()
        client = Client(client_end)
        for _ in range(2):  # the second has the same head as the first
            await client.send(request("GET", "/it?token=1"))
            assert (await client.response()).body == b'["",[["token","1"]]]'
        await client.send(request())
        assert (await client.response()).status == 503
        await client.send(request("GET", "/it"))
        assert (await client.response()).status == 200
        assert drain.in_flight == 1
        nursery.cancel_scope.cancel()


async def test_a_drain_waits_for_a_report_in_progress_and_accepts_no_other(gateway):
    client_end, host_end = trio.testing.memory_stream_pair()
    started, finish = trio.Event(), trio.Event()

    async def slow(request):
        started.set()
        await finish.wait()
        return "found"

    drain, reads = Drain(), routing(gateway, it=slow)
    hosted = HostedApp(app=reads)
    host = HttpServer(lambda method, path: hosted, drain)
    client = Client(client_end)

    async def serve():
        transport = StreamTransport(host_end)
        await host.run_connection(transport)
        await transport.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        await client.send(request("GET", "/it"))
        await started.wait()
        drain.begin()
        finish.set()
        answer = await client.response()
        assert (answer.body, answer.headers["connection"]) == (b'"found"', "close")
        assert await client.ended()


async def test_one_connection_carries_reads_chats_and_changes(tmp_path):
    """Requests of all three kinds in any order; the connection is kept."""
    body = b'{"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}'
    json = b"Content-Type: application/json"
    async with open_running(tmp_path) as running:
        host = running.url.removeprefix("http://")
        client = await connected(host)

        async def ask(method, path, body=b"", *fields):
            await client.send(request(method, path, body, *fields, host=host))
            answer = await client.response(head_only=method == "HEAD")
            assert len(answer.headers["x-request-id"]) == 32
            return answer

        async def both_planes():
            assert (await ask("GET", "/v1/costs")).headers["cache-control"] == "no-store"
            assert (await ask("POST", "/v1/chat/completions", body, json)).status == 200
            assert (await ask("HEAD", "/v1/logs?limit=5")).headers["content-length"] != "0"
            assert (await ask("GET", "/v1/costs?perod=today")).error()["param"] == "perod"
            assert (await ask("GET", "/v1/requests/none")).status == 404

        await both_planes()
        refused = await ask("POST", "/v1/costs", b"{}", json)
        assert (refused.status, refused.headers["allow"]) == (405, "get, head")
        await both_planes()
        created = await ask("POST", "/v1/projects", b'{"project_id": "new"}', json)
        assert (created.status, created.headers["x-content-type-options"]) == (200, "nosniff")
        await client.stream.aclose()


async def test_a_socket_is_refused_where_a_read_is(tmp_path):
    async with open_running(tmp_path) as running:
        host = running.url.removeprefix("http://")
        client = await connected(host)
        fields = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: " + b"A" * 22 + b"==")
        await client.send(request("GET", "/v1/costs", b"", *fields, host=host))
        assert (await client.response()).status == 404
        await client.stream.aclose()
