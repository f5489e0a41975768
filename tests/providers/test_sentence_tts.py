"""Live speech of Piper and Kokoro, made of whole sentences."""

from __future__ import annotations

import pytest
import trio

from gw.errors import ProviderError, ProviderFailed, UpstreamCut
from gw.providers import kokoro, piper
from gw.types.audio import PCM_16K, PCM_24K
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest
from tests.fakes.hosting import hosted
from tests.fakes.vendors.piper import FakePiper

SOUND = bytes(range(200)) * 24
FIRST, SECOND = "This is the first sentence. ", "And this here is the second one."


@pytest.fixture
def server(net):
    fake = FakePiper(speech_pcm=SOUND, rate_hz=24_000)
    net.hosts["127.0.0.1", 5_000] = hosted(fake)
    return fake


@pytest.fixture
def opened(account_at, server):
    def make(fmt=PCM_24K):
        return piper.SPEC.speak_live(SpeakLiveRequest(model="m", voice="v", format=fmt), account_at("piper"))

    return make


def texts(server):
    return [entry.fields["text"] for entry in server.ledger]


async def read(session, until=SpeakEnd):
    events = []
    while not events or not isinstance(events[-1], until):
        events += await session.receive()
    return b"".join(e.data for e in events if isinstance(e, AudioChunk)), [type(e) for e in events if not isinstance(e, AudioChunk)]


async def test_a_sentence_is_spoken_when_it_is_complete(opened, server, autojump_clock):
    async with opened() as session:
        for word in (FIRST + SECOND).split(" "):
            await session.send_text(word + " ")
        assert (await session.receive())[0].data
        assert texts(server) == [FIRST]
        await session.flush()
        await session.finish()
        sound, remainder = await read(session)
        assert remainder == [Flushed, SpeakEnd]
        assert texts(server) == [FIRST, SECOND + " "]
        with pytest.raises(UpstreamCut):
            await session.receive()
        with pytest.raises(UpstreamCut):
            await session.send_text(FIRST + SECOND + FIRST)
    assert SOUND.endswith(sound[-100:])


async def test_the_rate_of_the_voice_becomes_the_callers(opened, server, autojump_clock):
    async with opened(PCM_16K) as session:
        assert session.format == PCM_16K
        await session.send_text("Hello.")
        await session.finish()
        sound, _ = await read(session)
    assert len(sound) == pytest.approx(len(SOUND) * 2 / 3, abs=4)


@pytest.mark.parametrize("receiving", [True, False])
async def test_an_interruption_drops_what_is_not_spoken(opened, server, net, nursery, receiving, autojump_clock):
    server.speech_gap_s = 1
    async with opened() as session:
        await session.send_text(FIRST + SECOND)
        await session.flush()
        assert await session.receive()
        transcript = []

        async def listen():
            transcript.append(await read(session))

        if receiving:
            nursery.start_soon(listen)
            await trio.sleep(0.5)
        await session.clear()
        await session.send_text("Anew.")
        await session.finish()
        if receiving:
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(20)
        else:
            await listen()
    assert transcript == [(SOUND, [SpeakEnd])]
    assert texts(server) == [FIRST, "Anew."]
    assert net.open <= 1


async def test_nothing_to_say(opened, server, autojump_clock):
    async with opened() as session:
        await session.send_text("")
        await session.flush()
        await session.send_text("  ")
        await session.finish()
        assert await read(session) == (b"", [Flushed, SpeakEnd])
    assert server.ledger == []


async def test_a_failure_is_the_receivers(opened, server, autojump_clock):
    server.status = [200, 500]
    async with opened() as session:
        await session.send_text(FIRST + SECOND)
        await session.finish()
        with pytest.raises(ProviderFailed):
            await read(session)


async def test_a_sentence_cut_off(opened, server, autojump_clock):
    server.cut_after = 1
    async with opened() as session:
        await session.send_text(FIRST)
        await session.finish()
        with pytest.raises(ProviderError):
            await read(session)


async def test_who_leaves_closes_the_upstream(opened, server, net, autojump_clock):
    server.speech_gap_s = 1
    with trio.move_on_after(1.5) as scope:
        async with opened() as session:
            await session.send_text(FIRST)
            await session.finish()
            await read(session)
    assert scope.cancelled_caught
    assert net.open == 0


async def test_kokoro_as_well(account_at, net, autojump_clock):
    async with kokoro.SPEC.speak_live(SpeakLiveRequest(model="m", format=PCM_24K), account_at("kokoro")) as session:
        await session.send_text("Hello.")
        await session.finish()
        with pytest.raises(ProviderError, match="unreachable"):
            await session.receive()
