"""A session that lasts for hours: what is said in it costs the same at its end as at its beginning, whoever the vendor is."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest
import trio

from gw.types.audio import PCM_16K, AudioFormat
from gw.types.ids import Caller
from gw.types.stt import Final, ListenRequest
from gw.types.tts import Flushed, SpeakLiveRequest
from tests.fakes.bytecodes import Counted, counted_bytecodes
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.inworld import FakeInworld
from tests.fakes.vendors.rime import FakeRime
from tests.relay.test_listening__silence import FAKES, PAUSES, RATE, Spoken, config

VOICES = {
    "cartesia": (FakeCartesia, "sonic-3"), "deepgram": (FakeDeepgram, "aura-2"), "elevenlabs": (FakeElevenLabs, "eleven_flash_v2_5"),
    "inworld": (FakeInworld, "inworld-tts-1"), "rime": (FakeRime, "mistv3"),
}  # fmt: skip
SPEECH = """
providers: {own: {type: %s, api_key: k, base_url: "http://own.test"}}
models: {tts: {own/%s: {price: {unit: 1M_characters, usd: 20}}}}
"""
EARLY, LATE = range(20, 27), range(150, 157)
"""Utterances that are measured. Before the first of them, what is kept of a session reaches its bounds.

How often a task wakes up for the same utterance depends on trio's shuffled order of tasks, so the least of several is compared:
single utterances differ by up to 3 %.
"""
MOST = 1.03
FINALS_S = 2.0
"""From the end of speech to its final transcript at the latest, where the fake has no setting for it."""


def measured(utterance: int) -> AbstractContextManager[Counted]:
    return counted_bytecodes() if utterance in EARLY or utterance in LATE else nullcontext(Counted())


def assert_costs_stay(costs: list[int]) -> None:
    early, late = costs[EARLY.start : EARLY.stop], costs[LATE.start : LATE.stop]
    assert 0 < min(late) < MOST * min(early), (early, late)


@pytest.mark.parametrize("vendor", VOICES)
async def test_a_sentence(vendor, tmp_path, autojump_clock):
    fake, model = VOICES[vendor]
    costs = []
    async with open_plane(SPEECH % (vendor, model), tmp_path) as plane:
        plane.net.hosts["own.test", 80] = hosted(fake(api_key="k"))
        request = SpeakLiveRequest(model=f"own/{model}", voice="v", format=PCM_16K)
        async with plane.gateway.relay.speak_live(request, Caller()) as session:
            for number in range(LATE.stop):
                with measured(number) as counted:
                    for text in (f"This is {100 + number} ", "of the things that ", "I want to say. "):
                        await session.send_text(text)
                    await session.flush()
                    while not any(isinstance(event, Flushed) for event in await session.receive()):
                        pass
                costs.append(counted.count)
            await session.finish()
            while not session.done:
                await session.receive()
    assert_costs_stay(costs)


@pytest.mark.parametrize("vendor", FAKES)
async def test_an_utterance_that_the_caller_ends(vendor, tmp_path, autojump_clock):
    costs, finals = [], 0
    pauses = PAUSES.get(vendor, {})
    frames = Spoken(said=["one"], lead_s=0, pause_s=max(pauses.values(), default=FINALS_S) + 1, after_s=0).frames

    async def read():
        nonlocal finals
        while not session.done:
            finals += sum(isinstance(event, Final) for event in await session.receive())

    async with open_plane(config(vendor, ""), tmp_path) as plane:
        plane.net.hosts["first.test", 80] = hosted(FAKES[vendor](api_key="k", **pauses))
        request = ListenRequest(model="default", format=AudioFormat(encoding="pcm_s16le", sample_rate_hz=RATE))
        async with plane.gateway.relay.listen(request, Caller()) as session, trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for number in range(LATE.stop):
                began = trio.current_time()
                with measured(number) as counted:
                    for index, (at_s, frame) in enumerate(frames):
                        await trio.sleep_until(began + at_s + len(frame) / 2 / RATE)
                        await session.send_audio(frame)
                        if index == len(frames) // 2:
                            await session.flush()
                costs.append(counted.count)
            await session.finish()
    assert finals >= LATE.stop - 1
    assert_costs_stay(costs)
