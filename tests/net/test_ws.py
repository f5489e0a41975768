"""WebSocket sessions against the server role of the same Sans-I/O library, and against bytes by hand."""

import logging
from contextlib import suppress

import pytest
import trio
import trio.testing
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from gw.errors import (
    ProviderFailed,
    ProviderRejected,
    ProviderUnreachable,
    RateLimitError,
    UpstreamCut,
    UpstreamProtocolError,
)
from gw.net.http1 import Origin
from gw.net.ws import CLOSE_S, GOODBYE_S, WsClosed, open_ws
from tests.fakes.net import FakeNet, ServerSide, black_hole

ORIGIN = Origin.parse("https://up.example/v1")
HOST = ("up.example", 443)
HEADERS = [(b"authorization", b"Bearer canary-key")]


class Session:
    """The server's end after an accepted handshake."""

    def __init__(self, stream, protocol, request, frames):
        self.stream = stream
        self.protocol = protocol
        self.request = request
        self.frames = frames

    async def flush(self):
        if data := b"".join(self.protocol.data_to_send()):
            await self.stream.send_all(data)

    async def text(self, text, fin=True):
        self.protocol.send_text(text.encode(), fin)
        await self.flush()

    async def frame(self, opcode, data, fin=True):
        """A frame as it is, also a forbidden one."""
        await self.stream.send_all(Frame(opcode, data, fin).serialize(mask=False))

    async def close(self, code=None, reason=""):
        data = b"" if code is None else Close(code, reason).serialize()
        await self.frame(Opcode.CLOSE, data)

    async def next(self):
        """The next frame from the client, None at its end."""
        while not self.frames:
            data = await self.received()
            if not data:
                return None
            self.protocol.receive_data(data)
            self.frames += [e for e in self.protocol.events_received() if isinstance(e, Frame)]
            with suppress(trio.BrokenResourceError):  # the client may not wait for the answer to its close
                await self.flush()
        return self.frames.pop(0)

    async def received(self):
        """Return what the client sent, b"" at its end: also when a reset follows its close frame, as our answer to that came too late."""
        try:
            return await self.stream.receive_some(65_536)
        except trio.BrokenResourceError:
            if self.protocol.close_rcvd is None:
                raise
            return b""


def accepts(talk, subprotocols=None):
    """A host that accepts the handshake, then runs `talk(session)`."""

    async def handler(stream):
        protocol = ServerProtocol(subprotocols=subprotocols, max_size=None)
        events = []
        while not events:
            protocol.receive_data(await stream.receive_some(65_536))
            events = protocol.events_received()
        request, *frames = events
        assert isinstance(request, Request)
        protocol.send_response(protocol.accept(request))
        session = Session(stream, protocol, request, frames)
        await session.flush()
        await talk(session)

    return handler


async def echo(session):
    while (frame := await session.next()) is not None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            await session.frame(frame.opcode, frame.data)


@pytest.fixture
async def net(nursery):
    return FakeNet(nursery)


def opened(net, handler=None, **kwargs):
    if handler is not None:
        net.hosts[HOST] = handler
    kwargs.setdefault("headers", HEADERS)
    return open_ws("up", ORIGIN, b"/listen?model=m&x=1", connect=net, **kwargs)


async def test_echo(net):
    async with opened(net, accepts(echo)) as ws:
        await ws.send("grüß dich")
        assert await ws.receive() == "grüß dich"
        for data in (b"\x00\xff", b"", b"x" * 70_000):
            await ws.send(data)
            assert await ws.receive() == data
        await ws.send("")
        assert await ws.receive() == ""
    assert net.open == 0


async def test_the_handshake_request(net):
    seen = []

    async def talk(session):
        seen.append(session.request)
        await echo(session)

    async with opened(net, accepts(talk)):
        pass
    request = seen[0]
    assert request.path == "/v1/listen?model=m&x=1"
    assert request.headers["Host"] == "up.example"
    assert request.headers["authorization"] == "Bearer canary-key"
    assert "Sec-WebSocket-Protocol" not in request.headers
    assert "Sec-WebSocket-Extensions" not in request.headers


async def test_frames_are_masked(net):
    raw = []

    async def talk(session):
        raw.append(await session.stream.receive_some(100))
        await session.close(1000)

    async with opened(net, accepts(talk)) as ws:
        await ws.send(b"loud and clear")
        with pytest.raises(WsClosed):
            await ws.receive()
    assert raw[0][1] & 0x80
    assert b"loud" not in raw[0]


async def test_fragments_are_joined_and_control_frames_may_come_between(net):
    async def talk(session):
        await session.frame(Opcode.TEXT, "aß".encode()[:2], fin=False)
        await session.frame(Opcode.PING, b"p")
        await session.frame(Opcode.CONT, b"", fin=False)
        await session.frame(Opcode.CONT, "aß".encode()[2:], fin=False)
        await session.frame(Opcode.CONT, b"")
        await session.frame(Opcode.BINARY, b"1", fin=False)
        await session.frame(Opcode.CONT, b"2")
        await echo(session)

    async with opened(net, accepts(talk)) as ws:
        assert await ws.receive() == "aß"
        assert await ws.receive() == b"12"


async def test_messages_of_one_read_come_one_by_one_and_in_any_cut(net, autojump_clock):
    frames = b"".join(Frame(Opcode.TEXT, b"%d" % n).serialize(mask=False) for n in range(3))

    async def talk(session):
        await session.stream.send_all(frames)
        for byte in frames:
            await trio.sleep(1)
            await session.stream.send_all(bytes((byte,)))
        await echo(session)

    async with opened(net, accepts(talk)) as ws:
        assert [await ws.receive() for _ in range(6)] == ["0", "1", "2"] * 2


async def test_a_message_right_behind_the_handshake_is_not_lost(net):
    async def handler(stream):
        protocol = ServerProtocol()
        protocol.receive_data(await stream.receive_some(65_536))
        protocol.send_response(protocol.accept(protocol.events_received()[0]))
        protocol.send_text(b"hello")
        await stream.send_all(b"".join(protocol.data_to_send()))
        await stream.receive_some(65_536)

    async with opened(net, handler) as ws:
        assert await ws.receive() == "hello"


async def test_a_ping_is_answered_while_receiving(net):
    pongs = []

    async def talk(session):
        await session.frame(Opcode.PING, b"42")
        pongs.append(await session.next())
        await session.text("done")
        await echo(session)

    async with opened(net, accepts(talk)) as ws:
        assert await ws.receive() == "done"
    assert (pongs[0].opcode, pongs[0].data) == (Opcode.PONG, b"42")


@pytest.mark.parametrize(("code", "reason"), [(1000, ""), (1008, "no credit"), (1011, "oops"), (1013, ""), (4000, "x")])
async def test_the_upstreams_close_is_told_with_its_code(net, code, reason):
    seen = []

    async def talk(session):
        await session.text("last words")
        await session.close(code, reason)
        seen.append(await session.next())

    async with opened(net, accepts(talk)) as ws:
        assert await ws.receive() == "last words"
        for _ in range(2):
            with pytest.raises(WsClosed) as caught:
                await ws.receive()
            assert (caught.value.code, caught.value.reason) == (code, reason)
            assert "credit" not in str(caught.value)
        with pytest.raises(WsClosed):
            await ws.send("too late")
    await trio.testing.wait_all_tasks_blocked()
    assert Close.parse(seen[0].data).code == code


async def test_a_close_without_a_code(net):
    async def talk(session):
        await session.close()

    async with opened(net, accepts(talk)) as ws:
        with pytest.raises(WsClosed) as caught:
            await ws.receive()
    assert caught.value.code == 1005


async def test_an_end_without_a_close_frame_is_a_cut(net):
    async def talk(session):
        await session.text("hel")
        await session.frame(Opcode.TEXT, b"lo", fin=False)

    async with opened(net, accepts(talk)) as ws:
        assert await ws.receive() == "hel"
        for _ in range(2):
            with pytest.raises(UpstreamCut):
                await ws.receive()
        with pytest.raises(UpstreamCut):
            await ws.send(b"x")
    assert net.open == 0


async def test_a_reset_is_a_cut(net):
    async def talk(session):
        await session.next()

    async with opened(net, accepts(talk)) as ws:
        await ws.send("go")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(UpstreamCut):
            await ws.send("anyone?")
        net.transports[0].abort()
        with pytest.raises(UpstreamCut):
            await ws.receive()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x83\x00",  # reserved opcode
        b"\xc1\x00",  # RSV1 without an extension
        b"\x80\x01x",  # continuation of nothing
        b"\x01\x01a\x81\x01b",  # a new message inside a fragmented one
        b"\x81\x81\x00\x00\x00\x00x",  # masked by the server
        b"\x09\x00",  # fragmented ping
        b"\x81\x02\xc3\x28",  # not UTF-8
        b"\x88\x01x",  # close with half a code
    ],
)
async def test_broken_frames(net, raw):
    seen = []

    async def talk(session):
        await session.stream.send_all(b"\x81\x02ok" + raw)
        while (frame := await session.next()) is not None:
            seen.append(frame)

    async with opened(net, accepts(talk)) as ws:
        assert await ws.receive() == "ok"
        with pytest.raises(UpstreamProtocolError):
            await ws.receive()
    await trio.testing.wait_all_tasks_blocked()
    assert Close.parse(seen[-1].data).code in (1002, 1007)
    assert net.open == 0


@pytest.mark.parametrize("fragments", [1, 5])
async def test_a_message_beyond_the_limit(net, fragments):
    async def talk(session):
        await session.frame(Opcode.BINARY, bytes(200 // fragments), fin=fragments == 1)
        for _ in range(fragments - 1):
            await session.frame(Opcode.CONT, bytes(200 // fragments), fin=False)
        await session.next()

    async with opened(net, accepts(talk), max_message_bytes=100) as ws:
        with pytest.raises(UpstreamProtocolError, match="larger than allowed"):
            await ws.receive()


async def test_leaving_says_goodbye_and_hears_it(net, autojump_clock):
    seen = []

    async def talk(session):
        seen.append(await session.next())
        seen.append(await session.next())

    async with opened(net, accepts(talk)):
        started = trio.current_time()
    assert trio.current_time() == started
    await trio.testing.wait_all_tasks_blocked()
    assert Close.parse(seen[0].data).code == 1000
    assert seen[1] is None
    assert net.open == 0


async def test_leaving_does_not_wait_long_for_a_silent_upstream(net, autojump_clock):
    async def talk(session):
        await trio.sleep_forever()

    async with opened(net, accepts(talk)):
        started = trio.current_time()
    assert trio.current_time() - started == CLOSE_S
    assert net.open == 0


async def test_leaving_drops_what_still_comes(net, autojump_clock):
    async def talk(session):
        while True:
            await session.text("blah")
            await trio.sleep(0.1)

    async with opened(net, accepts(talk)):
        started = trio.current_time()
    assert trio.current_time() - started <= CLOSE_S
    assert net.open == 0


@pytest.mark.parametrize("error", [ValueError, None])
async def test_an_error_or_cancellation_leaves_almost_at_once(net, autojump_clock, error):
    closes = []

    async def talk(session):
        closes.append(await session.next())
        await trio.sleep_forever()

    started = trio.current_time()
    with trio.CancelScope() as scope:
        try:
            async with opened(net, accepts(talk)) as ws:
                if error:
                    raise error
                scope.cancel()
                await ws.receive()
        except ValueError:
            assert error
    assert scope.cancelled_caught == (error is None)
    assert trio.current_time() - started <= GOODBYE_S
    assert net.open == 0
    await trio.testing.wait_all_tasks_blocked()
    assert Close.parse(closes[0].data).code == 1001


async def test_a_cancelled_receive_loses_nothing(net, autojump_clock):
    async def talk(session):
        await session.stream.send_all(b"\x81\x05he")
        await trio.sleep(2)
        await session.stream.send_all(b"llo")
        await echo(session)

    async with opened(net, accepts(talk)) as ws:
        with trio.move_on_after(1) as scope:
            await ws.receive()
        assert scope.cancelled_caught
        assert await ws.receive() == "hello"


async def test_one_task_sends_while_another_receives(net, nursery, autojump_clock):
    async with opened(net, accepts(echo)) as ws:

        async def send(letter):
            for n in range(20):
                await ws.send(f"{letter}{n}")
                await trio.lowlevel.checkpoint()

        for letter in "ab":
            nursery.start_soon(send, letter)
        got = [await ws.receive() for _ in range(40)]
    for letter in "ab":
        assert [m for m in got if m[0] == letter] == [f"{letter}{n}" for n in range(20)]


class Narrow:
    """A connect whose transports stop writing while `shut`, as a full socket would."""

    def __init__(self, net):
        self.net = net
        self.open = trio.Event()
        self.open.set()

    async def __call__(self, origin):
        transport = await self.net(origin)
        write = transport.send_all

        async def send_all(data):
            await self.open.wait()
            await write(data)

        transport.send_all = send_all
        return transport


async def test_receiving_goes_on_while_a_send_is_stuck_and_its_pong_follows(net, nursery):
    net.hosts[HOST] = accepts(pinging := Pinging())
    narrow = Narrow(net)
    async with open_ws("up", ORIGIN, b"/", connect=narrow) as ws:
        narrow.open = trio.Event()
        nursery.start_soon(ws.send, "stuck")
        await trio.testing.wait_all_tasks_blocked()
        pinging.go.set()
        assert await ws.receive() == "after the ping"
        narrow.open.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [f.opcode for f in pinging.seen] == [Opcode.TEXT, Opcode.PONG]


class Pinging:
    def __init__(self):
        self.go = trio.Event()
        self.seen = []

    async def __call__(self, session):
        await self.go.wait()
        await session.frame(Opcode.PING, b"")
        await session.text("after the ping")
        while (frame := await session.next()) is not None:
            self.seen.append(frame)


async def test_a_cancelled_send_ends_the_connection(net, autojump_clock):
    net.hosts[HOST] = accepts(echo)
    narrow = Narrow(net)
    async with open_ws("up", ORIGIN, b"/", connect=narrow) as ws:
        narrow.open = trio.Event()
        with trio.move_on_after(1) as scope:
            await ws.send(b"x")
        assert scope.cancelled_caught
        assert net.open == 0
        narrow.open.set()
        with pytest.raises(UpstreamCut):
            await ws.send(b"y")


def rejects(answer, then_s=0.0):
    async def handler(stream):
        await ServerSide(stream).request()
        await stream.send_all(answer)
        await trio.sleep(then_s)

    return handler


def refusal(status, *lines, body=b"canary in the body"):
    head = b"".join(line + b"\r\n" for line in lines)
    return b"HTTP/1.1 %d No\r\n%bcontent-length: %d\r\n\r\n%b" % (status, head, len(body), body)


@pytest.mark.parametrize(
    ("status", "error", "retryable"),
    [
        (400, ProviderRejected, True),
        (401, ProviderRejected, True),
        (403, ProviderRejected, True),
        (404, ProviderRejected, True),
        (402, ProviderFailed, True),
        (408, ProviderFailed, True),
        (429, RateLimitError, True),
        (500, ProviderFailed, True),
        (503, ProviderFailed, True),
        (529, ProviderFailed, True),
        (200, UpstreamProtocolError, True),
        (302, UpstreamProtocolError, True),
    ],
)
async def test_a_refused_handshake(net, status, error, retryable):
    with pytest.raises(error) as caught:
        async with opened(net, rejects(refusal(status, b"location: http://evil.example/"))):
            raise AssertionError
    assert caught.value.retryable is retryable
    assert f"status {status}" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert len(net.transports) == 1
    assert net.open == 0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"7", 7.0), (b"Wed, 21 Oct 2026 07:28:00 GMT", None), (b"-1", None), (b"999999", None), (b"1e9", None)],
)
async def test_retry_after(net, value, seconds):
    with pytest.raises(RateLimitError) as caught:
        async with opened(net, rejects(refusal(429, b"retry-after: " + value))):
            raise AssertionError
    assert (caught.value.retry_after_s, caught.value.limit_source) == (seconds, "upstream")


INTERIM = (
    b"HTTP/1.1 103 Early Hints\r\nlink: </s.css>; rel=preload\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 102 \r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n",
)


@pytest.mark.parametrize("piece", [1, 7, 65_536])
@pytest.mark.parametrize("interim", INTERIM)
async def test_interim_responses_before_the_answer_are_skipped(net, interim, piece):
    async def switches(stream):
        protocol = ServerProtocol(max_size=None)
        while not (events := protocol.events_received()):
            protocol.receive_data(await stream.receive_some(65_536))
        protocol.send_response(protocol.accept(events[0]))
        protocol.send_text(b"hello")
        data = interim + b"".join(protocol.data_to_send())
        for at in range(0, len(data), piece):
            await stream.send_all(data[at : at + piece])
        await trio.sleep_forever()

    async with opened(net, switches) as ws:
        assert await ws.receive() == "hello"


@pytest.mark.parametrize("interim", INTERIM)
async def test_a_refusal_after_interim_responses_keeps_its_status(net, interim):
    with pytest.raises(RateLimitError):
        async with opened(net, rejects(interim + refusal(429))):
            raise AssertionError


async def test_interim_responses_without_an_answer(net):
    with pytest.raises(UpstreamProtocolError, match="in the middle of the handshake"):
        async with opened(net, rejects(INTERIM[0])):
            raise AssertionError


SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 10",
        b"nonsense\r\n\r\n",
        SWITCH + b"\r\n",
        SWITCH + b"sec-websocket-accept: wrong\r\n\r\n",
        b"HTTP/1.1 101 X\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: " + b"b" * 100_000,
    ],
)
async def test_a_malformed_handshake(net, answer):
    with pytest.raises(UpstreamProtocolError):
        async with opened(net, rejects(answer)):
            raise AssertionError
    assert net.open == 0


async def test_compression_nobody_offered_is_a_malformed_handshake(net):
    async def handler(stream):
        protocol = ServerProtocol()
        protocol.receive_data(await stream.receive_some(65_536))
        response = protocol.accept(protocol.events_received()[0])
        response.headers["Sec-WebSocket-Extensions"] = "permessage-deflate"
        await stream.send_all(response.serialize())

    with pytest.raises(UpstreamProtocolError):
        async with opened(net, handler):
            raise AssertionError


async def test_no_answer_to_the_handshake(net):
    with pytest.raises(ProviderUnreachable, match="before an answer"):
        async with opened(net, rejects(b"")):
            raise AssertionError


async def test_no_connection(net):
    net.hosts[HOST] = ConnectionRefusedError(111, "Connection refused")
    with pytest.raises(ProviderUnreachable, match="connection refused"):
        async with opened(net):
            raise AssertionError


@pytest.mark.parametrize("connect", [black_hole, None])
async def test_a_handshake_that_stalls_ends_at_the_callers_deadline(net, autojump_clock, connect):
    net.hosts[HOST] = rejects(b"HTTP/1.1 101", then_s=1_000)
    with trio.move_on_after(2) as scope:
        async with open_ws("up", ORIGIN, b"/", connect=connect or net):
            raise AssertionError
    assert scope.cancelled_caught
    assert net.open == 0


@pytest.mark.parametrize(
    ("path", "headers"), [(b"/a b", []), (b"/\r\n", []), (b"/", [(b"x", b"a\r\nb: c")]), (b"/", [(b"x\n", b"a")])]
)
async def test_what_breaks_out_of_its_line_is_refused(net, path, headers):
    with pytest.raises(ValueError, match="may"):
        async with open_ws("up", ORIGIN, path, headers=headers, connect=net):
            raise AssertionError
    assert net.transports == []


async def test_keys_are_not_logged_at_debug(net, caplog):
    caplog.set_level(logging.DEBUG)
    async with opened(net, accepts(echo)) as ws:
        await ws.send("hi")
        await ws.receive()
    ours = [record for record in caplog.records if record.name.startswith("gw.")]
    assert ours == []
