"""Both roles of a session, joined by hand: every message and the closing handshake, wherever the bytes are cut."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio
from websockets.frames import Opcode

from gw.net.ws_core import CLIENT, MAX_MESSAGE_BYTES, SERVER, WsSession
from gw.net.ws_frames import BINARY
from tests.fakes.net import StreamTransport

MESSAGES = ["text", b"bytes", "", b"", "gr\u00fc\u00df dich", b"\x00" * 200, "x" * 70_000]


class Wire(StreamTransport):
    """Keeps what is sent; while `full`, a write waits."""

    def __init__(self):
        self.sent = bytearray()
        self.full = False
        self.room = trio.Event()

    def send_or_pending(self, data):
        if self.full:
            return self.send_all(data)
        self.sent += data
        return None

    async def send_all(self, data):
        await self.room.wait()
        self.full = False
        self.sent += data


class Session(WsSession):
    def __init__(self, side):
        super().__init__(CLIENT if side == "client" else SERVER, Wire())

    def _closed_error(self) -> Exception:
        return EOFError("over")

    def _write_error(self, error: BaseException) -> Exception:
        return OSError(str(error))

    async def _wait_written(self, pending: Awaitable[None], size: int) -> None:
        await pending

    def _take_failed(self, error: Exception):
        raise error

    def drain(self) -> bytes:
        data = bytes(self._transport.sent)
        self._transport.sent.clear()
        return data

    async def receive(self, data: bytes) -> list[str | bytes]:
        if (pending := self.feed(data)) is not None:
            await pending
        return [self._pop() for _ in range(len(self._messages or ()))]


@pytest.fixture(params=["client", "server"])
def pair(request):
    """The session that sends and the one that receives."""
    return Session(request.param), Session("server" if request.param == "client" else "client")


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
async def test_a_message_may_be_cut_anywhere(pair, message):
    sender, receiver = pair
    await sender.send(message)
    data = sender.drain()
    for at in {*range(min(len(data), 40)), len(data) // 2, len(data) - 1}:
        assert await receiver.receive(data[:at]) + await receiver.receive(data[at:]) == [message]
    assert receiver._unread == 0


async def test_many_messages_in_one_read_keep_their_order_and_go_to_the_taker(pair):
    sender, receiver = pair
    taken = []
    for message in MESSAGES:
        await sender.send(message)
    receiver._take = taken.append
    assert await receiver.receive(sender.drain()) == []
    assert taken == MESSAGES


async def test_what_was_read_with_a_message_that_must_be_waited_for_stays_queued(pair):
    sender, receiver = pair
    for message in ("one", "two", "three"):
        await sender.send(message)
    sender._protocol.send_ping(b"now")
    await sender._answer()
    taken, room = [], trio.Event()

    def take(message):
        taken.append(message)
        return room.wait() if message == "two" else None

    receiver._take = take
    pending = receiver.feed(sender.drain())
    assert (taken, list(receiver._messages), receiver.drain()) == (["one", "two"], ["three"], b"")
    room.set()
    await pending
    assert receiver.drain()[0] & 15 == Opcode.PONG
    receiver._take = taken.append
    assert receiver._deliver() is None
    assert taken == ["one", "two", "three"]


async def test_what_was_read_with_a_message_that_could_not_be_taken_stays_queued(pair):
    sender, receiver = pair
    for message in ("one", "two", "three"):
        await sender.send(message)

    def take(message):
        if message == "two":
            raise ValueError(message)

    receiver._take = take
    with pytest.raises(ValueError, match="two"):
        receiver.feed(sender.drain())
    assert list(receiver._messages) == ["three"]


async def test_messages_read_at_once_need_no_queue(pair, monkeypatch):
    sender, receiver = pair
    monkeypatch.setattr(type(receiver), "_queue", None)
    for size in (5, 200, 640):
        await sender.send(b"x" * size)
        await sender.send("x" * size)
    taken = []
    receiver._take = lambda message: taken.append(len(message))
    assert receiver.feed(sender.drain()) is None
    assert taken == [5, 5, 200, 200, 640, 640]


async def test_a_ping_is_answered_and_owed_while_another_writes(pair):
    sender, receiver = pair
    sender._protocol.send_ping(b"now")
    await sender._answer()
    await receiver.receive(sender.drain())
    assert receiver.drain()[0] & 15 == Opcode.PONG
    receiver._transport.full = True
    pending = receiver.send_or_pending("slow")
    sender._protocol.send_ping(b"later")
    await sender._answer()
    await receiver.receive(sender.drain())
    assert receiver.drain() == b""
    receiver._transport.room.set()
    await pending
    sender._protocol.receive_data(receiver.drain())
    assert [event.opcode for event in sender._protocol.events_received()] == [Opcode.TEXT, Opcode.PONG]


async def test_the_protocol_object_is_held_only_while_there_is_something_for_it(pair):
    sender, receiver = pair
    assert await receiver.receive(sender._encode(BINARY, b"plain")) == [b"plain"]
    assert receiver._library is None
    sender._protocol.send_ping(b"now")
    await sender._answer()
    await receiver.receive(sender.drain())
    assert receiver.drain()[0] & 15 == Opcode.PONG
    assert (sender._library, receiver._library) == (None, None)
    sender._protocol.send_binary(b"in ", fin=False)
    await sender._flush()
    assert await receiver.receive(sender.drain()) == []
    assert receiver._library is not None  # it knows the fragment
    sender._protocol.expect_continuation_frame = True
    sender._protocol.send_continuation(b"parts", fin=True)
    await sender._flush()
    assert await receiver.receive(sender.drain()) == [b"in parts"]
    assert receiver._library is None


async def test_the_closing_handshake(pair):
    sender, receiver = pair
    await receiver.send("before")
    assert await sender.send_close(1000, "bye")
    await receiver.send("crossing")
    assert await receiver.receive(sender.drain()) == []
    assert not receiver.is_open
    assert await sender.receive(receiver.drain()) == []  # messages after the own close are dropped
    assert (sender._protocol.close_rcvd.code, receiver._protocol.close_rcvd.reason) == (1000, "bye")
    assert not await receiver.send_close(1011)
    for session in pair:
        with pytest.raises(EOFError):
            await session.send("late")


@pytest.mark.parametrize(
    ("first", "payload", "code"),
    [
        (0x81, b"\xff", 1007),  # text that is not UTF-8
        (0x80, b"of nothing", 1002),  # a continuation
        (0xC2, b"compressed", 1002),
        (0x89, b"x" * 126, 1002),  # a ping that is too long
    ],
)
async def test_what_must_not_be_sent_closes_the_session_with_its_code(pair, first, payload, code):
    sender, receiver = pair
    await sender.send("good")
    data = sender.drain() + bytes([first]) + sender._encode(2, payload)[1:]
    assert await receiver.receive(data) == ["good"]
    assert not receiver.is_open
    assert receiver._protocol.close_sent.code == code


async def test_a_message_that_is_too_large_closes_with_1009(pair):
    sender, receiver = pair
    data = sender._encode(2, bytes(MAX_MESSAGE_BYTES + 1))
    assert await receiver.receive(data[:20]) == []
    assert receiver._protocol.close_sent.code == 1009
