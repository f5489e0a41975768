import socket

import pytest
import trio
import trio.testing

from gw.net.tcp import TcpStream
from gw.net.transport import LOST
from tests.fakes.net import StreamTransport


def _tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    for sock in (near, far):
        sock.setblocking(False)
    return TcpStream(near), TcpStream(far)


def _memory_pair():
    near, far = trio.testing.memory_stream_pair()
    return StreamTransport(near), StreamTransport(far)


@pytest.fixture(params=[_tcp_pair, _memory_pair])
async def pair(request):
    near, far = request.param()
    yield near, far
    await near.aclose()
    await far.aclose()


async def test_what_is_sent_arrives_and_eof_follows(pair):
    near, far = pair
    data = bytes(range(256)) * 20_000
    async with trio.open_nursery() as nursery:

        async def send():
            await near.send_all(memoryview(data)[near.send_now(data) :])
            await near.send_eof()

        nursery.start_soon(send)
        got = b""
        while piece := await far.receive_some():
            got += piece
    assert got == data


async def test_it_is_known_whether_something_has_arrived():
    near, far = _tcp_pair()
    assert not far.has_arrived()
    await near.send_all(b"x")
    await trio.lowlevel.wait_readable(far.descriptor)
    assert far.has_arrived()
    assert await far.receive_some() == b"x"
    assert not far.has_arrived()
    await near.aclose()
    await trio.lowlevel.wait_readable(far.descriptor)
    assert far.has_arrived()
    await far.aclose()
    assert not far.has_arrived()


async def test_what_has_arrived_is_returned_after_a_turn_for_other_tasks():
    near, far = _tcp_pair()
    turns = []
    async with trio.open_nursery() as nursery:
        assert await far.receive_arrived(4) is None
        await near.send_all(b"abcdef")
        await trio.lowlevel.wait_readable(far.descriptor)
        nursery.start_soon(_note_turn, turns)
        assert await far.receive_arrived(4) == b"abcd"
        assert await far.receive_arrived(4) == b"ef"
        assert turns == [1]
        assert await far.receive_arrived(4) is None
        await near.aclose()
        await trio.lowlevel.wait_readable(far.descriptor)
        assert await far.receive_arrived(4) == b""
    await far.aclose()


async def _note_turn(turns):
    turns.append(1)


async def test_a_closed_transport_says_so(pair):
    near, _far = pair
    await near.aclose()
    await near.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await near.receive_some()
    with pytest.raises(LOST):
        await near.send_all(b"x")


async def test_closing_wakes_a_reader(pair):
    near, _far = pair
    async with trio.open_nursery() as nursery:

        async def read():
            with pytest.raises(trio.ClosedResourceError):
                await near.receive_some()

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        await near.aclose()


async def test_the_peer_sees_a_reset():
    near, far = _tcp_pair()
    near.reset()
    with pytest.raises(ConnectionResetError):
        await far.receive_some()
    with pytest.raises(OSError, match="connected"):
        await far.send_eof()
    await far.aclose()


async def test_a_full_socket_takes_what_it_can():
    near, far = _tcp_pair()
    data = b"x" * 50_000_000
    sent = near.send_now(data)
    assert 0 < sent < len(data)
    assert near.send_now(data) == 0
    near.abort()
    await far.aclose()


async def test_addresses():
    near, far = _tcp_pair()
    client, server = near.addresses()
    assert client == far.addresses()[1] != server
    await near.aclose()
    await far.aclose()
    assert near.addresses() == (None, None)
