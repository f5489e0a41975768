"""A request's head is let go while its answer streams for long, and kept otherwise."""

from __future__ import annotations

import gc

import pytest
import trio

from gw.web.http_server_head import Head
from gw.web.long_answers import LONG_S
from tests.fakes.edge import open_host, request


def scopes(path: bytes) -> int:
    """Return the number of connections that keep the head of a request to `path`."""
    return sum(type(head) is Head and head.raw_path == path and head.scope is not None for head in gc.get_objects())


@pytest.mark.parametrize(("streams_s", "is_kept"), [(LONG_S / 2, True), (2.5 * LONG_S, False)])
async def test_an_answer_that_streams_for_long_lets_its_head_go(autojump_clock, streams_s, is_kept):
    known, kept, path = [], [], b"/streams/%d" % (streams_s * 100)

    async def app(scope, receive, send):
        known.append(scope["gw.known"].setdefault("by", len(known)))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await trio.sleep(streams_s)
        kept.append(scopes(path))
        assert dict(scope["headers"])[b"content-length"] == b"8"  # the app's own
        await send({"type": "http.response.body", "body": b" last"})

    async with open_host(app) as host:
        for _ in range(3):
            await host.client.send(request("POST", path.decode(), b"a prompt"))
            assert (await host.client.response()).body == b"first last"
            await trio.sleep(3 * LONG_S)  # nothing is let go between two requests
    assert known == [0, 0, 0]
    assert kept == [1 if is_kept else 0] * 3


async def test_an_answer_that_was_cut_lets_its_head_go(autojump_clock):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        raise OSError("the provider broke off")

    async with open_host(app) as host:
        await host.client.send(request("POST", "/cut"))
        with trio.fail_after(60):
            await host.done.wait()
        await trio.sleep(3 * LONG_S)
        assert scopes(b"/cut") == 0
