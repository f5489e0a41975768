"""What reads, without a framework: which requests are its own, and how its answers are sent."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from gw.store.chunked_body import PIECE_BYTES, Encoded
from gw.web.drain import Drain
from gw.web.http_server import HostedApp, HttpServer
from gw.web.operations import Table
from gw.web.router import Reply, Router, RouteTable, shown
from tests.fakes.edge import Client, Stuck, request
from tests.fakes.net import StreamTransport
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import ADMIN, SHOP, call

LONG = bytes(range(256)) * 1_000


def reads_of(gateway, **views) -> Router:
    """Views by name, at `/name`; `one` takes a name, `deep` one with slashes."""
    rules = {"one": "/one/<name>", "deep": "/deep/<path:name>"}
    routes = RouteTable()
    for name, view in views.items():
        routes.get(rules.get(name, f"/{name}"))(view)
    return Router(gateway, [routes], Table([]))


async def connected(host: str) -> Client:
    name, _, port = host.rpartition(":")
    return Client(await trio.open_tcp_stream(name, int(port)))


async def told(ask):
    return shown([ask.named, ask.fields])


async def long(ask):
    return Reply(Encoded((LONG, b"", b"the end")), b"text/plain")


@pytest.mark.parametrize(
    ("method", "path", "taken"),
    [
        (b"GET", b"/it", True),
        (b"HEAD", b"/it", True),
        (b"GET", b"/it/", True),
        (b"GET", b"/%69t", True),
        (b"POST", b"/it", False),
        (b"GET", b"//it", False),
        (b"GET", b"/it//", False),
        (b"GET", b"/IT", False),
        (b"GET", b"/it/x", False),
        (b"GET", b"/one/x", True),
        (b"GET", b"/one/x/", True),
        (b"GET", b"/one/", False),
        (b"GET", b"/one/x/y", False),
        (b"GET", b"/one/x%2fy", False),
        (b"GET", b"/deep/x/y", True),
        (b"GET", b"/deep/x%2Fy", True),
        (b"GET", b"/deep//y", False),
        (b"GET", b"/deep", False),
        (b"GET", b"*", False),
        (b"GET", b"/\xff%ff", False),
    ],
)
async def test_which_requests_are_taken(gateway, method, path, taken):
    assert reads_of(gateway, it=told, one=told, deep=told).takes(method, path) is taken


@pytest.mark.parametrize(
    ("target", "named", "fields"),
    [
        ("/it", "", []),
        ("/it?a=1&b=x+y%21&c=&d", "", [["a", "1"], ["b", "x y!"], ["c", ""], ["d", ""]]),
        ("/it?&&", "", []),
        ("/it?a=%ff", "", [["a", "\ufffd"]]),
        ("/one/a%20b", "a b", []),
        ("/deep/groq%2Fx/y/", "groq/x/y", []),
    ],
)
async def test_what_a_view_is_told(gateway, target, named, fields):
    assert (await call(reads_of(gateway, it=told, one=told, deep=told), target)).json == [named, fields]


async def test_what_no_rule_is_about_may_be_answered_to_anybody(guarded):
    async def page(ask):
        return Reply(ask.named.encode(), b"text/html")

    reads = Router(guarded, [], Table([]), lambda path: None if path.startswith("/api/") else page)
    answer = await call(reads, "/some/page/?what=ever&what=ever")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"/some/page/", "text/html")
    assert reads.takes(b"HEAD", b"/some/page")
    assert not reads.takes(b"POST", b"/some/page")
    assert not reads.takes(b"GET", b"/%61pi/x")
    assert not reads.rules_on(b"/some/page")


async def test_what_a_rule_is_about_and_no_operation_needs_the_admin_token(guarded):
    reads = reads_of(guarded, it=told)
    assert reads.rules_on(b"/it")
    assert [(await call(reads, "/it", headers)).status for headers in ({}, SHOP, ADMIN)] == [401, 403, 200]


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
        await reads_of(gateway, it=long)(scope, None, send)
        nursery.cancel_scope.cancel()
    (_, start), *pieces = sent
    assert dict(start["headers"])[b"content-length"] == b"%d" % (len(LONG) + 7)
    assert b"".join(message["body"] for _, message in pieces) == LONG + b"the end"
    assert max(len(message["body"]) for _, message in pieces) == PIECE_BYTES
    assert [message["more_body"] for _, message in pieces] == [True] * (len(pieces) - 1) + [False]
    assert all(message["body"] for _, message in pieces)
    assert sent[-1][0] - sent[0][0] >= len(pieces) - 2  # who is first in a turn is left to chance


async def test_a_client_who_leaves_stops_the_question_on_a_host_that_only_says_so(gateway):
    stopped, asked = trio.Event(), trio.Event()

    async def endless(ask):
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async def receive():
        await asked.wait()
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": "/it", "headers": [], "extensions": {}}
    with trio.fail_after(5):
        await reads_of(gateway, it=endless)(scope, receive, None)
    assert stopped.is_set()


async def test_a_fault_of_ours_is_a_500_and_the_connection_goes_on(gateway):
    async def broken(ask):
        raise ZeroDivisionError("secret detail")

    answer = await call(reads_of(gateway, it=broken), "/it")
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert b"secret" not in answer.body


async def test_reads_are_neither_counted_nor_shed(gateway):
    """Beside a data plane that takes no more."""
    ours, theirs = trio.testing.memory_stream_pair()
    others, other_ends = trio.testing.memory_stream_pair()
    drain, stuck, reads = Drain(), Stuck(), reads_of(gateway, it=told)
    data, reading = HostedApp(app=stuck, counted=True), HostedApp(app=reads)
    host = HttpServer(lambda method, path: data if path == b"/hot" else reading, drain, max_in_flight=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.run_connection, StreamTransport(other_ends))
        nursery.start_soon(host.run_connection, StreamTransport(theirs))
        await others.send_all(request())
        await stuck.started.wait()
        client = Client(ours)
        for _ in range(2):  # the second is the head before once more
            await client.send(request("GET", "/it?x=1"))
            assert (await client.response()).body == b'["",[["x","1"]]]'
        await client.send(request())
        assert (await client.response()).status == 503
        await client.send(request("GET", "/it"))
        assert (await client.response()).status == 200
        assert drain.in_flight == 1
        nursery.cancel_scope.cancel()


async def test_a_drain_waits_for_a_report_that_runs_and_begins_no_other(gateway):
    ours, theirs = trio.testing.memory_stream_pair()
    asked, found = trio.Event(), trio.Event()

    async def slow(ask):
        asked.set()
        await found.wait()
        return shown("found")

    drain, reads = Drain(), reads_of(gateway, it=slow)
    hosted = HostedApp(app=reads)
    host = HttpServer(lambda method, path: hosted, drain)
    client = Client(ours)

    async def serve():
        transport = StreamTransport(theirs)
        await host.run_connection(transport)
        await transport.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        await client.send(request("GET", "/it"))
        await asked.wait()
        drain.begin()
        found.set()
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
        assert (await ask("POST", "/v1/projects", b"x" * 1_000_001, json)).status == 413
        await client.stream.aclose()


async def test_a_socket_is_refused_where_a_read_is(tmp_path):
    async with open_running(tmp_path) as running:
        host = running.url.removeprefix("http://")
        client = await connected(host)
        fields = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: " + b"A" * 22 + b"==")
        await client.send(request("GET", "/v1/costs", b"", *fields, host=host))
        assert (await client.response()).status == 404
        await client.stream.aclose()
