"""What an upstream may answer, right and wrong. The server's side is bytes by hand."""

import socket
import ssl
from contextlib import ExitStack, nullcontext, suppress

import pytest
import trio
import trio.testing
import trustme

from gw.errors import ProviderUnreachable, UpstreamCut, UpstreamProtocolError
from gw.net.http1 import Origin, Pool
from gw.net.http_response import HttpResponse
from gw.net.poller import Poller
from gw.net.tcp import TcpStream
from gw.net.tls import start_tls
from tests.fakes.net import FakeNet, ServerSide

ORIGIN = Origin.parse("http://up.example/v1")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"


@pytest.fixture
async def net(nursery):
    return FakeNet(nursery)


def says(*pieces, stay_s=0.0, every_s=0.0):
    """A host that reads one request and answers with these bytes, then closes `stay_s` later."""

    async def handler(stream):
        server = ServerSide(stream)
        await server.request()
        for piece in pieces:
            await server.send(piece)
            await trio.sleep(every_s)
        await trio.sleep(stay_s)

    return handler


def response_to(net, *pieces, **kwargs):
    net.hosts["up.example", 80] = says(*pieces, **kwargs)
    return Pool(connect=net).open("up", b"GET", ORIGIN, b"/x", [])


async def fetched(net, *pieces, **kwargs):
    async with response_to(net, *pieces, **kwargs) as response:
        return response.status, await response.read()


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (OK, 200, b"hello"),
        (CHUNKED, 200, b"hello world"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\n", 200, b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", 304, b""),
        (b"HTTP/1.1 302 Found\r\nlocation: http://evil.example/\r\ncontent-length: 0\r\n\r\n", 302, b""),
        (b"HTTP/1.1 529 Overloaded\r\ncontent-length: 2\r\n\r\nno", 529, b"no"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + OK, 200, b"hello"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\nx-trailer: 1\r\n\r\n", 200, b"a"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-length: 1\r\n\r\na", 200, b"a"),
        (b"HTTP/1.1 200 OK\r\nupgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 1\r\n\r\na", 200, b"a"),
        (OK + b"what nobody asked for", 200, b"hello"),
    ],
)
async def test_reads(net, answer, status, body):
    assert await fetched(net, answer) == (status, body)


@pytest.mark.parametrize(("answer", "is_cut"), [(OK[:-2], True), (CHUNKED[:-9], True), (b"HTTP/1.1 200 OK\r\n\r\nhel", False)])
async def test_an_answer_whose_head_was_let_go_still_says_whether_it_was_cut(net, answer, is_cut):
    async with response_to(net, answer) as response:
        response.let_head_go()
        assert response.headers == []
        with pytest.raises(UpstreamCut) if is_cut else nullcontext():
            assert (await response.read())[:3] == b"hel"


@pytest.mark.parametrize("answer", [OK, CHUNKED])
async def test_reads_byte_by_byte(net, answer, autojump_clock):
    assert (await fetched(net, *(bytes((b,)) for b in answer), every_s=1.0))[0] == 200


async def test_headers_come_in_lower_case_and_the_first_wins(net):
    async with response_to(net, b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\ncontent-length: 0\r\n\r\n") as response:
        assert response.header(b"x-a") == b"1"
        assert response.header(b"x-b") is None
        assert response.headers[1] == (b"x-a", b"2")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 20",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"\x00\x01garbage",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\na",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 201 + b"content-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000 + b"\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: " + b"b" * 200_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 4_000,
    ],
)
async def test_a_malformed_head_is_told(net, answer):
    with pytest.raises(UpstreamProtocolError) as caught:
        await fetched(net, answer)
    assert caught.value.provider == "up"
    assert net.open == 0


@pytest.mark.parametrize(
    ("body", "arrives"),
    [
        (b"zz\r\nhello\r\n", b""),
        (b"5\r\nhello\r\nzz\r\n", b"hello"),
        (b"5\r\nhelloX\r\n", b"hello"),
        (b"1\r\na\r\n0\r\nx: " + b"y" * 200_000, b"a"),
    ],
)
async def test_a_malformed_body_is_told_after_what_was_good(net, body, arrives):
    async with response_to(net, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body) as response:
        if arrives:
            assert await response.receive_some() == arrives
        for _ in range(2):
            with pytest.raises(UpstreamProtocolError):
                await response.receive_some()
    assert net.open == 0


async def test_closed_before_an_answer(net):
    with pytest.raises(ProviderUnreachable, match="closed the connection before an answer"):
        await fetched(net)
    assert net.open == 0


@pytest.mark.parametrize("answer", [OK, CHUNKED])
async def test_cut_at_every_byte(net, answer):
    for cut in range(1, len(answer)):
        head_ends = answer.index(b"\r\n\r\n") + 4
        with pytest.raises(UpstreamProtocolError if cut < head_ends else UpstreamCut):
            await fetched(net, answer[:cut])
    assert net.open == 0


async def test_one_read_is_one_piece(net, autojump_clock):
    pieces = [b"7\r\ndata: 1\r\n", b"2\r\n\n\n\r\n3\r\nabc\r\n", b"0\r\n\r\n"]
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    async with response_to(net, head, *pieces, every_s=1) as response:
        started = trio.current_time()
        assert await response.receive_some() == b"data: 1"
        assert await response.receive_some() == b"\n\nabc"
        assert trio.current_time() - started == 2
        assert await response.receive_some() == b""
        assert await response.receive_some() == b""


async def test_one_byte_a_second(net, autojump_clock):
    drip = [bytes((b,)) for b in CHUNKED]
    started = trio.current_time()
    assert await fetched(net, *drip, every_s=1) == (200, b"hello world")
    assert trio.current_time() - started == len(drip) - 1


@pytest.mark.parametrize("stall_after", [b"", OK[:20], OK[:-2]])
async def test_a_stall_ends_at_the_callers_deadline(net, autojump_clock, stall_after):
    with trio.move_on_after(5) as scope:
        await fetched(net, *([stall_after] if stall_after else []), stay_s=1_000)
    assert scope.cancelled_caught
    assert net.open == 0
    assert net.transports[0].aborted_at == trio.current_time()


async def test_a_cancelled_read_ends_the_connection(net, autojump_clock):
    async with response_to(net, OK[:-2], stay_s=1_000) as response:
        assert await response.receive_some() == b"hel"
        with trio.move_on_after(1):
            await response.receive_some()
        assert net.open == 0
        with pytest.raises(UpstreamCut):
            await response.receive_some()


async def test_a_body_beyond_the_limit(net):
    async with response_to(net, OK) as response:
        with pytest.raises(UpstreamProtocolError, match="longer than 4 bytes"):
            await response.read(4)
    assert net.open == 0


async def test_a_coded_error_keeps_its_status_and_loses_its_text(net):
    head = b"HTTP/1.1 429 Slow Down\r\ncontent-encoding: gzip\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\n"
    async with response_to(net, head + b"\x1f\x8b\x08\x00") as response:
        assert (response.status, response.header(b"retry-after")) == (429, b"7")
        assert await response.read() == b""


async def test_reading_after_the_block_is_refused(net):
    async with response_to(net, OK[:-1], stay_s=1) as response:
        await response.receive_some()
    with pytest.raises(trio.ClosedResourceError):
        await response.receive_some()


async def finished(response):
    if (rest := response.finish()) is not None:
        await rest


async def test_finish_keeps_the_connection_of_a_stream_whose_end_comes_soon(net, autojump_clock):
    net.hosts["up.example", 80] = says(CHUNKED[:-5], CHUNKED[-5:], every_s=0.02, stay_s=100)
    pool = Pool(connect=net)
    async with pool.open("up", b"GET", ORIGIN, b"/x", []) as response:
        assert await response.receive_some() == b"hello world"
        await finished(response)
    assert pool.idle == 1


@pytest.mark.parametrize("rest", [[], [b"zz"], [b"5\r\nmore!"]])
async def test_finish_waits_a_moment_only_and_raises_nothing(net, autojump_clock, rest):
    async with response_to(net, CHUNKED[:-5], *rest, stay_s=100) as response:
        started = trio.current_time()
        await response.receive_some()
        await finished(response)
        assert trio.current_time() - started <= 0.05
    assert net.open == 0


async def test_what_comes_at_once_after_a_read_is_not_waited_for():
    head, first, end = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n"
    waits = []

    class Slow(TcpStream):
        async def receive_some(self, max_bytes=None):
            waits.append(max_bytes)
            return await super().receive_some(len(head))

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        response = HttpResponse("up", Slow(ours))
        theirs.sendall(head + first)
        await response.await_head()
        assert await response.receive_some() == b"hello"
        theirs.sendall(end)
        assert response.finish() is None
        assert len(waits) == 1
        assert response.release()[1]


async def test_finish_of_a_cut_stream_raises_nothing(net):
    async with response_to(net, CHUNKED[:-5]) as response:
        await response.receive_some()
        await finished(response)
    assert net.open == 0



CHUNKS = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


async def passed_on(response, *, waits=False):
    """Return the pieces that `for_each_piece` passes on until the answer ends. `waits`: something is waited for after each."""
    pieces, waited = [], []

    async def wait():
        await trio.lowlevel.checkpoint()
        waited.append(pieces[-1])

    def take(data):
        pieces.append(data)
        return wait() if waits else None

    while not pieces or pieces[-1]:
        await (await response.for_each_piece(take))
    assert waited == (pieces if waits else [])
    return pieces[:-1]


@pytest.fixture(params=["polled", "polled over TLS", "by a task"])
async def upstream(request, nursery):
    """Return a function that opens an answer of these pieces over TCP, read by a poller or by the caller's task."""
    authority, tls = trustme.CA(key_type=trustme.KeyType.ECDSA), request.param == "polled over TLS"
    trusting, serving = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(trusting)
    authority.issue_cert("up.example", key_type=trustme.KeyType.ECDSA).configure_cert(serving)
    if request.param != "by a task":
        nursery.start_soon(Poller().run)
        await trio.testing.wait_all_tasks_blocked()

    with ExitStack() as sockets:

        def opened(*pieces, **kwargs):
            theirs, ours = map(sockets.enter_context, socket.socketpair())
            theirs.setblocking(False)
            ours.setblocking(False)
            host = says(*pieces, **kwargs)

            async def serve():
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
                if tls:
                    stream = trio.SSLStream(stream, serving, server_side=True, https_compatible=True)
                with suppress(trio.BrokenResourceError):
                    await host(stream)
                await stream.aclose()

            async def connect(origin):
                nursery.start_soon(serve)
                return await start_tls(TcpStream(ours), "up.example", trusting) if tls else TcpStream(ours)

            return Pool(connect=connect).open("up", b"GET", ORIGIN, b"/x", [])

        yield opened


@pytest.mark.parametrize("waits", [False, True])
async def test_pieces_are_passed_on_where_they_are_read(upstream, waits):
    async with upstream(CHUNKS, b"5\r\nhello\r\n", b"6\r\n world\r\n", b"0\r\n\r\n", every_s=0.01) as response:
        assert await passed_on(response, waits=waits) == [b"hello", b" world"]
        assert await response.receive_some() == b""


async def test_an_answer_without_a_length_is_passed_on_until_the_connection_ends(upstream):
    async with upstream(b"HTTP/1.1 200 OK\r\n\r\n", b"until", b" the end", every_s=0.01) as response:
        assert b"".join(await passed_on(response)) == b"until the end"


@pytest.mark.parametrize(
    ("rest", "error"), [(b"zz\r\n", UpstreamProtocolError), (b"", UpstreamCut), (b"5\r\nhel", UpstreamCut)]
)
async def test_a_failure_is_raised_after_what_was_passed_on(upstream, rest, error):
    pieces = []
    async with upstream(CHUNKS, b"5\r\nhello\r\n", *([rest] if rest else []), every_s=0.01) as response:
        with pytest.raises(error):
            await response.for_each_piece(pieces.append)
    assert b"".join(pieces) in (b"hello", b"hellohel")


@pytest.mark.parametrize("error", [OSError("the client is gone"), ValueError("no")])
async def test_an_error_of_the_function_is_not_taken_for_the_upstreams(upstream, error):
    def take(data):
        raise error

    async with upstream(CHUNKS, b"5\r\nhello\r\n", every_s=0.01, stay_s=0.1) as response:
        with pytest.raises(type(error), match=str(error)):
            await response.for_each_piece(take)


async def test_a_cancelled_wait_for_pieces_ends_the_connection(upstream):
    async with upstream(CHUNKS, b"5\r\nhello\r\n", stay_s=60) as response:
        with trio.move_on_after(0.02) as scope:
            await response.for_each_piece(lambda data: None)
        assert scope.cancelled_caught
        with pytest.raises(UpstreamCut):
            await response.receive_some()
