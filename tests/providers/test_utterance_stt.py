"""Live transcription by local servers: over speaches' socket, over Wyoming as it is spoken, and by whole utterances."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO

import pytest
import trio

from gw.errors import (
    PluginMissing,
    ProviderError,
    ProviderFailed,
    ProviderRejected,
    ProviderUnreachable,
    UpstreamCut,
    UpstreamProtocolError,
    UpstreamSlow,
    one_error,
)
from gw.net.http1 import Pool
from gw.providers import utterance_stt, whisper
from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire import wyoming
from tests.fakes.hosting import hosted
from tests.fakes.net import ServerSide, black_hole
from tests.fakes.vendors.speaches import FakeSpeaches
from tests.fakes.vendors.whisper_cpp import FakeWhisperCpp, read_tone
from tests.fakes.vendors.wyoming import FakeWyoming

PAUSE = bytes(32_000)
SAID = ["one two three", "four", "füünf 🎈"]


def speech(texts=SAID):
    return PAUSE + b"".join(b"".join(fsk.encode(text, 16_000)) + PAUSE for text in texts)


def requested(**fields):
    return ListenRequest(**{"model": "m", "format": PCM_16K, **fields})


async def talk(session, pcm, gap_s=0.02, finish=True):
    for at in range(0, len(pcm), 640):
        await session.send_audio(pcm[at : at + 640])
        await trio.sleep(gap_s)
    if finish:
        await session.finish()


async def listened(account, pcm=None, **fields):
    """The events of a session at the pace of speech, each with its time."""
    events, started_at = [], trio.current_time()
    with one_error():
        async with whisper.listen(requested(**fields), account) as session, trio.open_nursery() as nursery:
            nursery.start_soon(talk_on, session, speech() if pcm is None else pcm)
            while not events or not isinstance(events[-1][1], ListenEnd):
                events += [(trio.current_time() - started_at, event) for event in await session.receive()]
            with pytest.raises(UpstreamCut):
                await session.receive()
    return events


async def talk_on(session, pcm):
    """Read like the relay: a failure is raised by the reader."""
    with suppress(ProviderError):
        await talk(session, pcm)


def texts(events):
    return [event.text for _, event in events if isinstance(event, Final)]


@pytest.fixture
def cpp(net):
    net.hosts["cpp.test", 8_080] = server = FakeWhisperCpp()
    return server


@pytest.fixture
def at_cpp(account_at, cpp):
    return account_at("whisper", "http://cpp.test:8080/inference")


@pytest.fixture
def fake(net):
    server = FakeSpeaches()
    net.hosts["speaches.test", 8_000] = hosted(server)
    return server


@pytest.fixture
def at_speaches(account_at, fake):
    return account_at("whisper", "http://speaches.test:8000/v1", model="Systran/faster-whisper-small")


# ---- by utterance


async def test_each_utterance_is_transcribed_when_it_has_ended(at_cpp, cpp, net, autojump_clock):
    events = await listened(at_cpp)
    assert texts(events) == SAID
    assert [type(event) for _, event in events] == [SpeechStarted, Final, UtteranceEnd] * 3 + [ListenEnd]
    assert cpp.requests == 3
    (_, started), (reported_at, final), (_, ended) = events[:3]
    assert started.at_s == pytest.approx(1.0, abs=0.05)
    assert reported_at == pytest.approx(final.end_s + utterance_stt.SILENCE_S, abs=0.1)
    assert final.start_s <= started.at_s
    assert final.words[0].start_s == pytest.approx(final.start_s + 0.25)
    assert ended.at_s == final.end_s


async def test_the_caller_says_how_long_a_pause_is(at_cpp, cpp, autojump_clock):
    short = b"".join(b"".join(fsk.encode(text, 16_000)) + bytes(16_000) for text in SAID)
    assert texts(await listened(at_cpp, short)) == [" ".join(SAID)]
    assert texts(await listened(at_cpp, short, endpointing_ms=10)) == SAID


async def test_a_flush_ends_an_utterance(at_cpp, cpp, autojump_clock):
    async with whisper.listen(requested(), at_cpp) as session:
        await session.flush()
        await talk(session, b"".join(fsk.encode("now", 16_000)), finish=False)
        await session.flush()
        events = []
        while not any(isinstance(event, UtteranceEnd) for event in events):
            events += await session.receive()
        assert [event.text for event in events if isinstance(event, Final)] == ["now"]
        await session.send_frame("{}")


@pytest.mark.parametrize("spoken", ["[BLANK_AUDIO]", " (music) [Applause]", "♪"])
async def test_what_models_write_about_a_noise_is_no_speech(at_cpp, cpp, spoken, autojump_clock):
    cpp.transcript = spoken
    events = await listened(at_cpp)
    assert texts(events) == []
    assert sum(isinstance(event, UtteranceEnd) for _, event in events) == 3


async def test_silence_is_not_asked_about(at_cpp, cpp, autojump_clock):
    assert [type(event) for _, event in await listened(at_cpp, bytes(64_000))] == [ListenEnd]
    assert [type(event) for _, event in await listened(at_cpp, b"")] == [ListenEnd]
    assert cpp.requests == 0


async def test_the_next_speaks_while_one_is_transcribed(at_cpp, cpp, autojump_clock):
    cpp.answer_after_s = 3
    events = await listened(at_cpp)
    assert texts(events) == SAID
    started = [at for at, event in events if isinstance(event, SpeechStarted)]
    final = [at for at, event in events if isinstance(event, Final)]
    assert started[1] < final[0]


async def test_a_server_that_hangs(at_cpp, net, autojump_clock):
    net.hosts["cpp.test", 8_080] = black_hole
    started_at = trio.current_time()
    async with whisper.listen(requested(), at_cpp) as session:
        await talk(session, speech(["one"]), finish=False)
        assert isinstance((await session.receive())[0], SpeechStarted)
        for calling in (session.receive(), session.receive(), session.send_audio(speech())):
            with pytest.raises(UpstreamSlow):
                await calling
        assert utterance_stt.ANSWER_S < trio.current_time() - started_at < utterance_stt.ANSWER_S + 4
    assert net.open == 0


async def test_a_server_that_cannot_keep_up_holds_the_speaker(at_cpp, cpp, autojump_clock):
    cpp.answer_after_s = 15
    async with whisper.listen(requested(), at_cpp) as session:
        with trio.move_on_after(60) as scope:
            for _ in range(20):
                await session.send_audio(speech(["a"]))
        assert scope.cancelled_caught


async def test_a_server_that_fails_or_is_not_there(at_cpp, cpp, net, autojump_clock):
    async def refusing(stream):
        server = ServerSide(stream)
        await server.request()
        await server.respond(500, b'{"error":"failed"}')

    net.hosts["cpp.test", 8_080] = refusing
    with pytest.raises(ProviderFailed):
        await listened(at_cpp)
    del net.hosts["cpp.test", 8_080]
    with pytest.raises(ProviderUnreachable):
        await listened(at_cpp)


async def test_leaving_stops_what_is_under_way(at_cpp, cpp, net, autojump_clock):
    cpp.answer_after_s = 10
    async with whisper.listen(requested(), at_cpp) as session:
        await talk(session, speech(["one"]), finish=False)
        assert isinstance((await session.receive())[0], SpeechStarted)
        assert net.open == 1
    assert net.open == 0


async def test_an_utterance_is_heard_as_it_grows():
    utterance = utterance_stt.Utterance(1.0)
    got = BytesIO()

    async def read():
        async for data in utterance.pieces():
            got.write(data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for part in (b"ab", b"cd"):
            utterance.add(part)
            await trio.testing.wait_all_tasks_blocked()
        assert got.getvalue() == b"abcd"
        assert utterance.until_s == 1.0 + 4 / 32_000
        utterance.end(utterance_stt.Ended(at_s=1.5, pause=True, voiced=True))
    assert ((await utterance.wait_ended())[0], utterance.until_s) == (b"abcd", 1.5)


@pytest.mark.process
async def test_an_engine_of_ours(account_at, tmp_path, engine_libraries):
    account = account_at("whisper", pool=Pool(), model_path=tmp_path, device="cpu", compute_type="int8")
    async with whisper.listen(requested(), account) as session:
        await session.send_audio(speech(["hello|there"]))
        await session.finish()
        events = []
        while not events or not isinstance(events[-1], ListenEnd):
            events += await session.receive()
    assert [event.text for event in events if isinstance(event, Final)] == ["hello there"]


async def test_an_engine_that_is_not_installed(account_at, autojump_clock):
    with pytest.raises(PluginMissing, match=r"extra 'whisper'"):
        await listened(account_at("whisper", model_path="x"))


# ---- over Wyoming


@pytest.fixture
def wyoming_server(net):
    net.hosts["voice.test", 10_300] = server = FakeWyoming(streams=True)
    return server


@pytest.fixture
def at_wyoming(account_at, wyoming_server):
    return account_at("whisper", "tcp://voice.test:10300", model="small")


async def test_a_wyoming_server_hears_it_as_it_is_spoken(at_wyoming, wyoming_server, net, autojump_clock):
    async with whisper.listen(requested(language="en-US"), at_wyoming) as session:
        await talk(session, speech(["one two three"])[: 32_000 + 16_000], finish=False)
        await trio.testing.wait_all_tasks_blocked()
        assert wyoming_server.seen == [wyoming.Transcribe(name="small", language="en"), wyoming.AudioStart(rate=16_000)]
        assert len(wyoming_server.audio) > 12_000
    assert net.open == 0


async def test_a_wyoming_server_says_pieces_before_the_whole(at_wyoming, wyoming_server, autojump_clock):
    wyoming_server.gap_s = 0.1
    events = await listened(at_wyoming, speech(["one"]))
    spoken = [event for _, event in events if not isinstance(event, (SpeechStarted, UtteranceEnd, ListenEnd))]
    assert [event.text for event in spoken] == ["hello", "hellothere", "hello there"]
    assert [type(event) for event in spoken] == [Interim, Interim, Final]
    assert not any(isinstance(e, Interim) for _, e in await listened(at_wyoming, speech(["one"]), interim_results=False))
    assert read_tone(bytes(wyoming_server.audio)) == "one one"


@pytest.mark.parametrize(
    ("fault", "error"),
    [({"error": "model"}, ProviderFailed), ({"error": "language"}, ProviderRejected), ({"answer": b""}, UpstreamCut),
     ({"answer": b"nonsense\n"}, UpstreamProtocolError)],
)  # fmt: skip
async def test_a_wyoming_server_fails(at_wyoming, wyoming_server, net, fault, error, autojump_clock):
    for name, value in fault.items():
        setattr(wyoming_server, name, value)
    with pytest.raises(error):
        await listened(at_wyoming)
    assert net.open == 0


async def test_a_wyoming_server_that_is_not_there(at_wyoming, net, autojump_clock):
    del net.hosts["voice.test", 10_300]
    with pytest.raises(ProviderUnreachable):
        await listened(at_wyoming)


# ---- over speaches' socket


async def test_speaches_is_spoken_to_over_its_socket(at_speaches, fake, net, autojump_clock):
    events = await listened(at_speaches, language="en-US", endpointing_ms=200)
    assert texts(events) == SAID
    (entry,) = fake.ledger
    assert entry.path == "/v1/realtime"
    assert entry.fields == {
        "model": "Systran/faster-whisper-small", "intent": "transcription", "language": "en",
        "session": {"turn_detection": {"silence_duration_ms": 200}},
    }  # fmt: skip
    finals = [event for _, event in events if isinstance(event, Final)]
    assert finals[0].start_s == pytest.approx(1.0, abs=0.05)
    assert finals[1].start_s == pytest.approx(finals[0].end_s + 1.0, abs=0.15)
    assert any(isinstance(event, Interim) for _, event in events)
    assert entry.outcome == "ended"
    assert net.open == 0


@pytest.mark.parametrize("status", [403, 404, 405, 400, 426])
async def test_a_server_without_a_socket_is_asked_by_utterance(at_speaches, fake, status, autojump_clock):
    fake.no_socket, fake.transcript = status, "heard"
    assert texts(await listened(at_speaches)) == ["heard"] * 3
    assert [entry.path for entry in fake.ledger] == ["/v1/realtime"] + ["/v1/audio/transcriptions"] * 3


@pytest.mark.parametrize(("status", "error"), [(401, ProviderRejected), (503, ProviderFailed)])
async def test_a_handshake_that_is_refused(at_speaches, fake, status, error, autojump_clock):
    fake.status = status
    with pytest.raises(error):
        await listened(at_speaches)
    assert len(fake.ledger) == 1


async def test_a_session_that_breaks_off(at_speaches, fake, autojump_clock):
    fake.close_after = (10, 1000)
    with pytest.raises(UpstreamCut):
        await listened(at_speaches)
    fake.close_after, fake.fails = None, True
    with pytest.raises(ProviderFailed):
        await listened(at_speaches)
