import socket
from functools import partial

import pytest
import trio
import trio.lowlevel

from gw.workers import channel as module
from gw.workers.channel import Channel, ChannelClosed, receive_blocking
from gw.workers.messages import ConfigApplied, FromKeeper, NewConfig, RecordsCommitted


@pytest.fixture
def sockets():
    pair = socket.socketpair()
    yield pair
    for sock in pair:
        sock.close()


async def test_messages_arrive_in_order_whatever_their_size(sockets):
    mine, theirs = (Channel(sock, FromKeeper) for sock in sockets)
    arrived = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mine.run, lambda message: None)
        nursery.start_soon(theirs.run, arrived.append)
        for number in range(50):
            mine.send(NewConfig(number=number, config=b"x" * (number * 40_000)))
            mine.send(RecordsCommitted(number=number))
        while len(arrived) < 100:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert [message.number for message in arrived] == [number for number in range(50) for _ in range(2)]
    assert len(arrived[98].config) == 49 * 40_000


async def test_the_end_of_the_other_side_ends_it(sockets):
    mine, theirs = (Channel(sock, FromKeeper) for sock in sockets)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mine.run, lambda message: None)
        theirs.close()
    assert mine.closed
    with pytest.raises(ChannelClosed):
        mine.send(RecordsCommitted(number=1))


async def test_an_end_that_takes_nothing_is_given_up(sockets, monkeypatch):
    monkeypatch.setattr(module, "MAX_UNSENT", 1_000_000)
    mine = Channel(sockets[0], FromKeeper)
    mine.send(NewConfig(number=1, config=b"x" * 900_000))
    with pytest.raises(ChannelClosed):
        mine.send(NewConfig(number=2, config=b"x" * 900_000))
    assert mine.closed


async def test_the_first_message_can_be_awaited_without_a_task(sockets):
    mine = Channel(sockets[0], ConfigApplied)
    mine.send(RecordsCommitted(number=7))
    assert await trio.to_thread.run_sync(partial(receive_blocking, sockets[1], RecordsCommitted)) == RecordsCommitted(number=7)
    mine.close()
    assert await trio.to_thread.run_sync(partial(receive_blocking, sockets[1], RecordsCommitted)) is None
