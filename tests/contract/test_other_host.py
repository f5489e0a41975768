"""The gateway's app needs no host of its own kind: another ASGI server can run it."""

from __future__ import annotations

import msgspec
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from gw.dialects.data_plane import DataPlane
from gw.net.http1 import Origin, Pool
from gw.web.app import as_app, make_dispatch
from gw.web.drain import Drain
from tests.fakes.temporary_gateway import open_test_gateway

CHAT = {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}


async def test_hypercorn_runs_the_same_app(tmp_path):
    config, client, stop = Config(), Pool(), trio.Event()
    config.bind, config.errorlog = ["127.0.0.1:0"], None
    async with open_test_gateway(tmp_path) as gateway, trio.open_nursery() as nursery:
        plane = DataPlane(gateway)
        nursery.start_soon(plane.run)
        app = as_app(make_dispatch(gateway, plane, plane.serves, Drain()))
        (url,) = await nursery.start(lambda task_status: serve(app, config, shutdown_trigger=stop.wait, task_status=task_status))

        async def ask(method, path, body=b""):
            fields = [(b"content-type", b"application/json")]
            async with client.open("client", method, Origin.parse(url), path, fields, body) as response:
                assert len(response.header(b"x-request-id")) == 32
                return response.status, msgspec.json.decode(await response.read())

        with trio.fail_after(60):
            status, health = await ask(b"GET", b"/health")
            assert (status, health["status"]) == (200, "ok")
            assert (await ask(b"POST", b"/v1/projects", b'{"project_id": "new"}'))[0] == 200
            status, answer = await ask(b"POST", b"/v1/chat/completions", msgspec.json.encode(CHAT))
            assert (status, answer["choices"][0]["message"]["content"]) == (200, "hi")
        await client.aclose()
        stop.set()
        nursery.cancel_scope.cancel()
