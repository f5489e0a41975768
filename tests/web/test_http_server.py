import gc
import weakref

import pytest
import structlog
import trio
import trio.testing

from gw.web.drain import Drain
from gw.web.http_server import HostedApp, HttpServer
from gw.web.http_server_exchange import ServerExchange
from gw.web.server_limits import ServerLimits
from tests.fakes.edge import Client, StalledStream, Stuck, echo, open_host, read_all, request, respond
from tests.fakes.net import StreamTransport

BAD = b"POST /data HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc"


async def test_serves_requests_one_after_another():
    async with open_host(echo) as host:
        for body in (b"one", b"", b"three"):
            await host.client.send(request("POST", "/data/a%20b?q=1", body))
            response = await host.client.response()
            assert (response.status, response.body) == (200, b"POST /data/a b " + body)
            assert response.headers["x-app"] == "echo"
            assert "date" in response.headers
            assert "server" not in response.headers
            assert "connection" not in response.headers


async def test_what_was_found_about_a_head_is_kept_while_it_is_sent_again():
    seen = []

    async def app(scope, receive, send):
        message = await receive()
        assert "mine" not in scope
        scope["mine"] = "of this request alone"
        known = scope["gw.known"].setdefault("by", len(seen))
        seen.append((known, scope["path"], dict(scope["headers"])[b"content-length"], message["body"]))
        await respond(send, b"")

    async with open_host(app) as host:
        for path, body in (("/data", b"a"), ("/data", b"four"), ("/data/2", b"b"), ("/data", b"c")):
            await host.client.send(request("POST", path, body))
            assert (await host.client.response()).status == 200
    assert seen == [(0, "/data", b"1", b"a"), (0, "/data", b"4", b"four"), (2, "/data/2", b"1", b"b"), (0, "/data", b"1", b"c")]


async def test_a_connection_that_waits_for_its_next_request_keeps_nothing_of_the_one_before():
    async with open_host(echo) as host:
        for _ in range(2):
            await host.client.send(request(body=b"a prompt"))
            assert (await host.client.response()).status == 200
            await trio.testing.wait_all_tasks_blocked()
            assert not [kept for kept in gc.get_objects() if isinstance(kept, ServerExchange)]


async def test_the_head_of_a_response_is_not_kept_while_its_body_streams():
    class Value(str):
        """A header's value that can be looked for."""

    kept, goes_on = [], trio.Event()

    async def app(scope, receive, send):
        message = {"type": "http.response.start", "status": 200, "headers": [], "said": Value("so")}
        kept.append(weakref.ref(message["said"]))
        await send(message)
        del message
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await goes_on.wait()
        await send({"type": "http.response.body", "body": b""})

    async with open_host(app) as host:
        await host.client.send(request())
        await trio.testing.wait_all_tasks_blocked()
        assert kept[0]() is None
        goes_on.set()
        assert (await host.client.response()).body == b"first"


async def test_pipelined_requests_are_answered_in_order():
    async with open_host(echo) as host:
        await host.client.send(b"".join(request(body=b"%d" % n) for n in range(20)) + b"\r\n" + request(body=b"last"))
        bodies = [(await host.client.response()).body for _ in range(21)]
    assert bodies == [b"POST /data %d" % n for n in range(20)] + [b"POST /data last"]


@pytest.mark.parametrize(
    "data",
    [
        request(body=b"hello!"),
        b"POST /data HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n",
    ],
)
async def test_a_request_may_be_cut_at_every_byte(data):
    async with open_host(echo) as host:
        for at in range(1, len(data)):
            await host.client.send(data[:at])
            await trio.testing.wait_all_tasks_blocked()
            await host.client.send(data[at:])
            assert (await host.client.response()).body == b"POST /data hello!"


async def test_an_offer_of_another_protocol_is_ignored():
    """Java's HttpClient offers HTTP/2 with every first request, also beside a body."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    framings = ((b"Content-Length: 5\r\n", b"hello"), (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"))
    async with open_host(echo) as host:
        for framing, body in framings * 2:
            await host.client.send(b"POST /data HTTP/1.1\r\nHost: a\r\n" + offer + framing + b"\r\n" + body)
            assert (await host.client.response()).body == b"POST /data hello"


@pytest.mark.parametrize("at", range(0, len(BAD), 7))
async def test_a_client_that_leaves_at_any_byte_leaves_nothing_behind(at):
    async with open_host(echo) as host:
        await host.client.send(request(body=b"hello!")[:at])
        await host.client.stream.aclose()
        await host.done.wait()
        assert host.drain.in_flight == 0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (BAD, 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET /data\r\n\r\n", 400),
        (b"POST /data HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET /data HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 70_000, 431),
        (b"GET /data" + b"y" * 17_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
    ],
)
async def test_malformed_requests_get_one_4xx_and_a_close(data, status, autojump_clock):
    async with open_host(echo) as host:
        await host.client.send(data)
        response = await host.client.response()
        assert response.status == status
        assert response.headers["connection"] == "close"
        assert response.error()["request_id"] == response.headers["x-request-id"]
        assert await host.client.ended()
        await host.done.wait()


async def test_a_slow_head_is_given_up_after_its_deadline(autojump_clock):
    async with open_host(echo, limits=ServerLimits(head_s=10)) as host:
        began = trio.current_time()
        for byte in request()[:5]:
            await host.client.send(bytes([byte]))
            await trio.sleep(1.9)
        assert (await host.client.response()).status == 408
        assert trio.current_time() - began == pytest.approx(10)


async def test_a_head_on_a_kept_connection_has_the_same_deadline(autojump_clock):
    async with open_host(echo, limits=ServerLimits(head_s=10, idle_s=75)) as host:
        await host.client.send(request())
        await host.client.response()
        await trio.sleep(60)
        began = trio.current_time()
        for byte in request()[:5]:
            await host.client.send(bytes([byte]))
            await trio.sleep(1.9)
        assert (await host.client.response()).status == 408
        assert trio.current_time() - began == pytest.approx(10)


async def test_a_new_connection_that_says_nothing_is_closed_silently(autojump_clock):
    async with open_host(echo, limits=ServerLimits(head_s=10)) as host:
        began = trio.current_time()
        assert await host.client.ended()
        assert 8 <= trio.current_time() - began <= 10


async def test_new_connections_that_say_nothing_are_not_all_closed_at_once(autojump_clock):
    """A thousand that were opened in one moment and closed in one kept the event loop busy for 0.4 s."""
    hosted = HostedApp(app=echo, counted=True)
    server = HttpServer(lambda _method, _path: hosted, Drain(), limits=ServerLimits(head_s=10))
    began = trio.current_time()
    ended = []

    async def connection():
        _ours, theirs = trio.testing.memory_stream_pair()
        await server.run_connection(StreamTransport(theirs))
        ended.append(trio.current_time() - began)

    async with trio.open_nursery() as connections:
        for _ in range(200):
            connections.start_soon(connection)
    assert min(ended) >= 8
    assert max(ended) <= 10
    assert max(ended) - min(ended) > 1
    fullest = max(sum(start <= at < start + 0.1 for at in ended) for start in ended)
    assert fullest < 50  # 10 on average


async def test_an_idle_connection_is_closed(autojump_clock):
    async with open_host(echo, limits=ServerLimits(idle_s=75)) as host:
        await host.client.send(request())
        await host.client.response()
        began = trio.current_time()
        assert await host.client.ended()
        assert trio.current_time() - began == pytest.approx(75)


async def test_idle_connections_end_each_after_its_own_time(nursery, autojump_clock):
    hosted = HostedApp(app=echo, counted=True)
    server = HttpServer(lambda _method, _path: hosted, Drain(), limits=ServerLimits(idle_s=75))
    nursery.start_soon(server.close_idle)
    began = trio.current_time()
    ended = []

    async def connection(*asks_at):
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(ask, Client(ours), asks_at)
        await server.run_connection(StreamTransport(theirs))
        ended.append(trio.current_time() - began)

    async def ask(client, asks_at):
        for at in asks_at:
            await trio.sleep_until(began + at)
            await client.send(request())
            await client.response()

    async with trio.open_nursery() as connections:
        for asks_at in ((0, 60, 70), (5,), (7, 40)):
            connections.start_soon(connection, *asks_at)
    assert ended == pytest.approx([80, 115, 145])
    assert not server.drain.idle
    nursery.cancel_scope.cancel()


async def test_a_slow_body_is_given_up(autojump_clock):
    async with open_host(echo, limits=ServerLimits(body_idle_s=30)) as host:
        await host.client.send(request(body=b"x" * 10)[:-5])
        assert (await host.client.response()).error()["code"] == "timeout"
        assert await host.client.ended()


async def test_a_body_must_keep_up_a_rate(autojump_clock):
    async with open_host(echo, limits=ServerLimits(body_idle_s=30, body_rate=100)) as host:
        began = trio.current_time()
        await host.client.send(request(body=b"x" * 1000)[:-1000])
        with trio.move_on_after(30.5):
            while True:
                await host.client.send(b"x")
                await trio.sleep(10)
        assert (await host.client.response()).status == 408
        assert trio.current_time() - began < 32


@pytest.mark.parametrize(
    "data",
    [
        request(body=b"x" * 101),
        b"POST /data HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 100 + b"\r\n1\r\nx\r\n0\r\n\r\n",
        request("POST", "/data", b"x" * 101, b"Expect: 100-continue")[:-101],
    ],
)
async def test_a_body_beyond_the_limit_is_refused(data, autojump_clock):
    async with open_host(echo, max_body_bytes=lambda: 100) as host:
        await host.client.send(request(body=b"x" * 100))
        assert (await host.client.response()).status == 200
        await host.client.send(data)
        response = await host.client.response()
        assert (response.status, response.headers["connection"]) == (413, "close")
        assert (response.error()["code"], response.error()["limit_bytes"]) == ("too_large", 100)
        assert await host.client.ended()


async def test_an_app_without_websockets_answers_an_upgrade_with_404(autojump_clock):
    async with open_host(echo, websockets=False) as host:
        upgrade = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: " + b"A" * 22 + b"==")
        await host.client.send(request("GET", "/data", b"", *upgrade))
        response = await host.client.response()
        assert (response.status, response.error()["code"]) == (404, "not_found")
        assert await host.client.ended()


async def test_a_client_that_leaves_cancels_the_app(autojump_clock):
    app = Stuck()
    async with open_host(app) as host:
        await host.client.send(request())
        await app.started.wait()
        assert host.drain.in_flight == 1
        await host.client.stream.send_eof()
        with trio.fail_after(0.1):
            await app.ended.wait()
            await host.done.wait()
        assert host.drain.in_flight == 0


async def test_the_app_may_go_on_after_its_answer_when_the_client_leaves():
    ended = trio.Event()

    async def app(scope, receive, send):
        await respond(send, b"ok")
        assert await receive() == {"type": "http.disconnect"}
        await trio.testing.wait_all_tasks_blocked()
        ended.set()

    async with open_host(app) as host:
        await host.client.send(request())
        await host.client.response()
        await host.client.stream.aclose()
        await ended.wait()


async def test_an_app_waiting_for_the_end_of_the_response_is_woken():
    async def app(scope, receive, send):
        await read_all(receive)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(respond, send, b"ok")
            assert await receive() == {"type": "http.disconnect"}

    async with open_host(app) as host:
        for _ in range(2):
            await host.client.send(request(body=b"x"))
            assert (await host.client.response()).body == b"ok"


async def test_bodies_are_streamed_with_back_pressure():
    go = trio.Event()
    pieces = []

    async def app(scope, receive, send):
        await go.wait()
        more = True
        while more:
            message = await receive()
            pieces.append(len(message["body"]))
            more = message["more_body"]
        await respond(send, b"%d" % sum(pieces))

    ours, theirs = trio.testing.lockstep_stream_pair()
    async with open_host(app, pair=lambda: (ours, theirs)) as host, trio.open_nursery() as nursery:
        sent = []

        async def upload():
            await host.client.send(request(body=b"x" * 2_000_000)[:-2_000_000])
            for _ in range(20):
                await host.client.send(b"x" * 100_000)
                sent.append(100_000)

        nursery.start_soon(upload)
        await trio.testing.wait_all_tasks_blocked()
        assert sum(sent) < 500_000
        go.set()
        assert (await host.client.response()).body == b"2000000"
        assert max(pieces) < 400_000


async def test_continue_is_said_when_the_app_asks_for_the_body():
    requested = trio.Event()

    async def app(scope, receive, send):
        await requested.wait()
        await echo(scope, receive, send)

    async with open_host(app) as host:
        data = request("POST", "/data", b"hi", b"Expect: 100-continue")
        await host.client.send(data[:-2])
        await trio.testing.wait_all_tasks_blocked()
        requested.set()
        assert (await host.client.response()).status == 100
        await host.client.send(data[-2:])
        assert (await host.client.response()).body == b"POST /data hi"


async def test_refusing_before_continue_closes_the_connection(autojump_clock):
    async def app(scope, receive, send):
        await respond(send, b"no", 413)

    async with open_host(app) as host:
        await host.client.send(request("POST", "/data", b"hi", b"Expect: 100-continue")[:-2])
        response = await host.client.response()
        assert (response.status, response.headers["connection"]) == (413, "close")
        assert await host.client.ended()


async def test_a_small_unread_body_keeps_the_connection_and_a_large_one_closes_it(autojump_clock):
    async def app(scope, receive, send):
        await respond(send, b"no", 413)

    async with open_host(app) as host:
        await host.client.send(request(body=b"x" * 1000))
        assert "connection" not in (await host.client.response()).headers
        await host.client.send(request(body=b"x" * 1000)[:-1])  # may never come
        assert (await host.client.response()).headers["connection"] == "close"
        assert await host.client.ended()
    async with open_host(app) as host:
        await host.client.send(request(body=b"x" * 100_000)[:-100_000])
        assert (await host.client.response()).headers["connection"] == "close"
        assert await host.client.ended()


async def test_a_streamed_response_is_chunked_with_one_write_per_piece():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"a", b"", b"bc"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    async with open_host(app) as host:
        await host.client.send(request())
        response = await host.client.response()
        assert response.headers["transfer-encoding"] == "chunked"
        assert response.body == b"abc"


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ([(b"x-a", b"1"), (b"content-length", b"2")], [b"x-a: 1", b"content-length: 2"]),
        ([(b"x-a", b"1")], [b"x-a: 1", b"transfer-encoding: chunked"]),
        ([(b"content-length", b" 2"), (b"x-a", b"1")], [b"x-a: 1", b"content-length: 2"]),
        ([(b"content-length", b"2"), (b"content-length", b"2")], [b"content-length: 2"]),
        ([(b"x-a", b"1"), (b"x-a", b"2"), (b"content-length", b"2")], [b"x-a: 1", b"x-a: 2", b"content-length: 2"]),
        ([(b"date", b"never"), (b"connection", b"keep-alive"), (b"keep-alive", b"9"), (b"content-length", b"2")], [b"content-length: 2"]),
        ([(b"transfer-encoding", b"gzip"), (b"content-length", b"2")], [b"content-length: 2"]),
        ([(b"content-length", b"2"), (b"connection", b"Close")], [b"content-length: 2", b"connection: close"]),
    ],
)
async def test_fields_of_the_host_are_its_own_and_the_others_are_sent_as_they_are(fields, sent):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": b"ok"})

    async with open_host(app) as host:
        await host.client.send(request())
        head = b""
        while b"\r\n\r\n" not in head:
            head += await host.client.stream.receive_some()
        status, date, *lines = head.partition(b"\r\n\r\n")[0].split(b"\r\n")
        assert (status, date[:6], lines) == (b"HTTP/1.1 200 OK", b"date: ", sent)


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_responses_without_a_body(method, status):
    async def app(scope, receive, send):
        await respond(send, b"", status)

    async with open_host(app) as host:
        for _ in range(2):
            await host.client.send(request(method))
            response = await host.client.response(head_only=True)
            assert response.status == status
            assert "transfer-encoding" not in response.headers
            assert not host.client.seen


async def test_http_1_0_is_answered_by_closing():
    async with open_host(echo) as host:
        await host.client.send(b"GET /data HTTP/1.0\r\n\r\n")
        response = await host.client.response()
        assert response.headers["connection"] == "close"
        assert response.body == b"GET /data "


async def test_a_crash_before_the_start_is_a_500_with_the_id_in_the_log():
    async def app(scope, receive, send):
        raise ValueError("a secret of the request")

    with structlog.testing.capture_logs() as logs:
        async with open_host(app) as host:
            await host.client.send(request())
            response = await host.client.response()
    assert response.status == 500
    assert response.error()["code"] == "internal_error"
    (line,) = logs
    assert (line["event"], line["exc_type"], line["path"]) == ("request_crashed", "ValueError", "/data")
    assert line["request_id"] == response.headers["x-request-id"]
    assert "secret" not in str(logs).replace('raise ValueError("a secret of the request")', "")


async def _crash_in_the_middle(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise ValueError


async def _stop_in_the_middle(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


async def _too_much(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    await send({"type": "http.response.body", "body": b"much too much"})


@pytest.mark.parametrize("app", [_crash_in_the_middle, _stop_in_the_middle, _too_much])
async def test_an_incomplete_response_is_cut(app):
    with structlog.testing.capture_logs():
        async with open_host(app) as host:
            await host.client.send(request())
            with pytest.raises(AssertionError, match=r"cut|ended"):
                await host.client.response()
            await host.done.wait()


async def _nothing(scope, receive, send):
    pass


async def _line_break(scope, receive, send):
    await respond(send, b"", headers=[(b"x", b"a\r\nb: c")])


async def _wrong_order(scope, receive, send):
    await send({"type": "http.response.body", "body": b"x"})


async def _twice(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.start", "status": 200})


@pytest.mark.parametrize("app", [_nothing, _line_break, _wrong_order, _twice])
async def test_an_app_that_breaks_the_rules_is_a_500(app, autojump_clock):
    with structlog.testing.capture_logs():
        async with open_host(app) as host:
            await host.client.send(request())
            assert (await host.client.response()).status == 500
            assert await host.client.ended()


async def test_a_client_that_stops_reading_is_dropped(autojump_clock):
    raised = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})
        except OSError as error:
            raised.append((error, trio.current_time()))
            raise

    def pair():
        ours, theirs = trio.testing.memory_stream_pair()
        return ours, StalledStream(theirs)

    with structlog.testing.capture_logs() as logs:
        async with open_host(app, pair=pair, limits=ServerLimits(write_s=30)) as host:
            began = trio.current_time()
            await host.client.send(request())
            await host.done.wait()
    ((error, at),) = raised
    assert isinstance(error, TimeoutError)
    assert at - began == pytest.approx(30)
    assert logs == []


async def test_a_drain_shortens_the_wait_for_a_stalled_client(autojump_clock):
    def pair():
        ours, theirs = trio.testing.memory_stream_pair()
        return ours, StalledStream(theirs)

    async with open_host(echo, pair=pair, limits=ServerLimits(write_s=30)) as host:
        await host.client.send(request())
        await trio.sleep(1)
        began = trio.current_time()
        host.drain.begin(3)
        await host.done.wait()
        assert trio.current_time() - began == pytest.approx(3)


async def test_overload_is_shed():
    app = Stuck()
    async with open_host(app, max_in_flight=0) as host:
        await host.client.send(request())
        response = await host.client.response()
        assert (response.status, response.headers["retry-after"]) == (503, "1")
        assert response.error()["code"] == "overloaded"
        assert not app.started.is_set()


async def test_a_drain_closes_idle_connections_and_lets_running_ones_finish(autojump_clock):
    go = trio.Event()

    async def app(scope, receive, send):
        await go.wait()
        await respond(send, b"done")

    async with open_host(app) as running, open_host(echo) as idle:
        await running.client.send(request())
        await idle.client.send(request())
        await idle.client.response()
        await trio.testing.wait_all_tasks_blocked()
        idle.drain.begin(30)
        running.drain.begin(30)
        with trio.fail_after(0.3):
            assert await idle.client.ended()
        go.set()
        response = await running.client.response()
        assert (response.body, response.headers["connection"]) == (b"done", "close")
        assert await running.client.ended()


async def test_a_client_that_has_just_connected_when_the_drain_begins_is_answered(autojump_clock):
    async with open_host(echo) as host:
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(0.4)
        host.drain.begin(30)
        await trio.sleep(0.5)  # the request of a proxy that other work delays
        await host.client.send(request())
        response = await host.client.response()
        assert (response.status, response.headers["connection"]) == (200, "close")
        assert await host.client.ended()


async def test_a_drain_ends_a_new_connection_without_a_request_after_a_second(autojump_clock):
    async with open_host(echo) as new:
        began = trio.current_time()
        await trio.sleep(0.4)
        new.drain.begin(30)
        assert await new.client.ended()
        assert trio.current_time() - began == pytest.approx(1)
    async with open_host(echo) as old:
        await trio.sleep(5)
        began = trio.current_time()
        old.drain.begin(30)
        assert await old.client.ended()
        assert trio.current_time() - began == pytest.approx(0)
    assert not old.drain.fresh


async def test_scope_has_what_asgi_asks_for():
    seen = {}

    async def app(scope, receive, send):
        seen.update(scope)
        await respond(send, b"")

    async with open_host(app) as host:
        await host.client.send(request("GET", "/data/x?y=z"))
        await host.client.response()
    assert (seen["type"], seen["scheme"], seen["method"], seen["path"]) == ("http", "http", "GET", "/data/x")
    assert (seen["raw_path"], seen["query_string"], seen["http_version"]) == (b"/data/x", b"y=z", "1.1")
    assert "gw.cancels" in seen["extensions"]
