"""A socket dialled ahead, against a server that counts its handshakes."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from gw.errors import ProviderUnreachable, UpstreamCut
from gw.net.http1 import Origin
from gw.net.prewarm import DIAL_S, IDLE_S, PrewarmedSockets, open_warm
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet, black_hole

ORIGIN = Origin.parse("http://up.example")


class Echo:
    """A WebSocket server; `handshake_s` before it accepts."""

    def __init__(self):
        self.handshake_s, self.accepted, self.left = 0.3, [], 0

    async def __call__(self, scope, receive, send):
        await receive()
        await trio.sleep(self.handshake_s)
        await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
        self.accepted.append(scope["path"])
        try:
            await send({"type": "websocket.send", "text": "hello"})
            while (message := await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": message["text"]})
        finally:
            self.left += 1


@pytest.fixture
def line():
    """Opens sockets by way of one session's spares."""

    @asynccontextmanager
    async def made():
        async with trio.open_nursery() as servers:
            net, echo = FakeNet(servers), Echo()
            net.hosts["up.example", 80] = hosted(echo)
            async with trio.open_nursery() as session:
                spares = PrewarmedSockets(session)

                def opened(path=b"/a", key=b"k", connect=net):
                    return open_warm(spares, "up", ORIGIN, path, headers=[(b"x-key", key)], connect=connect)

                yield opened, echo, net
                session.cancel_scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert (net.open, net.live) == (0, 0)
            servers.cancel_scope.cancel()

    return made


async def say(ws, text):
    """The server's greeting is kept for whoever uses the socket."""
    assert await ws.receive() == "hello"
    await ws.send(text)
    assert await ws.receive() == text


async def test_the_next_one_is_there_already(line, autojump_clock):
    async with line() as (opened, echo, _):
        for n, expected_s in enumerate((0.3, 0.0, 0.0)):
            began = trio.current_time()
            async with opened() as ws:
                assert trio.current_time() - began == pytest.approx(expected_s)
                await say(ws, f"{n}")
            await trio.sleep(5)
        assert (len(echo.accepted), echo.left) == (4, 3)


async def test_after_a_caller_was_cancelled_another_is_dialled(line, autojump_clock):
    async with line() as (opened, echo, _):
        with trio.move_on_after(1):
            async with opened():
                await trio.sleep_forever()
        await trio.sleep(1)
        assert (len(echo.accepted), echo.left) == (2, 1)


async def test_a_socket_that_is_not_replaced(autojump_clock):
    """It is dialled ahead once."""
    echo = Echo()
    async with trio.open_nursery() as servers:
        net = FakeNet(servers)
        net.hosts["up.example", 80] = hosted(echo)
        async with trio.open_nursery() as session:
            spares = PrewarmedSockets(session, replaces=False)
            spares.dial(("up", ORIGIN, b"/a", ()), net)
            await trio.sleep(1)
            async with open_warm(spares, "up", ORIGIN, b"/a", headers=[], connect=net) as ws:
                await say(ws, "x")
            await trio.sleep(1)
            assert (len(echo.accepted), echo.left) == (1, 1)
        servers.cancel_scope.cancel()


async def test_after_a_failure_none_is_dialled(line, autojump_clock):
    async with line() as (opened, echo, _):
        with pytest.raises(UpstreamCut):
            async with opened():
                raise UpstreamCut(provider="up", detail="scripted")
        await trio.sleep(1)
        assert len(echo.accepted) == 1


@pytest.mark.parametrize("other", [{"path": b"/b"}, {"key": b"another"}])
async def test_another_address_or_key_gets_its_own(line, other, autojump_clock):
    async with line() as (opened, echo, _):
        async with opened() as ws:
            await say(ws, "a")
        await trio.sleep(1)
        async with opened(**other) as ws:
            await say(ws, "b")
        await trio.testing.wait_all_tasks_blocked()
        assert len(echo.accepted) == 3


async def test_it_is_closed_when_it_has_idled_for_long(line, autojump_clock):
    async with line() as (opened, echo, net):
        async with opened() as ws:
            await say(ws, "a")
        await trio.sleep(IDLE_S + 1)
        assert (echo.left, net.open) == (2, 0)


async def test_a_vendor_that_cannot_be_reached_is_met_when_it_is_needed(line, autojump_clock):
    async with line() as (opened, _, net):
        async with opened() as ws:
            await say(ws, "a")
            net.hosts.clear()
        await trio.sleep(1)
        with pytest.raises(ProviderUnreachable):
            async with opened():
                raise AssertionError


async def test_a_handshake_without_an_end_is_given_up(line, autojump_clock):
    async with line() as (opened, echo, _):
        async with opened() as ws:
            await say(ws, "a")
            echo.handshake_s = 3_600
        await trio.sleep(1)
        began = trio.current_time()
        echo.handshake_s = 0.3
        async with opened() as ws:
            await say(ws, "b")
        assert trio.current_time() - began == pytest.approx(DIAL_S - 1 + 0.3)


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.3, 0.31, 2.0])
async def test_whoever_is_cancelled_while_it_waits_leaves_nothing(line, after_s, autojump_clock):
    async with line() as (opened, _, net):
        async with opened() as ws:
            await say(ws, "a")
        with trio.move_on_after(after_s):
            async with opened():
                await trio.sleep_forever()
        await trio.sleep(IDLE_S + 5)
        assert net.open == 0


async def test_without_spares_it_is_an_ordinary_socket(line, autojump_clock):
    async with line() as (_, echo, net):
        async with open_warm(None, "up", ORIGIN, b"/a", headers=[], connect=net) as ws:
            await say(ws, "a")
        await trio.sleep(1)
        assert len(echo.accepted) == 1


async def test_the_session_ends_while_one_is_being_dialled(autojump_clock):
    with trio.fail_after(1):
        async with trio.open_nursery() as session:
            PrewarmedSockets(session).dial(("up", ORIGIN, b"/a", ()), black_hole)
            await trio.testing.wait_all_tasks_blocked()
            session.cancel_scope.cancel()
    assert session.cancel_scope.cancelled_caught
