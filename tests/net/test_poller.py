import os
import socket
import struct
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from gw.net.poller import OFFERED, READ_BYTES, Poller, Reading, SocketWatcher, current

pytestmark = pytest.mark.skipif(not OFFERED, reason="epoll is Linux's")


@contextmanager
def connection():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


class Told(SocketWatcher):
    def __init__(self):
        self.times = 0
        self.event = trio.Event()

    def ready(self):
        self.times += 1
        self.event.set()


@pytest.fixture
async def poller(nursery):
    made = Poller()
    nursery.start_soon(made.run)
    return made


@pytest.mark.parametrize("how", ["close", "half"])
async def test_a_hang_up_is_told_once_with_bytes_unread(poller, how):
    with connection() as (ours, theirs):
        told = Told()
        poller.watch(ours.fileno(), told)
        theirs.send(b"unread")
        if how == "half":
            theirs.shutdown(socket.SHUT_WR)
        else:
            theirs.close()
        with trio.fail_after(60):
            await told.event.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert told.times == 1
        poller.forget(ours.fileno(), told)


async def test_bytes_alone_are_not_told(poller):
    with connection() as (ours, theirs), connection() as (other, their_other):
        told, told_of_other = Told(), Told()
        poller.watch(ours.fileno(), told)
        poller.watch(other.fileno(), told_of_other)
        theirs.send(b"hello")
        their_other.close()
        with trio.fail_after(60):
            await told_of_other.event.wait()
        assert told.times == 0


async def test_a_forgotten_number_belongs_to_the_next_connection(poller):
    """A socket is closed before it is forgotten, and its number is given to another."""
    first = Told()
    with connection() as (ours, _theirs):
        number = ours.fileno()
        poller.watch(number, first)
    with connection() as (ours, theirs):
        if ours.fileno() != number:
            os.dup2(ours.fileno(), number)
            ours.close()
            ours = socket.socket(fileno=number)
        second = Told()
        poller.watch(number, second)
        poller.forget(number, first)
        theirs.close()
        with trio.fail_after(60):
            await second.event.wait()
        assert (first.times, second.times) == (0, 1)
        ours.close()


@pytest.fixture
def reading(poller):
    """A connection with its `Reading`: (reading, our socket, theirs)."""
    with connection() as (ours, theirs):
        yield Reading(poller, ours), ours, theirs


class Taken:
    """Keeps what it is given; leaves `rest` to wait for, once."""

    def __init__(self, rest=None):
        self.got = []
        self.came = trio.Event()
        self.rest = rest

    def __call__(self, data):
        self.got.append(data)
        self.came.set()
        rest, self.rest = self.rest, None
        return rest


def read_to_the_end(nursery, read, taken):
    """Read in a task of its own; return the event of the end."""
    ended = trio.Event()

    async def run():
        assert await read.each(taken) is None
        ended.set()

    nursery.start_soon(run)
    return ended


async def test_what_arrives_is_given_without_waking_the_reader(reading, nursery):
    read, _ours, theirs = reading
    taken = Taken()
    ended = read_to_the_end(nursery, read, taken)
    for n in range(3):
        taken.came = trio.Event()
        await trio.testing.wait_all_tasks_blocked()
        theirs.send(b"%d" % n)
        with trio.fail_after(60):
            await taken.came.wait()
    assert taken.got == [b"0", b"1", b"2"]
    assert not ended.is_set()
    theirs.close()
    with trio.fail_after(60):
        await ended.wait()


async def test_all_that_arrived_is_given_in_several_reads(reading, nursery):
    read, _ours, theirs = reading
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * READ_BYTES)
    sent = bytes(range(256)) * (5 * READ_BYTES // 2 // 256)
    theirs.settimeout(10)
    theirs.sendall(sent)
    taken, size = [], 0
    complete = trio.Event()

    def take(data):
        nonlocal size
        taken.append(data)
        size += len(data)
        if size == len(sent):
            complete.set()

    nursery.start_soon(read.each, take)
    with trio.fail_after(60):
        await complete.wait()
    assert b"".join(taken) == sent
    assert len(taken) > 1


async def test_the_end_is_seen_behind_bytes_that_came_with_it(reading, nursery):
    read, _ours, theirs = reading
    taken = Taken()
    ended = read_to_the_end(nursery, read, taken)
    await trio.testing.wait_all_tasks_blocked()
    theirs.send(b"last")
    theirs.shutdown(socket.SHUT_WR)
    with trio.fail_after(60):
        await ended.wait()
    assert taken.got == [b"last"]


async def test_what_is_left_to_wait_for_is_the_readers(reading):
    """Nothing is read until it asks again, and nothing is lost."""
    read, _ours, theirs = reading
    done = []

    async def rest():
        done.append(True)

    taken = Taken(rest())
    theirs.send(b"one")
    with trio.fail_after(60):
        left = await read.each(taken)
        theirs.send(b"two")
        await trio.testing.wait_all_tasks_blocked()
        assert (taken.got, done) == ([b"one"], [])
        await left
        theirs.close()
        assert await read.each(taken) is None
    assert (taken.got, done) == ([b"one", b"two"], [True])


async def test_a_fault_of_the_taker_is_raised_in_the_reader(reading):
    read, _ours, theirs = reading

    def take(data):
        raise ValueError(data.decode())

    theirs.send(b"no good")
    with trio.fail_after(60), pytest.raises(ValueError, match="no good"):
        await read.each(take)


async def test_a_broken_connection_is_raised_in_the_reader():
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            made = Poller()
            nursery.start_soon(made.run)
            listener = socket.create_server(("127.0.0.1", 0))
            with listener, socket.create_connection(listener.getsockname()) as theirs:
                ours, _ = listener.accept()
                with ours:
                    ours.setblocking(False)
                    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    theirs.close()
                    with pytest.raises(ConnectionResetError):
                        await Reading(made, ours).each(Taken())
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("by_taker", [False, True])
async def test_closing_the_socket_wakes_the_reader(reading, nursery, by_taker):
    read, ours, theirs = reading

    def close(_data=b""):
        read.closing()
        ours.close()

    if by_taker:
        theirs.send(b"x")
    else:
        async def soon():
            await trio.testing.wait_all_tasks_blocked()
            close()

        nursery.start_soon(soon)
    with trio.fail_after(60), pytest.raises(trio.ClosedResourceError):
        await read.each(close)
    with pytest.raises(trio.ClosedResourceError):
        await read.each(close)


async def test_what_a_taker_that_closed_the_socket_leaves_is_still_waited_for(reading):
    read, ours, theirs = reading
    done = []

    async def rest():
        done.append(True)

    def take(_data):
        read.closing()
        ours.close()
        return rest()

    theirs.send(b"x")
    with trio.fail_after(60):
        await (await read.each(take))
    assert done == [True]


async def test_a_cancelled_reader_loses_nothing(reading):
    read, _ours, theirs = reading
    taken = Taken()
    with trio.move_on_after(0):
        await read.each(taken)
    theirs.send(b"later")
    await trio.testing.wait_all_tasks_blocked()
    assert taken.got == []
    theirs.close()
    with trio.fail_after(60):
        assert await read.each(taken) is None
    assert taken.got == [b"later"]


async def test_the_poller_that_runs_is_known_while_it_runs():
    assert current() is None
    async with trio.open_nursery() as nursery:
        made = Poller()
        nursery.start_soon(made.run)
        await trio.testing.wait_all_tasks_blocked()
        assert current() is made
        nursery.cancel_scope.cancel()
    assert current() is None
