import os
import socket
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from gw.web.hangups import OFFERED, Hangups

pytestmark = pytest.mark.skipif(not OFFERED, reason="epoll is Linux's")


@contextmanager
def connection():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


class Told:
    def __init__(self):
        self.times = 0
        self.event = trio.Event()

    def __call__(self):
        self.times += 1
        self.event.set()


@pytest.fixture
async def hangups(nursery):
    made = Hangups()
    nursery.start_soon(made.run)
    return made


@pytest.mark.parametrize("how", ["close", "half"])
async def test_a_hang_up_is_told_once_with_bytes_unread(hangups, how):
    with connection() as (ours, theirs):
        told = Told()
        hangups.watch(ours.fileno(), told)
        theirs.send(b"unread")
        if how == "half":
            theirs.shutdown(socket.SHUT_WR)
        else:
            theirs.close()
        with trio.fail_after(5):
            await told.event.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert told.times == 1
        hangups.forget(ours.fileno(), told)


async def test_bytes_alone_are_not_told(hangups):
    with connection() as (ours, theirs), connection() as (other, their_other):
        told, told_of_other = Told(), Told()
        hangups.watch(ours.fileno(), told)
        hangups.watch(other.fileno(), told_of_other)
        theirs.send(b"hello")
        their_other.close()
        with trio.fail_after(5):
            await told_of_other.event.wait()
        assert told.times == 0


async def test_a_forgotten_number_belongs_to_the_next_connection(hangups):
    """A socket is closed before it is forgotten, and its number is given to another."""
    first = Told()
    with connection() as (ours, _theirs):
        number = ours.fileno()
        hangups.watch(number, first)
    with connection() as (ours, theirs):
        if ours.fileno() != number:
            os.dup2(ours.fileno(), number)
            ours.close()
            ours = socket.socket(fileno=number)
        second = Told()
        hangups.watch(number, second)
        hangups.forget(number, first)
        theirs.close()
        with trio.fail_after(5):
            await second.event.wait()
        assert (first.times, second.times) == (0, 1)
        ours.close()
