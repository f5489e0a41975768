"""One call over HTTP: its status, its answer, its end."""

from __future__ import annotations

import pytest
import trio

from gw.errors import ProviderFailed, ProviderUnreachable, UpstreamProtocolError
from gw.net.http1 import Origin, Pool
from gw.providers.http_call import HttpCall, json_lines
from gw.providers.spec import Account, bearer
from gw.types.secret import Secret
from gw.wire import vendor_errors
from tests.fakes.net import FakeNet, ServerSide


class Rig:
    """A server that answers every request with `answer`, or never."""

    def __init__(self, nursery, answer=b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"):
        net = FakeNet(nursery)
        net.hosts["api.test", 80] = self.serve
        self.answer = answer
        self.closed = trio.Event()
        self.pool = Pool(connect=net)

    async def serve(self, stream):
        server = ServerSide(stream)
        while await server.request() is not None:
            if self.answer:
                await server.send(self.answer)
        self.closed.set()

    def call(self, read=lambda response: response):
        origin = Origin.parse("http://api.test")
        account = Account(provider_id="p", model="m", origin=origin, api_key=Secret("sk-never-told"), pool=self.pool)
        return HttpCall(account, b"/x", b"", b"{}", vendor_errors.classify, read)


async def test_a_call_gives_what_is_read_and_keeps_its_connection(nursery, autojump_clock):
    rig = Rig(nursery)
    for _ in range(2):
        async with rig.call(lambda response: (response.status, response)) as (status, response):
            assert (status, await response.read()) == (200, b"hi")
    assert (rig.pool.opened, rig.pool.reused) == (1, 1)


async def test_an_unread_end_is_waited_for_and_an_unread_answer_is_not(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.call():
        pass  # all of it has come: the connection is as good as before
    assert rig.pool.idle == 1
    rig.answer = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi"
    async with rig.call():
        pass
    await rig.closed.wait()
    assert rig.pool.idle == 0


async def test_another_status_is_raised_and_leaves_nothing_open(nursery, autojump_clock):
    rig = Rig(nursery, b"HTTP/1.1 503 No\r\ncontent-length: 13\r\n\r\nsk-never-told")
    with pytest.raises(ProviderFailed) as caught:
        async with rig.call():
            pass
    assert caught.value.upstream_status == 503
    assert "sk-never-told" not in repr(caught.value) + str(caught.value)
    assert rig.pool.in_use == {}


async def test_an_answer_that_cannot_be_read_closes_the_call(nursery, autojump_clock):
    rig = Rig(nursery, b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n<html>")

    def read(response):
        raise UpstreamProtocolError(provider="p", detail="text where audio was expected")

    with pytest.raises(UpstreamProtocolError):
        async with rig.call(read):
            pass
    await rig.closed.wait()
    assert rig.pool.in_use == {}


async def test_an_error_inside_closes_the_upstream(nursery, autojump_clock):
    rig = Rig(nursery, b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhi")
    with pytest.raises(KeyError):
        async with rig.call():
            raise KeyError
    await rig.closed.wait()


async def test_another_task_ends_a_call_that_waits(nursery, autojump_clock):
    rig = Rig(nursery, b"")
    call = rig.call()

    async def wait():
        with pytest.raises(ProviderUnreachable):
            await call.__aenter__()

    async with trio.open_nursery() as waiting:
        waiting.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        call.abort()
    await rig.closed.wait()


def test_the_header_lines_are_made_once_per_account():
    first, second = (
        Account(provider_id="p", model="m", origin=Origin.parse("http://up.example"), api_key=Secret(key), pool=Pool())
        for key in ("k-1", "k-2")
    )
    lines = json_lines(bearer, first, b"*/*")
    assert lines == b"content-type: application/json\r\naccept: */*\r\nauthorization: Bearer k-1\r\n"
    assert json_lines(bearer, first, b"*/*") is lines
    assert json_lines(bearer, second) == b"content-type: application/json\r\nauthorization: Bearer k-2\r\n"
