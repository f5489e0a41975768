"""Live speech through the relay: every word is spoken once, whatever becomes of a provider."""

from __future__ import annotations

import pytest
import trio

from gw.errors import ProviderError
from gw.providers.sim import fsk
from gw.providers.sim.call import SimCall
from gw.types.audio import MULAW_8K, PCM_16K
from gw.types.ids import Caller
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest
from gw.wire import g711
from tests.fakes.hosting import open_plane

CONFIG = """
providers:
  bad: {type: sim, %s}
  good: {type: sim}
models: {tts: {bad/tone: {price: {unit: 1M_characters, usd: 10}}, good/tone: {price: {unit: 1M_characters, usd: 20}}}}
fallbacks: {tts: [bad/tone, good/tone]}
"""
SAID = ["Hello there. ", "How are ", "you? ", "Good bye."]


@pytest.fixture
def plane(tmp_path):
    def opened(knobs=""):
        return open_plane(CONFIG % (knobs or "latency_ms: 0"), tmp_path)

    return opened


async def write(session, pieces, gap_s=0.1):
    for piece in pieces:
        if piece is None:
            await session.flush()
        else:
            await session.send_text(piece)
        await trio.sleep(gap_s)
    await session.finish()


async def spoken(plane, pieces, *, caller=None, **fields):
    events = []
    request = SpeakLiveRequest(**{"model": "bad/tone", "format": PCM_16K, **fields})
    async with plane.gateway.relay.speak_live(request, caller or Caller()) as session, trio.open_nursery() as nursery:
        nursery.start_soon(write, session, pieces)
        while not session.done:
            events += await session.receive()
    return events


def audio(events):
    return b"".join(event.data for event in events if isinstance(event, AudioChunk))


def words(pcm, rate=16_000):
    return " ".join(done.text for done in fsk.decode(pcm, rate))


async def test_a_session_from_end_to_end(plane, autojump_clock):
    async with plane() as made:
        events = await spoken(made, [*SAID, None])
        assert words(audio(events)) == "Hello there. How are you? Good bye."
        assert isinstance(events[-1], SpeakEnd)
        assert sum(isinstance(event, Flushed) for event in events) == 1
        record = made.kept.record
        characters = len("".join(SAID))
        assert (record.status, record.modality, record.usage.characters) == ("success", "tts", characters)
        assert record.cost_nusd == characters * 10_000


@pytest.mark.parametrize("fault", ["503", "429", "refused", "slow"])
async def test_one_that_does_not_begin_is_passed_over(plane, fault, autojump_clock):
    async with plane(f"fail_rate: 1, fail_with: {fault}") as made:
        events = await spoken(made, SAID)
        assert words(audio(events)) == "Hello there. How are you? Good bye."
        assert [a.outcome == "ok" for a in made.kept.record.attempts] == [False, True]


@pytest.mark.parametrize("cut", range(0, 12))
async def test_one_that_breaks_off_is_gone_on_from(plane, cut, autojump_clock):
    """Cut after any piece of audio: no sentence is lost, and none that was heard whole is spoken again by the next."""
    async with plane(f"cut_after: {cut}") as made:
        pieces = [piece for text in ("One. ", "Two. ", "Three. ", "Four. ") for piece in (text, None)]
        events = await spoken(made, pieces)
        said = words(audio(events)).split()
        assert sorted(set(said), key=["One.", "Two.", "Three.", "Four."].index) == ["One.", "Two.", "Three.", "Four."]
        record = made.kept.record
        if record.status == "success":
            return
        assert [a.outcome for a in record.attempts] == ["cut", "ok"]
        first, second = record.attempts
        assert record.cost_nusd == (first.cost_nusd or 0) + (second.cost_nusd or 0)
        assert (first.characters or 0) + second.characters == record.usage.characters
        flushed = sum(isinstance(event, Flushed) for event in events)
        assert flushed == 4


async def test_one_that_owes_speech_and_gives_none(plane, autojump_clock):
    async with plane("token_ms: 600000, latency_ms: 600000") as made:
        events = await spoken(made, ["Hello. ", None])
        assert words(audio(events)) == "Hello."
        assert [a.outcome for a in made.kept.record.attempts] == ["too_slow", "ok"]


async def test_a_pause_of_the_writer_is_no_fault_of_the_speaker(plane, autojump_clock):
    async with plane() as made:
        request = SpeakLiveRequest(model="bad/tone", format=PCM_16K)
        events = []

        async def slowly(session):
            await session.send_text("One. ")
            await session.flush()
            await trio.sleep(120)
            await session.send_text("Two.")
            await session.finish()

        async with made.gateway.relay.speak_live(request, Caller()) as session, trio.open_nursery() as nursery:
            nursery.start_soon(slowly, session)
            while not session.done:
                events += await session.receive()
        assert words(audio(events)) == "One. Two."
        assert made.kept.record.status == "success"


async def test_an_interruption_drops_what_was_not_spoken(plane, autojump_clock):
    async with plane("token_ms: 40") as made:
        request = SpeakLiveRequest(model="bad/tone", format=PCM_16K)
        heard = b""
        async with made.gateway.relay.speak_live(request, Caller()) as session:
            await session.send_text("A very long sentence that nobody will hear to its end. ")
            await session.flush()
            heard += audio(await session.receive())
            await session.clear()
            await session.send_text("Sorry.")
            await session.finish()
            while not session.done:
                heard += audio(await session.receive())
        assert words(heard) == "Sorry."


async def test_the_caller_leaves(plane, autojump_clock):
    async with plane("token_ms: 40") as made:
        with trio.move_on_after(1.5):
            await spoken(made, ["A very long sentence that nobody will hear to its end. ", None])
        record = made.kept.record
        assert record.status == "cancelled"
        assert record.usage.characters == 55
        assert record.cost_nusd == 550_000


async def test_in_the_callers_own_format(plane, autojump_clock):
    async with plane() as made:
        events = await spoken(made, ["Hello."], format=MULAW_8K)
        assert words(g711.mulaw_to_pcm16(audio(events)), 8_000) == "Hello."


async def test_nobody_left(plane, autojump_clock):
    async with plane("fail_rate: 1, fail_with: 503") as made:
        with pytest.raises(ProviderError):
            await spoken(made, SAID, caller=Caller(fallback=False))
        assert made.kept.record.status == "error"


async def test_a_slow_beginning_after_a_pause_is_no_silence_in_mid_speech(plane, monkeypatch, autojump_clock):
    """The listener hears nothing in either case; until `routing.first_event_s` the provider may think."""
    step = SimCall.step
    slow_at = []

    async def slowly(call):
        if trio.current_time() > 5 and not slow_at:
            slow_at.append(trio.current_time())
            await trio.sleep(2.5)
        await step(call)

    monkeypatch.setattr(SimCall, "step", slowly)
    async with plane("token_ms: 30") as made:
        request = SpeakLiveRequest(model="bad/tone", format=PCM_16K)
        events = []

        async def converse(session):
            await session.send_text("One two three. ")
            await session.flush()
            await trio.sleep(10)
            await session.send_text("Four five six.")
            await session.finish()

        async with made.gateway.relay.speak_live(request, Caller()) as session, trio.open_nursery() as nursery:
            nursery.start_soon(converse, session)
            while not session.done:
                events += await session.receive()
        assert slow_at
        assert words(audio(events)) == "One two three. Four five six."
        assert [a.outcome for a in made.kept.record.attempts] == ["ok"]
