import pytest
import trio
import trio.testing

from gw.net.poller import Poller
from gw.web.connection import LINGER_S, UNREAD_BYTES, Connection
from gw.web.drain import Drain
from gw.web.server_limits import PIECE_BYTES, ServerLimits
from tests.fakes.net import StreamTransport


@pytest.fixture
def ends():
    ours, theirs = trio.testing.lockstep_stream_pair()
    return ours, Connection(StreamTransport(theirs), ServerLimits(write_s=30), Drain())


async def reading(connection, task_status):
    async with trio.open_nursery() as nursery:
        connection.start_reading(nursery)
        task_status.started()


async def test_the_reader_rests_while_much_is_unread(ends, nursery, autojump_clock):
    client, connection = ends
    await nursery.start(reading, connection)
    sent = 0
    with trio.move_on_after(0.05):
        while True:
            await client.send_all(b"x" * 65_536)
            sent += 65_536
    assert UNREAD_BYTES < len(connection.buffer) <= UNREAD_BYTES + 2 * 65_536
    connection.buffer.clear()
    connection.taken()
    await trio.testing.wait_all_tasks_blocked()
    assert connection.buffer


@pytest.mark.parametrize("beside", [False, True])
async def test_leaving_is_told_once_and_wait_returns(ends, nursery, beside):
    client, connection = ends
    calls = []
    connection.on_left = lambda: calls.append(True)
    if beside:
        await nursery.start(reading, connection)
    nursery.start_soon(client.aclose)
    await connection.wait()
    await connection.wait()
    connection.hung_up()
    assert connection.left
    assert calls == [True]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("beside", [False, True])
async def test_bytes_are_waited_for(ends, nursery, beside):
    client, connection = ends
    if beside:
        await nursery.start(reading, connection)
    nursery.start_soon(client.send_all, b"hello")
    await connection.wait()
    assert connection.buffer == b"hello"
    nursery.cancel_scope.cancel()


async def test_only_one_task_waits(ends, nursery):
    _client, connection = ends
    nursery.start_soon(connection.wait_changed)
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(trio.BusyResourceError):
        await connection.wait_changed()
    connection.wake()


async def test_a_cancelled_wait_leaves_no_waiter(ends, nursery):
    _client, connection = ends
    with trio.move_on_after(0):
        await connection.wait_changed()
    nursery.start_soon(connection.wait_changed)
    await trio.testing.wait_all_tasks_blocked()
    connection.wake()


async def test_a_hang_up_wakes_who_does_not_read(ends, nursery):
    _client, connection = ends
    nursery.start_soon(connection.wait_changed)
    await trio.testing.wait_all_tasks_blocked()
    connection.hung_up()
    await connection.wait()
    assert connection.left


async def test_a_stream_that_is_no_socket_cannot_be_watched(ends):
    _client, connection = ends
    poller = Poller()
    assert not connection.watch(poller)
    connection.unwatch()


async def test_each_piece_of_a_large_write_has_its_own_deadline(ends, nursery, autojump_clock):
    client, connection = ends

    async def read_slowly():
        while True:
            await trio.sleep(20)
            got = 0
            while got < PIECE_BYTES:
                got += len(await client.receive_some(PIECE_BYTES - got))

    nursery.start_soon(read_slowly)
    await connection.send(b"x" * (4 * PIECE_BYTES))
    nursery.cancel_scope.cancel()
    assert trio.current_time() >= 60


async def test_a_write_nobody_takes_kills_the_connection(ends, autojump_clock):
    _client, connection = ends
    with pytest.raises(TimeoutError, match="stopped reading"):
        await connection.send(b"x")
    assert connection.dead
    with pytest.raises(OSError, match="gone"):
        await connection.send(b"x")


async def test_linger_drops_what_still_comes_and_gives_up(nursery, autojump_clock):
    client, theirs = trio.testing.memory_stream_pair()
    connection = Connection(StreamTransport(theirs), ServerLimits(), Drain())
    await nursery.start(reading, connection)
    await client.send_all(b"x" * 1000)
    began = trio.current_time()
    await connection.linger()
    assert connection.dropped == 1000
    assert not connection.buffer
    assert trio.current_time() - began == pytest.approx(LINGER_S)
