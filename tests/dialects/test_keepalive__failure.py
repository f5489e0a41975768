from __future__ import annotations

import trio

from gw.dialects.keepalive import KeepAlive, SseResponse


async def test_events_wait_for_a_comment_being_sent(autojump_clock, nursery):
    """A candidate may fail at the moment a comment goes out: its error must not be taken for a client that is stuck."""
    sent = []

    async def send(message):
        await trio.sleep(0.3)
        sent.append(message)

    keepalive = KeepAlive(every_s=2)
    nursery.start_soon(keepalive.run)
    response = SseResponse(send, [(b"x-request-id", b"r1")])
    keepalive.watch(response)
    await trio.sleep(2.2)
    assert response.started
    keepalive.forget(response)
    await response.write(b"data: failed\n\n", more=False)
    head, comment, error = sent
    assert (b"x-request-id", b"r1") in head["headers"]
    assert comment["body"].startswith(b": ")
    assert error["body"] == b"data: failed\n\n"
    nursery.cancel_scope.cancel()
