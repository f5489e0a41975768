from __future__ import annotations

import pytest
import trio

from gw.dialects.keepalive import KeepAlive, SseResponse


class Wire:
    """An ASGI `send` that notes what it was given; `stuck` = the client does not read."""

    def __init__(self) -> None:
        self.messages: list[dict] = []
        self.stuck = False

    async def __call__(self, message):
        if self.stuck:
            await trio.sleep_forever()
        self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return [m["body"] for m in self.messages if m["type"] == "http.response.body"]


async def test_a_waiting_stream_gets_a_head_and_comments_and_then_its_content(autojump_clock, nursery):
    keepalive = KeepAlive(every_s=3)
    nursery.start_soon(keepalive.run)
    wire = Wire()
    response = SseResponse(wire)
    keepalive.watch(response)
    await trio.sleep(10)
    keepalive.forget(response)
    await response.begin([(b"x-gw-model", b"a/x")])
    await response.write(b"data: 1\n\n", more=False)
    assert wire.messages[0]["type"] == "http.response.start"
    assert len([m for m in wire.messages if m["type"] == "http.response.start"]) == 1
    assert 3 <= len(wire.bodies) <= 4
    assert all(b.startswith(b": ") for b in wire.bodies[:-1])
    assert wire.bodies[-1] == b"data: 1\n\n"
    nursery.cancel_scope.cancel()


async def test_a_quick_stream_sees_no_comment_and_its_own_headers(autojump_clock, nursery):
    keepalive = KeepAlive(every_s=3)
    nursery.start_soon(keepalive.run)
    wire = Wire()
    response = SseResponse(wire)
    keepalive.watch(response)
    await trio.sleep(1)
    keepalive.forget(response)
    await response.begin([(b"x-gw-model", b"a/x")])
    await trio.sleep(30)
    await response.write(b"", more=False)
    assert (b"x-gw-model", b"a/x") in wire.messages[0]["headers"]
    assert wire.bodies == [b""]
    nursery.cancel_scope.cancel()


async def test_a_client_that_does_not_read_holds_up_nobody_else(autojump_clock, nursery):
    keepalive = KeepAlive(every_s=3)
    nursery.start_soon(keepalive.run)
    stuck, good = Wire(), Wire()
    stuck.stuck = True
    stuck_response = SseResponse(stuck)
    keepalive.watch(stuck_response)
    keepalive.watch(SseResponse(good))
    await trio.sleep(12)
    assert len(good.bodies) >= 2
    with pytest.raises(ConnectionAbortedError):
        await stuck_response.write(b"data: 1\n\n")
    nursery.cancel_scope.cancel()
