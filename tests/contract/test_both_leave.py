"""A caller and a vendor that leave in the same instant: the caller has left, and nothing else went wrong."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import trio

from gw.net.ws import open_ws
from tests.fakes.hosting import GATEWAY, hosted, open_plane

CONFIG = """
providers: {deepgram: {api_key: k, base_url: "http://vendor.test"}}
models: {tts: [deepgram/aura-2-thalia-en]}
"""
TARGET = b"/v1/speak?model=deepgram/aura-2-thalia-en&encoding=linear16"
STEPS = range(16)


async def pass_steps(count: int) -> None:
    for _ in range(count):
        await trio.lowlevel.checkpoint()


def leaving_vendor(at: float, steps: int) -> Any:
    """Return a vendor that takes a session, and leaves so many steps of the scheduler after `at`."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                while (await receive())["type"] != "websocket.disconnect":
                    pass

            nursery.start_soon(read)
            await trio.sleep_until(at)
            await pass_steps(steps)
            await send({"type": "websocket.close", "code": 1011, "reason": "gone"})
            nursery.cancel_scope.cancel()

    return app


async def test_live_speech(tmp_path, autojump_clock):
    seen: Counter[tuple[str, str | None]] = Counter()
    for vendor, caller in product(STEPS, (0, 3, 9)):
        async with open_plane(CONFIG, tmp_path) as plane:
            at = trio.current_time() + 0.3
            plane.net.hosts["vendor.test", 80] = hosted(leaving_vendor(at, vendor))
            async with open_ws("client", GATEWAY, TARGET, headers=[], connect=plane.client.connect) as ws:
                await ws.send('{"type":"Speak","text":"Hello there."}')
                await ws.send('{"type":"Flush"}')
                await trio.sleep_until(at)
                await pass_steps(caller)
            await trio.sleep(5)
            seen[plane.kept.record.status, plane.kept.record.error_code] += 1
    assert seen.total() == 48
    assert seen.keys() <= {("cancelled", None), ("error", "upstream_failed")}
