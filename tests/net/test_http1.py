"""The pool: what it sends, which connections it keeps, how a call is cancelled."""

import weakref
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing

from gw.errors import ProviderUnreachable, StaleConnection, UpstreamCut
from gw.net.http1 import IDLE_MAX_S, Origin, Pool, header_lines
from tests.fakes.net import FakeNet, ServerSide, black_hole

ORIGIN = Origin.parse("http://up.example/v1")
HOST = ("up.example", 80)


class Upstream:
    """Answers every request on a connection with its body; `dies_after` requests per connection it hangs up."""

    def __init__(self):
        self.seen = []
        self.dies_after = 1_000
        self.headers = ()

    async def __call__(self, stream):
        server = ServerSide(stream)
        for _ in range(self.dies_after):
            request = await server.request()
            if request is None:
                return
            self.seen.append(request)
            await server.respond(200, request.body, *self.headers)


class Pieces:
    """A body of these chunks."""

    def __init__(self, *chunks, size=None):
        self._chunks = chunks
        self.size = sum(map(len, chunks)) if size is None else size
        self.closed = 0

    async def chunks(self):
        try:
            for chunk in self._chunks:
                await trio.lowlevel.checkpoint()
                yield chunk
        finally:
            self.closed += 1


@pytest.fixture
async def net(nursery):
    return FakeNet(nursery)


@pytest.fixture
async def upstream(net):
    net.hosts[HOST] = upstream = Upstream()
    return upstream


@pytest.fixture
async def pool(net):
    return Pool(connect=net)


async def call(pool, body=b"", method=b"POST", path=b"/x", headers=()):
    async with pool.open("up", method, ORIGIN, path, headers, body) as response:
        return await response.read()


async def test_what_is_sent(pool, upstream):
    await call(pool, b"{}", headers=[(b"authorization", b"Bearer k")], path=b"/chat?a=b")
    await call(pool, method=b"GET")
    await call(pool, b"")
    assert [r.head for r in upstream.seen] == [
        b"POST /v1/chat?a=b HTTP/1.1\r\nhost: up.example\r\naccept-encoding: identity\r\ncontent-length: 2\r\n"
        b"authorization: Bearer k",
        b"GET /v1/x HTTP/1.1\r\nhost: up.example\r\naccept-encoding: identity",
        b"POST /v1/x HTTP/1.1\r\nhost: up.example\r\naccept-encoding: identity\r\ncontent-length: 0",
    ]


@pytest.mark.parametrize(("base_url", "host"), [("http://h:81", b"h:81"), ("https://[::1]:444", b"[::1]:444")])
async def test_host_header(net, pool, base_url, host):
    origin = Origin.parse(base_url)
    net.hosts[origin.host, origin.port] = upstream = Upstream()
    async with pool.open("up", b"GET", origin, b"/", []):
        assert upstream.seen[0].headers[b"host"] == host


async def test_an_empty_path_is_the_root(net, pool):
    net.hosts["h", 80] = upstream = Upstream()
    async with pool.open("up", b"GET", Origin.parse("http://h"), b"", []):
        assert upstream.seen[0].path == b"/"


@pytest.mark.parametrize("value", [b"a\r\nx: y", b"a\n", b"\r", b"a\0b"])
async def test_a_header_that_breaks_out_is_refused(pool, upstream, value):
    for pair in ((b"x-a", b"secret" + value), (b"x" + value, b"secret")):
        with pytest.raises(ValueError, match="CR, LF or NUL") as caught:
            pool.open("up", b"GET", ORIGIN, b"/", [pair])
        assert "secret" not in str(caught.value)
    assert upstream.seen == []


@pytest.mark.parametrize("path", [b"/a b", b"/\r\nx", b"/\xc3\xa9", b"/\0"])
async def test_a_path_that_breaks_out_is_refused(pool, path):
    with pytest.raises(ValueError, match="path"):
        pool.open("up", b"GET", ORIGIN, path, [])


def test_header_lines():
    assert header_lines([(b"a", b"1"), (b"b", b"")]) == b"a: 1\r\nb: \r\n"
    assert header_lines([]) == b""


async def test_one_connection_serves_call_after_call(net, pool, upstream):
    for n in range(5):
        assert await call(pool, b"%d" % n) == b"%d" % n
    assert len(net.transports) == 1
    assert (pool.opened, pool.reused, pool.idle) == (1, 4, 1)


async def test_a_connection_made_ahead_serves_the_next_call(net, pool, upstream):
    await pool.warm("up", ORIGIN)
    await pool.warm("up", ORIGIN)  # there is one
    assert (pool.opened, pool.idle) == (1, 1)
    await call(pool)
    assert (pool.opened, pool.reused, pool.idle) == (1, 1, 1)


async def test_calls_at_a_time_have_a_connection_each_and_the_last_used_is_taken_first(net, pool, upstream):
    first, second = (pool.open("up", b"GET", ORIGIN, b"/", []) for _ in range(2))
    async with first, second:
        assert pool.in_use == {"http://up.example:80": 2}
    assert (pool.in_use, pool.idle) == ({}, 2)
    net.transports[1].stale = True  # came back first, so it lies below and is not looked at
    await call(pool)
    assert (pool.reused, pool.idle, net.open) == (1, 2, 2)


async def test_prefixes_of_one_host_share_connections(net, pool, upstream):
    for prefix in ("/a", "/b"):
        async with pool.open("up", b"GET", Origin.parse(f"http://up.example{prefix}"), b"/", []) as response:
            await response.read()
    assert len(net.transports) == 1


@pytest.mark.parametrize("header", [(b"connection", b"close")])
async def test_a_server_that_closes_is_not_kept(net, pool, upstream, header):
    upstream.headers = (header,)
    await call(pool)
    assert (pool.idle, net.open) == (0, 0)


async def test_bytes_beyond_the_answer_spoil_the_connection(net, pool):
    async def handler(stream):
        server = ServerSide(stream)
        await server.request()
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
        await server.send(answer + answer)
        await trio.sleep_forever()

    net.hosts[HOST] = handler
    assert await call(pool) == b"ok"
    assert (pool.idle, net.open) == (0, 0)


async def test_a_body_not_read_to_its_end_closes_the_connection_in_the_same_tick(net, pool, autojump_clock):
    async def handler(stream):
        server = ServerSide(stream)
        await server.request()
        await server.start()
        while True:
            await server.chunk(b"data: x\n\n")
            await trio.sleep(1)

    net.hosts[HOST] = handler
    async with pool.open("up", b"GET", ORIGIN, b"/", []) as response:
        await response.receive_some()
        left = trio.current_time()
    assert net.transports[0].aborted_at == left
    await trio.sleep(2)
    assert net.live == 0


async def test_an_answer_whole_but_unread_keeps_its_connection(net, pool, upstream):
    async with pool.open("up", b"POST", ORIGIN, b"/", [], b"{}") as response:
        assert response.status == 200
    assert pool.idle == 1


async def test_a_stale_connection_is_not_used(net, pool, upstream):
    await call(pool)
    net.transports[0].stale = True
    await call(pool)
    assert [t.aborted_at is None for t in net.transports] == [False, True]


async def test_a_connection_used_a_moment_ago_is_looked_at_as_well(net, pool, upstream):
    for _ in range(3):
        await call(pool)
    net.transports[0].stale = True
    await call(pool)
    assert [t.aborted_at is None for t in net.transports] == [False, True]


async def test_an_upstream_that_answers_twice_never_answers_the_next_caller():
    """On real sockets: the surplus answer arrives when the connection is idle already."""
    surplus = [trio.Event() for _ in range(4)]

    async def handler(stream):
        server = ServerSide(stream)
        with suppress(trio.BrokenResourceError):
            while (request := await server.request()) is not None:
                await server.respond(200, request.body)
                await server.respond(200, request.body)
                surplus[int(request.body)].set()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, handler, 0, host="127.0.0.1"))
        origin, pool = Origin.parse(f"http://127.0.0.1:{listener.socket.getsockname()[1]}"), Pool()
        for number in range(4):
            async with pool.open("up", b"POST", origin, b"/", [], b"%d" % number) as response:
                assert await response.read() == b"%d" % number
            await surplus[number].wait()
        await pool.aclose()
        nursery.cancel_scope.cancel()
    assert pool.opened == 4


async def test_a_connection_that_waited_long_is_not_used(net, pool, upstream, autojump_clock):
    await call(pool)
    await trio.sleep(IDLE_MAX_S + 1)
    await call(pool)
    assert (pool.opened, pool.reused, net.open) == (2, 0, 1)


async def test_old_connections_go_one_by_one_as_younger_ones_come_back(net, pool, upstream, autojump_clock):
    async with pool.open("up", b"GET", ORIGIN, b"/", []):
        await call(pool)
    await trio.sleep(IDLE_MAX_S / 2)
    await call(pool)  # the upper one of two
    await trio.sleep(IDLE_MAX_S / 2 + 1)
    await call(pool)
    assert (pool.idle, net.open) == (1, 1)


async def test_idle_connections_of_a_forgotten_origin_go_when_another_connects(net, pool, upstream, autojump_clock):
    net.hosts["other.example", 80] = Upstream()
    await call(pool)
    await trio.sleep(IDLE_MAX_S + 1)
    async with pool.open("other", b"GET", Origin.parse("http://other.example"), b"/", []) as response:
        await response.read()
    assert net.transports[0].aborted_at is not None


@pytest.mark.parametrize("body", [b"again", Pieces(b"ag", b"ain"), b"x" * 100_000])
async def test_a_kept_connection_found_dead_is_replaced_once(net, pool, upstream, body):
    upstream.dies_after = 1
    await call(pool, b"first")
    await trio.testing.wait_all_tasks_blocked()  # its close arrives
    expected = body if isinstance(body, bytes) else b"again"
    assert await call(pool, body) == expected
    assert (pool.opened, pool.in_use) == (2, {})


async def test_a_fresh_connection_that_dies_is_not_tried_again(net, pool, upstream):
    upstream.dies_after = 0
    with pytest.raises(ProviderUnreachable):
        await call(pool)
    assert (pool.opened, pool.in_use, net.open) == (1, {}, 0)


async def test_an_upstream_that_always_dies_is_replaced_once_only(net, pool, upstream):
    upstream.dies_after = 1
    await call(pool)
    upstream.dies_after = 0
    with pytest.raises(ProviderUnreachable):
        await call(pool)
    assert pool.opened == 2


async def test_a_request_that_was_read_is_not_sent_again_behind_the_callers_back(net, pool):
    seen = []

    async def handler(stream):
        server = ServerSide(stream)
        seen.append(await server.request())
        await server.respond(200, b"ok")
        seen.append(await server.request())

    net.hosts[HOST] = handler
    assert await call(pool) == b"ok"
    with pytest.raises(StaleConnection, match="closed the connection before an answer"):
        await call(pool)
    assert len(seen) == 2
    assert (pool.opened, pool.idle, pool.in_use) == (1, 0, {})
    assert await call(pool) == b"ok"
    assert pool.opened == 2


async def test_a_host_that_does_not_accept_is_given_up(autojump_clock):
    began = trio.current_time()
    with pytest.raises(ProviderUnreachable, match="no connection within 5 s"):
        await call(Pool(connect=black_hole))
    assert trio.current_time() - began == pytest.approx(5)


async def test_an_answer_that_began_is_not_asked_for_again(net, pool):
    async def handler(stream):
        server = ServerSide(stream)
        await server.request()
        await server.respond(200, b"ok")
        await server.request()
        await server.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal")

    net.hosts[HOST] = handler
    await call(pool)
    with pytest.raises(UpstreamCut):
        await call(pool)
    assert pool.opened == 1


async def test_a_body_in_pieces(pool, upstream):
    body = Pieces(b"abc", b"", b"d" * 70_000)
    assert await call(pool, body) == b"abc" + b"d" * 70_000
    assert upstream.seen[0].headers[b"content-length"] == b"70003"
    assert body.closed == 1


async def test_a_request_is_not_kept_for_as_long_as_its_answer_takes(pool, upstream):
    body = Pieces(b"a prompt ", b"of many words")
    kept = weakref.ref(body)
    call = pool.open("up", b"POST", ORIGIN, b"/chat", [], body)
    del body
    async with call as response:
        assert kept() is None
        assert await response.read() == b"a prompt of many words"


async def test_large_pieces_of_a_body_are_a_write_each(net, pool, upstream):
    assert len(await call(pool, Pieces(*[b"d" * 70_000] * 3, b"e"))) == 210_001
    head, *pieces = net.transports[0].writes
    assert head < 200
    assert pieces == [70_000, 70_000, 70_000, 1]


@pytest.mark.parametrize(("size", "text"), [(2, "longer"), (4, "1 bytes short")])
async def test_a_body_of_another_size_than_announced(net, pool, upstream, size, text):
    body = Pieces(b"ab", b"c", size=size)
    with pytest.raises(ValueError, match=text):
        await call(pool, body)
    assert (net.open, pool.in_use, body.closed) == (0, {}, 1)


async def test_an_error_of_the_body_itself_is_passed_on(net, pool, upstream):
    class Unreadable:
        size = 3

        async def chunks(self):
            yield b"a"
            raise OSError(5, "disk")

    with pytest.raises(OSError, match="disk"):
        await call(pool, Unreadable())
    assert (net.open, pool.in_use) == (0, {})


async def test_an_early_refusal_of_a_large_body_is_heard(net, pool):
    async def handler(stream):
        await stream.receive_some(1_000)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")

    net.hosts[HOST] = handler
    body = Pieces(*[b"x" * 70_000] * 20)
    async with pool.open("up", b"POST", ORIGIN, b"/", [], body) as response:
        assert (response.status, await response.read()) == (413, b"no")
    assert (net.open, pool.idle, body.closed) == (0, 0, 1)


async def test_a_cancelled_upload_closes_the_connection(net, pool, upstream, autojump_clock):
    class Slow:
        size = 3

        async def chunks(self):
            yield b"a"
            await trio.sleep(100)
            yield b"bc"

    with trio.move_on_after(1) as scope:
        await call(pool, Slow())
    assert scope.cancelled_caught
    assert (net.open, pool.in_use) == (0, {})


@pytest.mark.parametrize(
    ("failure", "detail"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (OSError(101, "Network is unreachable"), "network is unreachable"),
        (trio.BrokenResourceError(), "connection lost"),
    ],
)
async def test_no_connection(net, pool, failure, detail):
    net.hosts[HOST] = failure
    with pytest.raises(ProviderUnreachable) as caught:
        await call(pool)
    assert (caught.value.provider, caught.value.detail) == ("up", detail)
    assert pool.in_use == {}


async def test_no_such_name(pool):
    with pytest.raises(ProviderUnreachable, match="name or service not known"):
        await call(pool)


async def test_a_black_hole_ends_at_the_callers_deadline(autojump_clock):
    pool = Pool(connect=black_hole)
    with trio.move_on_after(3) as scope:
        await call(pool)
    assert scope.cancelled_caught
    assert pool.in_use == {}


async def test_reset_on_accept(net, pool):
    async def handler(stream):
        await stream.send_stream.aclose()
        await stream.receive_stream.aclose()

    net.hosts[HOST] = handler
    with pytest.raises(ProviderUnreachable, match="before an answer"):
        await call(pool)


async def test_aclose_drops_what_is_idle_and_keeps_nothing_more(net, pool, upstream):
    async with pool.open("up", b"GET", ORIGIN, b"/", []) as response:
        await call(pool)
        assert pool.idle == 1
        await pool.aclose()
        assert (pool.idle, net.open) == (0, 1)
        await response.read()
    assert net.open == 0


async def test_a_call_is_aborted_while_it_connects(autojump_clock):
    pool = Pool(connect=black_hole)
    exchange = pool.open("up", b"GET", ORIGIN, b"/x", ())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_after, 1, exchange.abort)
        with pytest.raises(ProviderUnreachable, match="given up"):
            await exchange.__aenter__()
    assert trio.current_time() == 1
    assert not pool.in_use


@pytest.mark.parametrize("kept", [False, True])
async def test_a_call_is_aborted_while_it_waits_for_the_answer(net, autojump_clock, kept):
    requested = []

    async def silent_after_one(stream):
        server = ServerSide(stream)
        while await server.request() is not None:
            requested.append(trio.current_time())
            if not kept or len(requested) > 1:
                await trio.sleep_forever()
            await server.respond(200, b"")

    net.hosts[HOST] = silent_after_one
    pool = Pool(connect=net)
    if kept:
        await call(pool)
    exchange = pool.open("up", b"POST", ORIGIN, b"/x", ())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_after, 1, exchange.abort)
        with pytest.raises(ProviderUnreachable):
            await exchange.__aenter__()
    assert trio.current_time() == 1
    assert (len(requested), pool.opened, pool.idle) == (1 + kept, 1, 0)  # it was not asked again


async def test_aborting_a_call_that_has_ended_leaves_its_connection_alone(net, pool, upstream):
    exchange = pool.open("up", b"POST", ORIGIN, b"/x", (), b"one")
    async with exchange as response:
        await response.read()
    exchange.abort()
    assert await call(pool, b"two") == b"two"
    assert pool.opened == 1


async def _after(seconds, act):
    await trio.sleep(seconds)
    act()
