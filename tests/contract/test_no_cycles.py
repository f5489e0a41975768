"""What a caller has used to its end waits for no collection of cycles: they are rare, and sessions hold buffers."""

from __future__ import annotations

import gc
import json
from contextlib import suppress

import trio
import trio.testing

from gw.net.http1 import Origin
from gw.net.ws import WsClosed, open_ws
from tests.fakes.running import open_running

YAML = """
providers: {sim: {latency_ms: 0}}
models: {llm: [sim/echo], tts: [sim/tone], stt: [sim/tone]}
"""
LISTEN = b"/v1/listen?model=sim/tone&encoding=linear16&sample_rate=16000"
SPEAK = b"/v1/speak?model=sim/tone&encoding=linear16&sample_rate=16000"
TEXT = "one two three"


async def chat(running):
    body = {"model": "sim/echo", "stream": True, "messages": [{"role": "user", "content": TEXT}]}
    assert (await running.ask("POST", "/v1/chat/completions", body)).status == 200


async def speech(running):
    body = {"model": "sim/tone", "input": TEXT, "voice": "alloy", "response_format": "pcm"}
    assert (await running.ask("POST", "/v1/audio/speech", body)).status == 200


async def until_closed(ws):
    with suppress(WsClosed):
        while True:
            await ws.receive()


async def listen(running):
    async with open_ws("client", Origin.parse(running.url), LISTEN, connect=running.client.connect) as ws:
        await ws.send(b"\0\1" * 1_600)
        await ws.send('{"type":"CloseStream"}')
        await until_closed(ws)


async def speak(running):
    async with open_ws("client", Origin.parse(running.url), SPEAK, connect=running.client.connect) as ws:
        await ws.send(json.dumps({"type": "Speak", "text": TEXT}))
        await ws.send('{"type":"Flush"}')
        while "Flushed" not in str(await ws.receive()):
            pass
        await ws.send('{"type":"Close"}')
        await until_closed(ws)


async def settled(running):
    """Wait until the gateway has noticed that its clients have left."""
    with trio.fail_after(60):
        while running.gateway.relay.in_flight.requests:
            await trio.lowlevel.checkpoint()
    await trio.testing.wait_all_tasks_blocked(0.02)


async def test_requests_and_sessions_leave_no_cycles(tmp_path):
    async with open_running(tmp_path, YAML) as running:
        found = {}
        for use in (chat, speech, listen, speak):
            await use(running)  # imports, caches
            await settled(running)
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                for _ in range(3):
                    await use(running)
                await settled(running)
                gc.collect()
                kinds = {type(thing).__module__ + "." + type(thing).__name__ for thing in gc.garbage}
                found[use.__name__] = sorted(kind for kind in kinds if kind.startswith("gw."))
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
    assert {name: kinds for name, kinds in found.items() if kinds} == {}
