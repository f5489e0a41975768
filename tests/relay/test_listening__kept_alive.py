"""An app that sends no audio for long, as one whose caller is on hold does, keeps its session with every vendor."""

from __future__ import annotations

import pytest
import trio

from gw.types.audio import AudioFormat
from gw.types.ids import Caller
from gw.types.stt import Final, ListenRequest
from tests.fakes.hosting import hosted, open_plane
from tests.relay.test_listening__silence import FAKES, PAUSES, RATE, Spoken, config

ON_HOLD_S = 65.0
"""Longer than any vendor keeps a session without audio."""


@pytest.mark.parametrize("vendor", FAKES)
async def test_no_audio_for_a_minute(vendor, tmp_path, autojump_clock):
    async with open_plane(config(vendor, ""), tmp_path) as plane:
        fake = FAKES[vendor](**PAUSES[vendor])
        plane.net.hosts["first.test", 80] = hosted(fake)
        request = ListenRequest(model="default", format=AudioFormat(encoding="pcm_s16le", sample_rate_hz=RATE))
        finals = []

        async def talk(session):
            for said in (["one two three"], ["four five"]):
                began = trio.current_time()
                for at_s, frame in Spoken(said, pause_s=6.0).frames:
                    await trio.sleep_until(began + at_s + len(frame) / 2 / RATE)
                    await session.send_audio(frame)
                await trio.sleep(ON_HOLD_S)
            await session.finish()

        async with plane.gateway.relay.listen(request, Caller()) as session, trio.open_nursery() as nursery:
            nursery.start_soon(talk, session)
            while not session.done:
                finals += [event.text for event in await session.receive() if isinstance(event, Final)]
        assert " ".join(finals).split() == ["one", "two", "three", "four", "five"]
        assert [attempt.outcome for attempt in plane.kept.record.attempts] == ["ok"]


async def test_a_keep_alive_that_cannot_be_sent_ends_the_attempt_at_once(tmp_path, autojump_clock):
    async with open_plane(config("deepgram", "assemblyai"), tmp_path) as plane:
        for host, vendor in (("first.test", "deepgram"), ("second.test", "assemblyai")):
            plane.net.hosts[host, 80] = hosted(FAKES[vendor](**PAUSES[vendor]))
        request = ListenRequest(model="default", format=AudioFormat(encoding="pcm_s16le", sample_rate_hz=RATE))
        async with plane.gateway.relay.listen(request, Caller()) as session:
            await trio.sleep(1)
            (transport,) = plane.net.transports
            transport.unsendable = True
            began = trio.current_time()
            await trio.sleep(30)
            assert transport.aborted_at is not None
            assert transport.aborted_at - began < 4.2  # the next keep-alive was due after five seconds of silence, of which one was over
            assert session.call is not None
            assert session.call.provider.id == "second"
            await session.finish()
            while not session.done:
                await session.receive()
        assert [attempt.outcome for attempt in plane.kept.record.attempts] == ["cut", "ok"]
