import pytest
import trio
import trio.testing

from gw.net.poller import Poller
from gw.web.connection import LINGER_S, PIECE_BYTES, UNREAD_BYTES, Connection, ServerLimits
from gw.web.drain import Drain
from tests.fakes.net import StreamTransport


@pytest.fixture
def ends():
    ours, theirs = trio.testing.lockstep_stream_pair()
    return ours, Connection(StreamTransport(theirs), ServerLimits(write_s=30), Drain())


async def reading(link, task_status):
    async with link.reader():
        task_status.started()
        await trio.sleep_forever()


async def test_the_reader_rests_while_much_is_unread(ends, nursery):
    client, link = ends
    await nursery.start(reading, link)
    sent = 0
    with trio.move_on_after(0.05):
        while True:
            await client.send_all(b"x" * 65_536)
            sent += 65_536
    assert UNREAD_BYTES < len(link.buffer) <= UNREAD_BYTES + 2 * 65_536
    link.buffer.clear()
    link.taken()
    await trio.testing.wait_all_tasks_blocked()
    assert link.buffer


@pytest.mark.parametrize("beside", [False, True])
async def test_leaving_is_told_once_and_wait_returns(ends, nursery, beside):
    client, link = ends
    told = []
    link.on_left = lambda: told.append(True)
    if beside:
        await nursery.start(reading, link)
    nursery.start_soon(client.aclose)
    await link.wait()
    await link.wait()
    link.hung_up()
    assert link.left
    assert told == [True]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("beside", [False, True])
async def test_bytes_are_waited_for(ends, nursery, beside):
    client, link = ends
    if beside:
        await nursery.start(reading, link)
    nursery.start_soon(client.send_all, b"hello")
    await link.wait()
    assert link.buffer == b"hello"
    nursery.cancel_scope.cancel()


async def test_only_one_task_waits(ends, nursery):
    _client, link = ends
    nursery.start_soon(link.wait_changed)
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(trio.BusyResourceError):
        await link.wait_changed()
    link.wake()


async def test_a_cancelled_wait_leaves_no_waiter(ends, nursery):
    _client, link = ends
    with trio.move_on_after(0):
        await link.wait_changed()
    nursery.start_soon(link.wait_changed)
    await trio.testing.wait_all_tasks_blocked()
    link.wake()


async def test_a_hang_up_wakes_who_does_not_read(ends, nursery):
    _client, link = ends
    nursery.start_soon(link.wait_changed)
    await trio.testing.wait_all_tasks_blocked()
    link.hung_up()
    await link.wait()
    assert link.left


async def test_a_stream_that_is_no_socket_cannot_be_watched(ends):
    _client, link = ends
    poller = Poller()
    assert not link.watch(poller)
    link.unwatch()


async def test_each_piece_of_a_large_write_has_its_own_deadline(ends, nursery, autojump_clock):
    client, link = ends

    async def read_slowly():
        while True:
            await trio.sleep(20)
            got = 0
            while got < PIECE_BYTES:
                got += len(await client.receive_some(PIECE_BYTES - got))

    nursery.start_soon(read_slowly)
    await link.send(b"x" * (4 * PIECE_BYTES))
    nursery.cancel_scope.cancel()
    assert trio.current_time() >= 60


async def test_a_write_nobody_takes_kills_the_connection(ends, autojump_clock):
    _client, link = ends
    with pytest.raises(TimeoutError, match="stopped reading"):
        await link.send(b"x")
    assert link.dead
    with pytest.raises(OSError, match="gone"):
        await link.send(b"x")


async def test_linger_drops_what_still_comes_and_gives_up(nursery, autojump_clock):
    client, theirs = trio.testing.memory_stream_pair()
    link = Connection(StreamTransport(theirs), ServerLimits(), Drain())
    await nursery.start(reading, link)
    await client.send_all(b"x" * 1000)
    began = trio.current_time()
    await link.linger()
    assert link.dropped == 1000
    assert not link.buffer
    assert trio.current_time() - began == pytest.approx(LINGER_S)
