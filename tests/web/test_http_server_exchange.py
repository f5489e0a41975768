import socket

import pytest
import trio
import trio.testing

from gw.net.tcp import TcpStream
from gw.web.connection import Connection
from gw.web.drain import Drain
from gw.web.http_server_exchange import DateField, ServerExchange
from gw.web.http_server_head import parse_head
from gw.web.long_answers import LongAnswers
from gw.web.server_limits import ServerLimits


class Clock:
    def __init__(self, now):
        self.seconds = now

    def now(self):
        return self.seconds


def test_the_date_line_is_made_once_a_second():
    clock = Clock(784111777.2)
    date = DateField(clock)
    line = date.line()
    assert line == b"date: Sun, 06 Nov 1994 08:49:37 GMT"
    clock.seconds += 0.5
    assert date.line() is line
    clock.seconds += 0.5
    assert date.line() == b"date: Sun, 06 Nov 1994 08:49:38 GMT"


HEAD = b"POST /v1/listen HTTP/1.1\r\nhost: gw\r\ncontent-length: 100000\r\n\r\n"
BODY = bytes(i % 251 for i in range(100_000))
FIRST = 10_000  # bytes of the body that were read with the head


@pytest.fixture
def ends():
    """A client's socket, and an exchange whose head and first bytes were read from the other end."""
    client, ours = socket.socketpair()
    for end in (client, ours):
        end.setblocking(False)
    with client, ours:
        connection = Connection(TcpStream(ours), ServerLimits(), Drain())
        connection.buffer += BODY[:FIRST]
        head = parse_head(HEAD)
        yield client, connection, ServerExchange(head, connection, DateField(Clock(0)), lambda: len(BODY), LongAnswers())


async def test_what_has_arrived_of_a_body_is_read_with_its_first_piece(ends):
    client, connection, exchange = ends
    client.send(BODY[FIRST:] + b"GET / HTTP/1.1")
    assert await exchange.receive() == {"type": "http.request", "body": BODY[:FIRST], "more_body": True, "gw.arrived": True}
    assert await exchange.receive() == {"type": "http.request", "body": BODY[FIRST:], "more_body": False}
    assert await connection.receive(100) == b"GET / HTTP/1.1"


async def test_a_body_of_which_only_a_part_has_arrived_is_waited_for(ends):
    client, _connection, exchange = ends
    client.send(BODY[FIRST:50_000])
    assert (await exchange.receive())["gw.arrived"]
    assert await exchange.receive() == {"type": "http.request", "body": BODY[FIRST:50_000], "more_body": True}
    received = []

    async def receive():
        received.append(await exchange.receive())

    async with trio.open_nursery() as inner:
        inner.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        assert not received
        client.send(BODY[50_000:])
    assert received == [{"type": "http.request", "body": BODY[50_000:], "more_body": False}]


async def test_a_first_piece_after_which_nothing_has_arrived_says_so(ends):
    _client, _connection, exchange = ends
    assert await exchange.receive() == {"type": "http.request", "body": BODY[:FIRST], "more_body": True}


async def test_a_body_that_is_dropped_is_dropped_whole(ends):
    client, _connection, exchange = ends
    client.send(BODY[FIRST:])
    await exchange.drop_body()
    assert exchange.body.done
    assert await exchange.receive() == {"type": "http.request", "body": b"", "more_body": False}
