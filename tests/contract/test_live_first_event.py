"""`routing.first_event_s` of a live session: how long a vendor that cannot be reached, or says nothing, is waited for."""

from __future__ import annotations

from contextlib import suppress

import trio

from gw.net.ws import WsClosed
from tests.contract.readers import READERS, Reader, Spoken, receive_speech, send
from tests.contract.talkers import TALKERS, Received, Talker, read
from tests.fakes.hosting import Plane, open_plane

LIMITS_S = (1, 9)
CONFIG = """
providers: {{dg: {{type: deepgram, api_key: k, base_url: "http://vendor.test"}}}}
routing: {{breaker: {{failures: 1000}}, first_event_s: {{stt: {limit}, tts: {limit}}}}}
models: {{stt: [dg/nova-3], tts: [dg/aura-2-thalia-en]}}
"""


async def gives_up(plane: Plane, caller: Talker | Reader) -> float:
    """Return the seconds until the caller gets an error."""
    model = "dg/nova-3" if isinstance(caller, Talker) else "dg/aura-2-thalia-en"
    began = trio.current_time()
    async with caller.open(plane, model) as ws:
        with trio.fail_after(60):
            if isinstance(caller, Talker):
                received = Received()
                for frame in (*caller.begin(model), caller.audio(b"\0\0" * 640)):
                    await ws.send(frame)
                with suppress(WsClosed):
                    await read(caller, ws, received)
                said = [*received.errors, received.reason]
            else:
                spoken = Spoken()
                await send(ws, [*caller.begin(model), *caller.say("Hi."), *caller.end], model)
                await receive_speech(caller, ws, spoken)
                said = [*spoken.errors, spoken.reason]
    assert any("dg: " in text for text in said), (caller.name, said)
    return trio.current_time() - began


async def test_a_vendor_whose_packets_vanish(tmp_path, autojump_clock):
    cells = 0
    for limit in LIMITS_S:
        async with open_plane(CONFIG.format(limit=limit), tmp_path) as plane:
            plane.net.dark.add("vendor.test")
            for caller in (*TALKERS, *READERS):
                took_s = await gives_up(plane, caller)
                assert limit - 0.01 <= took_s < limit + 1, (caller.name, limit, took_s)
                cells += 1
    assert cells == len(LIMITS_S) * (len(TALKERS) + len(READERS)) == 28
