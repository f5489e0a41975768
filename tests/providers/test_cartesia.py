"""Cartesia: which address is asked, contexts, turns, what ends a session, and what is left of it."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from gw.errors import (
    ProviderError,
    ProviderFailed,
    ProviderRejected,
    RateLimitError,
    UpstreamCut,
    UpstreamProtocolError,
)
from gw.net.http1 import Origin, Pool
from gw.providers import cartesia
from gw.providers.sim import fsk
from gw.providers.spec import Account
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.types.secret import Secret
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, SpeakRequest, WordTiming
from gw.wire import g711
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.vendors.cartesia import FakeCartesia

TEXT = "what is the weather"
HELLO = [*fsk.encode("hello there", 16_000), bytes(16_000)]


class Rig:
    def __init__(self, nursery, model="ink-whisper", **fake):
        self.net = FakeNet(nursery)
        self.fake = FakeCartesia(api_key="k-1", **fake)
        self.model = model
        self.net.hosts["cartesia.test", 80] = hosted(self.fake)
        self.pool = Pool(connect=self.net)

    def account(self, model):
        origin = Origin.parse("http://cartesia.test")
        return Account(provider_id="p", model=model, origin=origin, api_key=Secret("k-1"), pool=self.pool)

    def listen(self, fmt=PCM_16K, **request):
        return cartesia.listen(ListenRequest(model="m", format=fmt, **request), self.account(self.model))

    def speak(self, fmt=PCM_24K, voice="v", **request):
        return cartesia.speak(SpeakRequest(model="m", text=TEXT, voice=voice, format=fmt, **request), self.account("sonic-3"))

    def speak_live(self, fmt=PCM_24K, voice="v", **request):
        return cartesia.speak_live(SpeakLiveRequest(model="m", voice=voice, format=fmt, **request), self.account("sonic-3"))

    @property
    def seen(self):
        return self.fake.ledger[0]

    async def check_nothing_left(self):
        await trio.testing.wait_all_tasks_blocked()
        assert (self.net.open, self.net.live) == (0, 0)

    def answer(self, *frames):
        """In place of the fake: accepts, says `frames`, and stays."""

        async def vendor(scope, receive, send):
            await receive()
            await send({"type": "websocket.accept"})
            for frame in frames:
                await send({"type": "websocket.send", "text": frame})
            while (await receive())["type"] != "websocket.disconnect":
                pass

        self.net.hosts["cartesia.test", 80] = hosted(vendor)


async def remainder(session, last):
    events = []
    while not events or not isinstance(events[-1], last):
        events += await session.receive()
    return events


async def overheard(session, *pieces):
    """The end is the vendor's."""
    for piece in pieces:
        await session.send_audio(piece)
    return await remainder(session, ListenEnd)


async def transcript(session, *pieces):
    for piece in pieces:
        await session.send_audio(piece)
    await session.finish()
    return await remainder(session, ListenEnd)


async def spoken(session, text):
    await session.send_text(text)
    await session.finish()
    return await remainder(session, SpeakEnd)


def pcm_of(events):
    return b"".join(event.data for event in events if isinstance(event, AudioChunk))


def sentence_text(pcm, rate=24_000):
    return " ".join(done.text for done in fsk.decode(pcm, rate))


def finals(events):
    return [event.text for event in events if isinstance(event, Final)]


# ---- speech in one piece


async def test_speech(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak() as stream:
        assert stream.format == PCM_24K
        assert sentence_text(pcm_of(await remainder(stream, SpeakEnd))) == TEXT
    assert rig.seen.path == "/tts/bytes"
    assert rig.seen.headers["cartesia-version"] == "2026-03-01"


async def test_speech_with_word_times(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak(want_timings=True) as stream:
        events = await remainder(stream, SpeakEnd)
    assert rig.seen.path == "/tts/sse"
    assert sentence_text(pcm_of(events)) == TEXT
    assert [event.word for event in events if isinstance(event, WordTiming)] == TEXT.split()


async def test_compressed_speech_has_no_word_times(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak(AudioFormat(encoding="wav", sample_rate_hz=16_000), want_timings=True) as stream:
        await remainder(stream, SpeakEnd)
    assert rig.seen.path == "/tts/bytes"


async def test_events_that_stop(nursery, autojump_clock):
    rig = Rig(nursery, cut_after=2)
    with pytest.raises((UpstreamCut, UpstreamProtocolError)):
        async with rig.speak(want_timings=True) as stream:
            await remainder(stream, SpeakEnd)


@pytest.mark.parametrize("want_timings", [True, False])
async def test_an_answer_of_another_kind(want_timings, nursery, autojump_clock):
    async def vendor(scope, receive, send):
        kind = b"audio/pcm" if want_timings else b"text/html"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": b"<html>"})

    rig = Rig(nursery)
    rig.net.hosts["cartesia.test", 80] = hosted(vendor)
    with pytest.raises(UpstreamProtocolError):
        async with rig.speak(want_timings=want_timings):
            pass


async def test_without_a_voice_another_candidate_may_do(nursery, autojump_clock):
    rig = Rig(nursery)
    for call in (rig.speak, rig.speak_live):
        with pytest.raises(ProviderRejected) as caught:
            async with call(voice=""):
                pass
        assert caught.value.retryable
        assert "default_voice" in str(caught.value)
    assert rig.net.transports == []


# ---- live speech


async def test_live_speech_in_order(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak_live() as session:
        for word in TEXT.split():
            await session.send_text(word + " ")
        await session.flush()
        first = await remainder(session, Flushed)
        await session.send_text("in Köln 😀")
        await session.finish()
        second = await remainder(session, SpeakEnd)
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert sentence_text(pcm_of(first)).strip() == TEXT
    assert [event.word for event in first + second if isinstance(event, WordTiming)] == [*TEXT.split(), "in", "Köln", "😀"]
    assert rig.seen.fields["text"] == f"{TEXT} in Köln 😀"
    assert rig.seen.headers["x-api-key"] == "k-1"
    await rig.check_nothing_left()


async def test_a_pause_is_longer_than_the_vendor_remembers(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak_live() as session:
        for number in ("one", "two"):
            await session.send_text(number)
            await session.flush()
            assert sentence_text(pcm_of(await remainder(session, Flushed))) == number
            await trio.sleep(100)
        await session.finish()
        assert await remainder(session, SpeakEnd) == [SpeakEnd()]
    await rig.check_nothing_left()


@pytest.mark.parametrize("text", ["", " … "])
async def test_nothing_to_speak(text, nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak_live() as session, trio.open_nursery() as waiting:
        events = []

        async def hear():
            events.extend(await remainder(session, SpeakEnd))

        waiting.start_soon(hear)
        await trio.testing.wait_all_tasks_blocked()
        await session.send_text(text)
        await session.flush()
        await trio.testing.wait_all_tasks_blocked()
        await session.clear()
        await session.finish()
    assert events == [Flushed(), SpeakEnd()]
    await rig.check_nothing_left()


async def test_an_interruption(nursery, autojump_clock):
    rig = Rig(nursery, speech_gap_s=0.1)
    async with rig.speak_live() as session:
        await session.send_text("one two three four five six seven")
        await session.flush()
        await session.receive()
        await session.clear()
        events = await spoken(session, "eight")
    assert sentence_text(pcm_of(events)) == "eight"
    await rig.check_nothing_left()


async def test_a_callers_own_settings(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak_live(MULAW_8K, dialect="cartesia", options=(("max_buffer_delay_ms", "0"),)) as session:
        assert session.format == MULAW_8K
        await session.send_frame('{"context_id":"theirs","cancel":true}')
        pcm = pcm_of(await spoken(session, "one"))
    assert sentence_text(g711.mulaw_to_pcm16(pcm), 8_000) == "one"


@pytest.mark.parametrize(
    ("code", "error"),
    [(1000, UpstreamCut), (1008, ProviderRejected), (1011, ProviderFailed), (1013, ProviderFailed), (4000, UpstreamCut)],
)
async def test_speech_the_vendor_closes(code, error, nursery, autojump_clock):
    rig = Rig(nursery, close_after=(2, code))
    with pytest.raises(error) as caught:
        async with rig.speak_live() as session:
            await spoken(session, "one")
    assert caught.value.retryable
    await rig.check_nothing_left()


async def test_an_error_in_speech(nursery, autojump_clock):
    rig = Rig(nursery, session_error_after=1)
    with pytest.raises(ProviderFailed):
        async with rig.speak_live() as session:
            await spoken(session, "one")
    await rig.check_nothing_left()


# ---- live transcription


async def test_a_session_with_finalize(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen(language="en") as session:
        events = await transcript(session, *HELLO)
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert finals(events) == ["hello there"]
    assert any(isinstance(event, Interim) for event in events)
    assert rig.seen.path == "/stt/websocket"
    assert "language=en" in rig.seen.fields["query"]
    assert rig.seen.audio == b"".join(HELLO)
    await rig.check_nothing_left()


async def test_a_session_by_turns(nursery, autojump_clock):
    rig = Rig(nursery, "ink-2")
    async with rig.listen() as session:
        events = await transcript(session, *HELLO)
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert finals(events) == ["hello there"]
    kinds = [type(event) for event in events]
    assert kinds[0] is SpeechStarted
    assert kinds[-3:] == [Final, UtteranceEnd, ListenEnd]
    assert rig.seen.path == "/stt/turns/websocket"
    await rig.check_nothing_left()


async def test_a_caller_with_the_vendors_words_decides_itself(nursery, autojump_clock):
    rig = Rig(nursery, "ink-2")
    async with rig.listen(dialect="cartesia", options=(("min_volume", "0.1"),)) as session:
        await session.send_frame("finalize")
        assert '"flush_done"' in (await session.receive())[0].raw
        events = await transcript(session, *HELLO)
    assert all(event.raw is not None for event in events)
    assert rig.seen.path == "/stt/websocket"
    assert "min_volume=0.1" in rig.seen.fields["query"]


@pytest.mark.parametrize("model", ["ink-whisper", "ink-2"])
@pytest.mark.parametrize("fmt", [PCM_16K, MULAW_8K, AudioFormat(encoding="pcm_f32le", sample_rate_hz=16_000)])
async def test_a_silent_session(model, fmt, nursery, autojump_clock):
    rig = Rig(nursery, model)
    async with rig.listen(fmt) as session:
        await session.send_audio(b"")
        assert await transcript(session, bytes(fmt.bytes_per_second)) == [ListenEnd()]
    await rig.check_nothing_left()


async def test_a_flush_is_answered(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen() as session:
        await session.flush()
        assert await session.receive() == [UtteranceEnd(at_s=0.0)]


async def test_a_flush_ends_a_turn(nursery, autojump_clock):
    rig = Rig(nursery, "ink-2")
    async with rig.listen() as session:
        for piece in HELLO[:-1]:
            await session.send_audio(piece)
        await session.flush()
        assert finals(await remainder(session, UtteranceEnd)) == ["hello there"]


async def test_a_turn_does_not_dangle_when_the_audio_stops(nursery, autojump_clock):
    rig = Rig(nursery, "ink-2")
    async with rig.listen() as session:
        for piece in HELLO[:-1]:
            await session.send_audio(piece)
        began_at = trio.current_time()
        events = await remainder(session, UtteranceEnd)
    assert finals(events) == ["hello there"]
    assert trio.current_time() - began_at < 3


@pytest.mark.parametrize("model", ["ink-whisper", "ink-2"])
async def test_a_session_that_hears_nothing_is_kept_open(model, nursery, autojump_clock):
    rig = Rig(nursery, model)
    async with rig.listen() as session:
        await trio.sleep(175)
        assert rig.seen.audio == bytes(2 * 640)
        assert await transcript(session) == [ListenEnd()]
        await trio.sleep(100)
    assert rig.seen.audio == bytes(2 * 640)


@pytest.mark.parametrize("model", ["ink-whisper", "ink-2"])
@pytest.mark.parametrize(
    ("code", "error"),
    [(1000, UpstreamCut), (1008, ProviderRejected), (1011, ProviderFailed), (1013, ProviderFailed), (4000, UpstreamCut)],
)
async def test_a_session_the_vendor_closes(model, code, error, nursery, autojump_clock):
    rig = Rig(nursery, model, close_after=(2, code))
    with pytest.raises(error) as caught:
        async with rig.listen() as session:
            await overheard(session, bytes(3_200), bytes(3_200))
    assert caught.value.retryable
    await rig.check_nothing_left()


@pytest.mark.parametrize("model", ["ink-whisper", "ink-2"])
async def test_an_error_frame(model, nursery, autojump_clock):
    rig = Rig(nursery, model, session_error_after=1)
    with pytest.raises(ProviderFailed):
        async with rig.listen() as session:
            await transcript(session, bytes(3_200))
    await rig.check_nothing_left()


@pytest.mark.parametrize("call", ["whisper", "ink-2", "speech"])
@pytest.mark.parametrize(
    ("status", "error"), [(401, ProviderRejected), (404, ProviderRejected), (429, RateLimitError), (500, ProviderFailed)]
)
async def test_a_refused_handshake(call, status, error, nursery, autojump_clock):
    rig = Rig(nursery, call, status=status)
    with pytest.raises(error):
        async with rig.speak_live() if call == "speech" else rig.listen():
            pass
    await rig.check_nothing_left()


@pytest.mark.parametrize("call", ["ink-whisper", "ink-2", "speech"])
async def test_rubbish_in_a_frame(call, nursery, autojump_clock):
    rig = Rig(nursery, call)
    rig.answer("{")
    with pytest.raises(UpstreamProtocolError):
        async with rig.speak_live() if call == "speech" else rig.listen() as session:
            await session.receive()
    await rig.check_nothing_left()


@pytest.mark.parametrize("call", ["ink-whisper", "ink-2", "speech"])
@pytest.mark.parametrize("leaves_at", ["connecting", "receiving"])
async def test_leaving_closes_the_session_at_once(call, leaves_at, nursery, autojump_clock):
    rig = Rig(nursery, call, answer_after_s=10 if leaves_at == "connecting" else 0)
    with trio.move_on_after(5) as scope:
        async with rig.speak_live() if call == "speech" else rig.listen() as session:
            while True:
                await session.receive()
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(5, abs=0.06)
    await rig.seen.aborted.wait()
    await rig.check_nothing_left()


async def test_nobody_there(nursery, autojump_clock):
    rig = Rig(nursery)
    rig.net.hosts.clear()
    with pytest.raises(ProviderError) as caught:
        async with rig.listen():
            pass
    assert caught.value.outcome == "unreachable"
