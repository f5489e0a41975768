"""The host of the fakes: a client that breaks its connection ends that connection only."""

from __future__ import annotations

import errno

import trio

from tests.fakes.serve import serve_asgi


async def _fail_when_cancelled():
    """What a send does that fails just as the client's leaving is noticed."""
    try:
        await trio.sleep_forever()
    finally:
        raise OSError(errno.EPIPE, "the client is gone")


async def test_a_send_that_fails_while_its_client_leaves_does_not_end_the_server():
    failed = 0

    async def app(scope, receive, send):
        nonlocal failed
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"some", "more_body": True})
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_fail_when_cancelled)
                nursery.start_soon(trio.sleep_forever)
        except BaseExceptionGroup:
            failed += 1
            raise

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            address = await nursery.start(serve_asgi, app)
            host, port = address.removeprefix("http://").split(":")
            for n in (1, 2):
                async with await trio.open_tcp_stream(host, int(port)) as stream:
                    await stream.send_all(b"GET / HTTP/1.1\r\nHost: fake\r\n\r\n")
                    assert (await stream.receive_some(12)) == b"HTTP/1.1 200"
                while failed < n:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
