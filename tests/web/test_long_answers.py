"""A request's head is let go while its answer streams for long, and kept otherwise."""

from __future__ import annotations

import gc

import pytest
import trio

from gw.web.http_server_head import Head
from gw.web.long_answers import LONG_S
from tests.fakes.edge import open_host, request


@pytest.mark.parametrize(("streams_s", "is_kept"), [(LONG_S / 2, True), (2.5 * LONG_S, False)])
async def test_an_answer_that_streams_for_long_lets_its_head_go(autojump_clock, streams_s, is_kept):
    known, fields, path = [], [], b"/streams/%d" % (streams_s * 100)

    async def app(scope, receive, send):
        known.append(scope["gw.known"].setdefault("by", len(known)))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await trio.sleep(streams_s)
        fields.append([head.headers for head in gc.get_objects() if isinstance(head, Head) and head.raw_path == path])
        assert dict(scope["headers"])[b"content-length"] == b"8"  # the app's own
        await send({"type": "http.response.body", "body": b" last"})

    async with open_host(app) as host:
        for _ in range(3):
            await host.client.send(request("POST", path.decode(), b"a prompt"))
            assert (await host.client.response()).body == b"first last"
            await trio.sleep(3 * LONG_S)  # nothing is let go between two requests
    assert known == ([0, 0, 0] if is_kept else [0, 1, 2])
    assert all(any(headers) is is_kept for headers in fields)


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
        assert not [head for head in gc.get_objects() if isinstance(head, Head) and head.raw_path == b"/cut" and head.headers]
