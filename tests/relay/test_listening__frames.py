"""Control frames of a caller: a vendor gets those of the protocol that it is called by, and the record names all others."""

from __future__ import annotations

import pytest
import trio

from gw.types.audio import PCM_16K
from gw.types.ids import Caller
from gw.types.stt import ListenRequest
from gw.wire import cartesia_listen, deepgram_listen
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram

CONFIG = """
providers: {{v: {{type: {type}, base_url: "http://v.test", api_key: k}}}}
models: {{stt: [v/{model}]}}
"""
TURN = '{"type":"config","turn":{"end_timeout_ms":900}}'
CONFIGURE = '{"type":"Configure","keyterms":["gw"]}'


@pytest.mark.parametrize(
    ("type_", "model", "options", "frame", "noted"),
    [
        ("cartesia", "ink-2", (cartesia_listen.BY_TURNS,), TURN, ()),
        ("cartesia", "ink-whisper", (cartesia_listen.BY_TURNS,), TURN, ("config",)),
        ("deepgram", "flux-general-en", (deepgram_listen.BY_TURNS,), CONFIGURE, ()),
        ("deepgram", "nova-3", (deepgram_listen.BY_TURNS,), CONFIGURE, ("Configure",)),
        ("deepgram", "flux-general-en", (), CONFIGURE, ("Configure",)),
        ("deepgram", "nova-3", (), CONFIGURE, ()),
    ],
)
@pytest.mark.parametrize("early", [True, False])
async def test_a_frame_is_sent_or_noted(type_, model, options, frame, noted, early, tmp_path, autojump_clock):
    async with open_plane(CONFIG.format(type=type_, model=model), tmp_path) as plane:
        vendor = {"cartesia": FakeCartesia, "deepgram": FakeDeepgram}[type_](api_key="k")
        plane.net.hosts["v.test", 80] = hosted(vendor)
        request = ListenRequest(model=f"v/{model}", format=PCM_16K, dialect=type_, options=options)
        async with plane.gateway.relay.listen(request, Caller()) as session, trio.open_nursery() as nursery:
            if not early:
                await trio.sleep(0.5)
            await session.send_frame(frame)
            await session.send_audio(bytes(3_200))
            await trio.sleep(0.5)
            nursery.start_soon(session.finish)
            while not session.done:
                await session.receive()
        (attempt,) = plane.kept.record.attempts
        assert attempt.ignored_settings == noted
        assert (frame in vendor.ledger[0].frames) == (not noted)
