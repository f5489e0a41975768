"""A session whose messages are given away where they are read, over real sockets: by the poller, and by a task without one."""

import ssl
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
import trustme
from websockets.frames import Opcode

from gw.errors import UpstreamCut, UpstreamProtocolError
from gw.net import poller
from gw.net.connect import Origin, connect_tcp
from gw.net.ws import WsClosed, open_ws
from tests.net.test_ws import accepts, echo

pytestmark = pytest.mark.usefixtures("polled", "tls")


@pytest.fixture(params=["poller", "task"] if poller.OFFERED else ["task"])
async def polled(request, nursery):
    if request.param == "poller":
        nursery.start_soon(poller.Poller().run)
        await trio.testing.wait_all_tasks_blocked()


AUTHORITY = trustme.CA(key_type=trustme.KeyType.ECDSA)
SERVER = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
AUTHORITY.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA).configure_cert(SERVER)
CLIENT = ssl.create_default_context()
AUTHORITY.configure_trust(CLIENT)


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def tls(request):
    return request.param


@pytest.fixture
def opened(nursery, tls):
    """`opened(talk)`: a session with a server that talks like that."""

    @asynccontextmanager
    async def open_(talk):
        async def serve(stream):
            if tls:
                stream = trio.SSLStream(stream, SERVER, server_side=True, https_compatible=True)
            async with stream:
                await accepts(talk)(stream)

        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        origin = Origin.parse(f"http{'s' if tls else ''}://127.0.0.1:{listener.socket.getsockname()[1]}")
        connect = partial(connect_tcp, ssl_context=CLIENT)
        with trio.fail_after(60):
            async with open_ws("up", origin, b"/", connect=connect) as ws:
                yield ws

    return open_


class Taken:
    """Keeps messages; leaves something to wait for with the `most`th, and with `waits` each time."""

    def __init__(self, most=1_000, waits=False):
        self.got, self.most, self.waits = [], most, waits

    def __call__(self, message):
        self.got.append(message)
        return self.done(len(self.got)) if self.waits or len(self.got) == self.most else None

    async def done(self, count):
        await trio.lowlevel.checkpoint()
        assert len(self.got) == count  # nothing came meanwhile


async def take_all(ws, take):
    while True:
        await ws.for_each_message(take)


@pytest.mark.parametrize("waits", [False, True])
async def test_messages_come_whole_and_in_order(opened, waits):
    async def talk(session):
        await session.text("one")
        await session.frame(Opcode.BINARY, b"\x00\xff")
        await session.frame(Opcode.TEXT, b"fr", fin=False)
        await session.frame(Opcode.PING, b"?")
        await session.frame(Opcode.CONT, b"agments")
        pong = await session.next()
        assert (pong.opcode, bytes(pong.data)) == (Opcode.PONG, b"?")
        await session.text("x" * 70_000)
        for n in range(50):
            await session.text(str(n))
        await session.close(1000, "bye")

    taken = Taken(waits=waits)
    async with opened(talk) as ws:
        with pytest.raises(WsClosed) as closed:
            await take_all(ws, taken)
    assert closed.value.code == 1000
    assert taken.got == ["one", b"\x00\xff", "fragments", "x" * 70_000, *map(str, range(50))]


async def test_it_ends_when_something_was_waited_for_and_the_rest_is_still_to_be_had(opened):
    taken = Taken(most=2)
    async with opened(echo) as ws:
        for n in range(4):
            await ws.send(str(n))
        await ws.for_each_message(taken)
        assert taken.got == ["0", "1"]
        assert [await ws.receive() for _ in range(2)] == ["2", "3"]


async def test_a_fault_of_the_taker_is_raised_as_it_is(opened):
    """An OSError too, which says nothing about this connection."""

    def take(message):
        raise BrokenPipeError("the client has gone")

    async with opened(echo) as ws:
        await ws.send("x")
        with pytest.raises(BrokenPipeError, match="the client has gone"):
            await ws.for_each_message(take)
        assert ws.is_open


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", UpstreamCut),
        (b"\x82\x05hal", UpstreamCut),
        (b"\xff\x00", UpstreamProtocolError),
        (b"\x81\x01\xff", UpstreamProtocolError),
    ],
    ids=["end", "in a frame", "no frame", "no text"],
)
async def test_what_ends_a_session_is_raised(opened, sent, error):
    async def talk(session):
        if sent:
            await session.stream.send_all(sent)

    taken = Taken()
    async with opened(talk) as ws:
        with pytest.raises(error):
            await take_all(ws, taken)
    assert taken.got == []


async def test_a_cancelled_call_loses_nothing(opened):
    taken = Taken(most=1)
    async with opened(echo) as ws:
        with trio.move_on_after(0):
            await ws.for_each_message(taken)
        await ws.send("later")
        await ws.for_each_message(taken)
    assert taken.got == ["later"]


async def test_what_the_upstream_does_not_take_is_left_to_wait_for(opened):
    """Whole frames in the order they were sent, whoever waits."""
    go, read, seen = trio.Event(), trio.Event(), []

    async def talk(session):
        await go.wait()
        while len(seen) < 40:
            seen.append(bytes((await session.next()).data))
        read.set()

    sent = [bytes([n]) * 1_000_000 for n in range(40)]
    async with opened(talk) as ws:
        async with trio.open_nursery() as waiting:
            left = [rest for data in sent if (rest := ws.send_or_pending(data)) is not None]
            assert 0 < len(left) < 40

            async def wait(rest):
                await rest

            for rest in left:
                waiting.start_soon(wait, rest)
                await trio.testing.wait_all_tasks_blocked()
            go.set()
        await read.wait()
    assert seen == sent
