"""Real sockets on loopback: TCP, TLS, stale connections, forbidden addresses."""

import errno
import socket
import ssl
from functools import partial

import pytest
import trio
import trio.testing
import trustme

from gw.errors import ProviderUnreachable, UpstreamCut
from gw.net import tcp
from gw.net.connect import connect_tcp
from gw.net.http1 import Origin, Pool
from gw.net.tcp import TcpStream
from gw.net.tls import client_context
from gw.net.unreachable import ConnectFailed, describe, unreachable
from tests.fakes.net import ServerSide
from tests.fakes.ports import free_port


@pytest.fixture(scope="module")
def authority():
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture(scope="module")
def trusting(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture(scope="module")
def server_context(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1", key_type=trustme.KeyType.ECDSA).configure_cert(context)
    return context


async def listen(nursery, handler, context=None):
    """A loopback server; its port. With `context` over TLS."""

    async def guarded(stream):
        try:
            if context:
                stream = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
            async with stream:
                await handler(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass

    listeners = await nursery.start(partial(trio.serve_tcp, guarded, 0, host="127.0.0.1"))
    return listeners[0].socket.getsockname()[1]


async def origin_of(nursery, handler, context=None):
    """As `listen`; where to call it."""
    return Origin.parse(f"http{'s' if context else ''}://127.0.0.1:{await listen(nursery, handler, context)}")


async def echo(stream):
    server = ServerSide(stream)
    while request := await server.request():
        await server.respond(200, request.body)


async def fetch(pool, address, body=b"hello"):
    async with pool.open("up", b"POST", Origin.parse(address), b"/", [], body) as response:
        return await response.read()


@pytest.fixture
def pair():
    """A stream under test and the blocking socket at its other end."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield TcpStream(ours), theirs


async def test_calls_over_tcp_reuse_their_connection(nursery):
    pool = Pool()
    port = await listen(nursery, echo)
    for n in range(3):
        assert await fetch(pool, f"http://127.0.0.1:{port}", b"%d" % n) == b"%d" % n
    assert (pool.opened, pool.reused) == (1, 2)
    await pool.aclose()
    nursery.cancel_scope.cancel()


async def test_names_are_resolved(nursery):
    pool = Pool()
    port = await listen(nursery, echo)
    assert await fetch(pool, f"http://localhost:{port}") == b"hello"
    await pool.aclose()
    nursery.cancel_scope.cancel()


async def test_a_large_body_and_answer_pass_through_small_buffers(nursery):
    pool = Pool()
    port = await listen(nursery, echo)
    body = bytes(3_000_000)
    assert await fetch(pool, f"http://127.0.0.1:{port}", body) == body
    await pool.aclose()
    nursery.cancel_scope.cancel()


async def test_nobody_listens():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        with pytest.raises(ProviderUnreachable, match=f"Connection refused .127.0.0.1:{port}"):
            await fetch(Pool(), f"http://127.0.0.1:{port}")


async def test_a_connection_closed_meanwhile_is_seen_before_it_is_used(nursery):
    async def once(stream):
        server = ServerSide(stream)
        await server.request()
        await server.respond(200, b"ok")

    pool = Pool()
    port = await listen(nursery, once)
    for _ in range(2):
        assert await fetch(pool, f"http://127.0.0.1:{port}") == b"ok"
        await trio.testing.wait_all_tasks_blocked()
    assert (pool.opened, pool.reused) == (2, 0)
    await pool.aclose()
    nursery.cancel_scope.cancel()


async def test_an_own_authority_is_accepted(nursery, trusting, server_context):
    pool = Pool(ssl_context=trusting)
    port = await listen(nursery, echo, server_context)
    for host in ("localhost", "127.0.0.1"):
        for n in range(2):
            assert await fetch(pool, f"https://{host}:{port}", b"%d" % n) == b"%d" % n
    assert (pool.opened, pool.reused) == (2, 2)
    await pool.aclose()
    nursery.cancel_scope.cancel()


async def test_a_large_body_over_tls(nursery, trusting, server_context):
    pool = Pool(ssl_context=trusting)
    port = await listen(nursery, echo, server_context)
    body = bytes(1_000_000)
    assert await fetch(pool, f"https://127.0.0.1:{port}", body) == body
    await pool.aclose()
    nursery.cancel_scope.cancel()


async def test_an_unknown_authority_is_refused(nursery, server_context):
    port = await listen(nursery, echo, server_context)
    with pytest.raises(ProviderUnreachable, match="TLS: certificate not accepted"):
        await fetch(Pool(), f"https://localhost:{port}")
    nursery.cancel_scope.cancel()


async def test_a_certificate_for_another_name_is_refused(nursery, trusting, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("other.example", key_type=trustme.KeyType.ECDSA).configure_cert(context)
    port = await listen(nursery, echo, context)
    with pytest.raises(ProviderUnreachable, match="TLS: certificate not accepted"):
        await fetch(Pool(ssl_context=trusting), f"https://localhost:{port}")
    nursery.cancel_scope.cancel()


async def test_a_server_without_tls(nursery, trusting):
    async def plain(stream):
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    port = await listen(nursery, plain)
    with pytest.raises(ProviderUnreachable, match="TLS: "):
        await fetch(Pool(ssl_context=trusting), f"https://127.0.0.1:{port}")
    nursery.cancel_scope.cancel()


async def test_a_close_during_the_handshake(nursery, trusting):
    async def leave(stream):
        await stream.receive_some()

    port = await listen(nursery, leave)
    with pytest.raises(ProviderUnreachable, match="TLS: closed the connection during the handshake"):
        await fetch(Pool(ssl_context=trusting), f"https://127.0.0.1:{port}")
    nursery.cancel_scope.cancel()


async def test_a_handshake_that_stalls_is_ended_by_the_callers_deadline(nursery, trusting):
    gone = trio.Event()

    async def stall(stream):
        while await stream.receive_some():
            scope.deadline = trio.current_time()
        gone.set()

    pool = Pool(ssl_context=trusting)
    port = await listen(nursery, stall)
    with trio.CancelScope() as scope:
        await fetch(pool, f"https://127.0.0.1:{port}")
    assert scope.cancelled_caught
    await gone.wait()
    assert pool.in_use == {}
    nursery.cancel_scope.cancel()


async def test_a_cut_over_tls(nursery, trusting, server_context):
    async def half(stream):
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal")

    port = await listen(nursery, half, server_context)
    with pytest.raises(UpstreamCut):
        await fetch(Pool(ssl_context=trusting), f"https://127.0.0.1:{port}")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tls", [False, True])
async def test_leaving_in_mid_answer_reaches_the_server(nursery, trusting, server_context, tls):
    gone = trio.Event()

    async def stream_on(stream):
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\ndata")
        try:
            while await stream.receive_some():
                pass
        finally:
            gone.set()

    origin = await origin_of(nursery, stream_on, server_context if tls else None)
    pool = Pool(ssl_context=trusting)
    async with pool.open("up", b"GET", origin, b"/", []) as response:
        assert await response.receive_some() == b"data"
    await gone.wait()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tls", [False, True])
async def test_what_has_come_already_is_had_without_waiting(nursery, trusting, server_context, tls):
    over = trio.Event()

    async def talk(stream):
        await stream.receive_some()
        await stream.send_all(b"data")
        await over.wait()

    async def come():
        while (data := stream.receive_now()) is None:
            await trio.lowlevel.checkpoint()
        return data

    stream = await connect_tcp(await origin_of(nursery, talk, server_context if tls else None), trusting)
    assert stream.receive_now() is None
    await stream.send_all(b"go")
    assert await come() == b"data"
    assert stream.receive_now() is None
    over.set()
    assert await come() == b""
    assert stream.receive_now() == await stream.receive_some() == b""
    stream.abort()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tls", [False, True])
async def test_tls_and_tcp_streams_fulfil_trios_contract(nursery, trusting, server_context, tls):
    stream = await connect_tcp(await origin_of(nursery, echo, server_context if tls else None), trusting)
    assert not stream.is_stale()
    await stream.aclose()
    assert stream.is_stale()
    stream.abort()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_every_version_that_is_taken(nursery, trusting, authority, version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA).configure_cert(context)
    port = await listen(nursery, echo, context)
    pool = Pool(ssl_context=trusting)
    for n in range(3):
        assert await fetch(pool, f"https://127.0.0.1:{port}", b"%d" % n * 50_000) == b"%d" % n * 50_000
    assert pool.opened <= 2  # a session ticket may come late
    await pool.aclose()
    nursery.cancel_scope.cancel()


async def test_both_sides_talk_at_once(nursery, trusting, server_context):
    data = bytes(range(256)) * 8_000

    async def mirror(stream):
        async for piece in stream:
            await stream.send_all(piece)

    port = await listen(nursery, mirror, server_context)
    stream = await connect_tcp(Origin.parse(f"https://127.0.0.1:{port}"), trusting)
    got = bytearray()
    async with trio.open_nursery() as both:
        both.start_soon(stream.send_all, data)
        while len(got) < len(data):
            got += await stream.receive_some()
    assert got == data
    await stream.aclose()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("each", [False, True])
async def test_what_is_no_tls_in_mid_session_breaks_the_connection(nursery, trusting, server_context, each):
    async def babble(stream):
        await stream.send_all(b"fine")
        await stream.receive_some()
        await stream.transport_stream.send_all(b"this is no record at all")
        await trio.sleep_forever()

    port = await listen(nursery, babble, server_context)
    stream = await connect_tcp(Origin.parse(f"https://127.0.0.1:{port}"), trusting)
    assert await stream.receive_some() == b"fine"
    await stream.send_all(b"go on")
    with pytest.raises(trio.BrokenResourceError):
        await (stream.for_each_piece(lambda data: None) if each else stream.receive_some())
    assert stream.is_stale()
    stream.abort()
    nursery.cancel_scope.cancel()


async def test_leaving_says_goodbye(nursery, trusting, server_context):
    heard = trio.Event()

    async def strict(tcp):
        stream = trio.SSLStream(tcp, server_context, server_side=True)
        assert await stream.receive_some() == b""  # without a goodbye it would raise
        heard.set()

    port = await listen(nursery, strict)
    stream = await connect_tcp(Origin.parse(f"https://127.0.0.1:{port}"), trusting)
    await stream.aclose()
    with trio.fail_after(60):
        await heard.wait()
    with pytest.raises(trio.ClosedResourceError):
        await stream.receive_some()
    nursery.cancel_scope.cancel()


def test_the_default_context_checks_names_and_offers_http1_only():
    context = client_context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert client_context() is context


async def test_stale_means_closed_or_talking_out_of_turn(pair):
    stream, other = pair
    assert not stream.is_stale()
    other.sendall(b"x")
    assert stream.is_stale()
    assert await stream.receive_some() == b"x"
    assert not stream.is_stale()
    other.close()
    assert stream.is_stale()


async def test_what_waits_in_the_socket_has_arrived(pair):
    stream, other = pair
    assert not stream.has_arrived()
    other.sendall(b"x")
    assert stream.has_arrived()
    assert await stream.receive_some() == b"x"
    assert not stream.has_arrived()


async def test_a_read_is_a_cancellation_point_even_with_data_waiting(pair):
    stream, other = pair
    other.sendall(b"x")
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.receive_some()
    assert scope.cancelled_caught
    assert await stream.receive_some() == b"x"


async def test_a_fast_upstream_does_not_starve_other_tasks(pair, nursery, monkeypatch):
    monkeypatch.setattr(tcp, "BYTES_BEFORE_YIELD", 8)
    stream, other = pair
    reads = 1 + 10 * 8
    other.sendall(bytes(reads))
    turns = []

    async def neighbour():
        while True:
            turns.append(1)
            await trio.lowlevel.checkpoint()

    nursery.start_soon(neighbour)
    for _ in range(reads):
        await stream.receive_some(1)
    assert len(turns) >= 8  # within ten turns; trio shuffles who is first


async def test_a_read_that_filled_its_buffer_may_have_emptied_the_socket(pair, nursery):
    stream, other = pair
    other.sendall(b"ab")
    assert await stream.receive_some(2) == b"ab"

    async def later():
        await trio.testing.wait_all_tasks_blocked()
        other.sendall(b"c")

    nursery.start_soon(later)
    assert await stream.receive_some(2) == b"c"
    stream.abort()
    with pytest.raises(trio.ClosedResourceError):
        await stream.receive_some()


async def test_a_send_cancelled_half_way_closes(pair):
    stream, _other = pair
    with trio.move_on_after(0.001) as scope:
        await stream.send_all(bytes(10_000_000))
    assert scope.cancelled_caught
    with pytest.raises(OSError, match="Bad file descriptor"):
        await stream.send_all(b"x")


async def test_abort_wakes_a_waiting_reader(pair, nursery):
    stream, _other = pair

    async def wait():
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some()
        woken.set()

    woken = trio.Event()
    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    stream.abort()
    await woken.wait()


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest",
        "http://[fe80::1]",
        "http://[::ffff:a9fe:a9fe]",
        "http://metadata.google.internal",
    ],
)
async def test_no_connection_is_tried_to_a_refused_address(address):
    with pytest.raises(ProviderUnreachable, match="never called"):
        await fetch(Pool(), address)


@pytest.mark.parametrize("spelling", ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376"])
async def test_odd_spellings_of_a_refused_address_are_resolved_first(spelling):
    with pytest.raises(ProviderUnreachable, match="never called"):
        await fetch(Pool(), f"http://{spelling}")


class OneName(trio.abc.HostnameResolver):
    """Resolves every name to these addresses."""

    def __init__(self, *addresses):
        self.addresses = addresses

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # noqa: A002  # trio's signature
        await trio.lowlevel.checkpoint()
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in self.addresses]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


async def test_a_name_that_points_to_a_refused_address_is_refused():
    trio.socket.set_custom_hostname_resolver(OneName("169.254.169.254"))
    with pytest.raises(ProviderUnreachable, match=r"innocent\.example is a link-local or metadata address"):
        await fetch(Pool(), "http://innocent.example")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "192.168.1.1", "::ffff:127.0.0.1"])
async def test_a_name_that_points_inside_is_refused_where_only_the_public_internet_is_allowed(address):
    trio.socket.set_custom_hostname_resolver(OneName(address))
    with pytest.raises(ConnectFailed, match=r"innocent\.example is a private address; list it"):
        await connect_tcp(Origin.parse("http://innocent.example", public_only=True))


async def test_addresses_are_tried_in_order(nursery):
    port = await listen(nursery, echo)
    trio.socket.set_custom_hostname_resolver(OneName("169.254.169.254", "127.0.0.2", "127.0.0.1"))
    pool = Pool()
    assert await fetch(pool, f"http://many.example:{port}") == b"hello"
    await pool.aclose()
    nursery.cancel_scope.cancel()


async def test_a_name_that_does_not_resolve():
    trio.socket.set_custom_hostname_resolver(OneName())
    with pytest.raises(ProviderUnreachable, match=r"cannot resolve no\.example: Name or service not known"):
        await fetch(Pool(), "http://no.example")


def test_a_host_that_cannot_be_a_name():
    with pytest.raises(ValueError, match="host name"):
        Origin.parse(f"http://{'a' * 70}.example")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectFailed("TLS: no"), "TLS: no"),
        (OSError(errno.ECONNRESET, "Connection reset by peer"), "connection reset by peer"),
        (trio.BrokenResourceError(), "connection lost"),
        (OSError(), "connection lost"),
    ],
)
def test_describe(error, text):
    assert describe(error) == text


def test_describe_looks_at_the_cause():
    error = trio.BrokenResourceError()
    error.__cause__ = OSError(errno.EPIPE, "Broken pipe")
    assert describe(error) == "broken pipe"


# ---- why there is no connection


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ConnectFailed("TLS: no", "tls"), "tls"),
        (ConnectFailed("whatever"), ""),
        (OSError(errno.ECONNREFUSED, "x"), "refused"),
        (OSError(errno.EHOSTUNREACH, "x"), "no_route"),
        (OSError(errno.ETIMEDOUT, "x"), "timeout"),
        (trio.BrokenResourceError(), "lost"),
    ],
)
def test_the_cause_is_a_fact(error, cause):
    made = unreachable("p", error)
    assert (made.provider, made.cause) == ("p", cause)
    assert made.facts().get("cause", "") == cause


async def test_causes_of_real_connections():
    trio.socket.set_custom_hostname_resolver(OneName())
    port = free_port()
    for url, cause in (
        (f"http://127.0.0.1:{port}", "refused"),
        ("http://no.example", "name"),
        ("http://169.254.169.254", "address"),
    ):
        with pytest.raises(ConnectFailed) as caught:
            await connect_tcp(Origin.parse(url))
        assert caught.value.cause == cause
