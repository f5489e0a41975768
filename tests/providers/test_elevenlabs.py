"""ElevenLabs as a provider: its addresses, sessions that flush, clear, idle and end, and what ends them otherwise."""

from __future__ import annotations

import msgspec
import pytest
import trio
import trio.testing

from gw.errors import ProviderFailed, ProviderRejected, ProviderUnreachable, RateLimitError, UpstreamCut
from gw.net.http1 import Origin, Pool
from gw.providers import elevenlabs
from gw.providers.sim import fsk
from gw.providers.spec import Account
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.types.secret import Secret
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, UtteranceEnd
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, SpeakRequest, WordTiming
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.vendors.elevenlabs import FakeElevenLabs

KEY = "k-1 with spaces"


class Rig:
    def __init__(self, nursery, model="eleven_flash_v2_5", **fake):
        self.net = FakeNet(nursery)
        self.fake = FakeElevenLabs(api_key=KEY, **fake)
        self.frames = []
        self.net.hosts["eleven.test", 80] = hosted(self._noting)
        self.account = Account(
            provider_id="p",
            model=model,
            origin=Origin.parse("http://eleven.test"),
            api_key=Secret(KEY),
            pool=Pool(connect=self.net),
        )

    async def _noting(self, scope, receive, send):
        async def note():
            message = await receive()
            if message["type"] == "websocket.receive":
                self.frames.append(msgspec.json.decode(message["text"]))
            return message

        await self.fake(scope, note, send)

    def speak(self, fmt=PCM_24K, **request):
        return elevenlabs.speak(SpeakRequest(**{"model": "m", "text": "Hi there", "voice": "v", "format": fmt, **request}), self.account)

    def speak_live(self, fmt=PCM_16K, **request):
        return elevenlabs.speak_live(SpeakLiveRequest(**{"model": "m", "voice": "v", "format": fmt, **request}), self.account)

    def listen(self, fmt=PCM_16K, **request):
        return elevenlabs.listen(ListenRequest(model="m", format=fmt, **request), self.account)

    async def check_nothing_left(self):
        await trio.testing.wait_all_tasks_blocked()
        assert (self.net.open, self.net.live) == (0, 0)


async def read(session):
    events = []
    while not events or not isinstance(events[-1], (SpeakEnd, ListenEnd)):
        events += await session.receive()
    return events


def spoken(events, rate=16_000):
    pcm = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    return [done.text for done in fsk.decode(pcm, rate)]


def kinds(events, *which):
    return [type(event) for event in events if isinstance(event, which)]


# ---- speech over HTTP


async def test_speech_with_timestamps(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak(want_timings=True, text="Hi there") as stream:
        events = await read(stream)
    assert spoken(events, 24_000) == ["Hi there"]
    assert [event.word for event in events if isinstance(event, WordTiming)] == ["Hi", "there"]
    (entry,) = rig.fake.ledger
    assert (entry.fields["voice"], entry.fields["form"]) == ("v", "/stream/with-timestamps")


@pytest.mark.parametrize(
    ("requested", "comes"),
    [(MULAW_8K, MULAW_8K), (AudioFormat(encoding="mulaw", sample_rate_hz=16_000), PCM_16K), (PCM_24K, PCM_24K)],
)
async def test_speech_is_told_in_the_form_in_which_it_comes(requested, comes, nursery, autojump_clock):
    rig = Rig(nursery, speech_pcm=bytes(480))
    async with rig.speak(fmt=requested) as stream:
        assert stream.format == comes
        await read(stream)
    async with rig.speak_live(fmt=requested) as session:
        assert session.format == comes


@pytest.mark.parametrize("call", ["speak", "speak_live"])
async def test_without_a_voice_another_candidate_is_tried(call, nursery, autojump_clock):
    rig = Rig(nursery)
    with pytest.raises(ProviderRejected, match="default_voice") as caught:
        async with getattr(rig, call)(voice=""):
            raise AssertionError
    assert caught.value.retryable
    assert rig.fake.ledger == []


async def test_a_model_that_does_not_speak_live(nursery, autojump_clock):
    rig = Rig(nursery, model="eleven_v3")
    with pytest.raises(ProviderRejected, match="live") as caught:
        async with rig.speak_live():
            raise AssertionError
    assert caught.value.retryable


# ---- live speech


async def test_live_speech_in_its_order(nursery, autojump_clock):
    rig = Rig(nursery, speech_gap_s=0.1)
    async with rig.speak_live() as session:
        for text in ("Grüß Gott, ", "wie ge", "ht es? "):
            await session.send_text(text)
        await session.flush()
        await session.send_text("你好 🎈 ")
        await session.flush()
        await session.send_text("good")
        await session.send_text(" bye")
        await session.finish()
        events = await read(session)
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert " ".join(" ".join(spoken(events)).split()) == "Grüß Gott, wie geht es? 你好 🎈 good bye"
    assert kinds(events, Flushed, SpeakEnd) == [Flushed, Flushed, SpeakEnd]
    words = [(event.word, event.start_s) for event in events if isinstance(event, WordTiming)]
    assert [word for word, _ in words] == ["Grüß", "Gott,", "wie", "geht", "es?", "你好", "🎈", "good", "bye"]
    assert [start for _, start in words] == sorted(start for _, start in words)
    await rig.check_nothing_left()


async def test_a_session_without_text(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak_live() as session:
        await session.flush()
        assert await session.receive() == [Flushed()]
        await session.finish()
        assert await read(session) == [SpeakEnd()]


async def test_an_answer_without_a_frame_ends_the_wait_for_one(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak_live() as session:
        events = []

        async def receive():
            events.extend(await read(session))

        async with trio.open_nursery() as inner:
            inner.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            await session.flush()
            await trio.testing.wait_all_tasks_blocked()
            await session.finish()
    assert events == [Flushed(), SpeakEnd()]


async def test_interrupted_in_mid_sentence(nursery, autojump_clock):
    rig = Rig(nursery, speech_gap_s=0.5)
    async with rig.speak_live() as session:
        await session.send_text("one two three four five six seven")
        await session.flush()
        first = await session.receive()
        await session.clear()
        await session.send_text("Good bye.")
        await session.finish()
        events = await read(session)
    assert kinds(first, AudioChunk) == [AudioChunk]
    assert [text.strip() for text in spoken(events)] == ["Good bye."]
    assert kinds(events, Flushed) == []


async def test_speech_is_kept_alive_while_nobody_writes(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak_live() as session:
        await session.send_text("Hi ")
        await trio.sleep(25)
        await session.send_text("there.")
        await session.finish()
        assert [text.strip() for text in spoken(await read(session))] == ["Hi there."]
    signs = [frame for frame in rig.frames if frame.get("text") == ""]
    assert signs == [{"text": "", "context_id": "gw-1"}] * 2


async def test_a_caller_of_the_same_dialect_gets_the_vendors_frames(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.speak_live(dialect="elevenlabs", options=(("frame:voice_settings", '{"style":0.5}'),)) as session:
        await session.send_text("Hi")
        await session.send_frame('{"text":"not ours","context_id":"theirs"}')
        await session.finish()
        events = await read(session)
    assert all(msgspec.json.decode(event.raw)["contextId"] == "gw-1" for event in events if isinstance(event, AudioChunk))
    assert rig.frames[0]["voice_settings"] == {"style": 0.5}
    assert "not ours" not in str(rig.frames)


# ---- live transcription


async def transcript(session, *pieces):
    for piece in pieces:
        await session.send_audio(piece)
    await session.finish()
    return await read(session)


def finals(events):
    return [event.text for event in events if isinstance(event, Final)]


async def test_live_transcription(nursery, autojump_clock):
    rig = Rig(nursery, model="scribe_v2_realtime")
    async with rig.listen() as session:
        pcm = b"".join(fsk.encode("hello there ö", 16_000))
        events = await transcript(session, b"", *(pcm[at : at + 4_001] for at in range(0, len(pcm), 4_001)))
    assert finals(events) == ["hello there ö"]
    assert isinstance(events[0], Interim)
    assert kinds(events, UtteranceEnd)
    await rig.check_nothing_left()


async def test_all_audio_before_the_end_is_transcribed(nursery, autojump_clock):
    """Sent faster than it is heard: answers to the vendor's own commits come after ours."""
    texts = ["one two", "three four", "five six"]
    rig = Rig(nursery, speech_gap_s=0.4)
    async with rig.listen() as session:
        assert finals(await transcript(session, *(piece for text in texts for piece in fsk.encode(text, 16_000)))) == texts


@pytest.mark.parametrize("each", [False, True])
async def test_the_vendor_says_nothing_after_the_last_answer(each, nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen(dialect="elevenlabs", options=(("commit_strategy", "manual"),)) as session:
        for piece in fsk.encode("hello there", 16_000):
            await session.send_audio(piece)
        began = trio.current_time()
        await session.finish()
        if each:
            events = []
            await session.for_each_batch(events.extend)
        else:
            events = await read(session)
    assert finals(events) == ["hello there"]
    assert trio.current_time() - began == pytest.approx(1.0)


async def test_a_session_without_audio(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen() as session:
        assert await transcript(session) == [ListenEnd()]
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert rig.fake.ledger[0].fields["commits"] == 1


async def test_a_flush_commits(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen(dialect="elevenlabs", options=(("commit_strategy", "manual"),)) as session:
        for text in ("hello there", "good bye"):
            for piece in fsk.encode(text, 16_000):
                await session.send_audio(piece)
            await session.flush()
            events = []
            while not finals(events):
                events += await session.receive()
            assert finals(events) == [text]
            assert all(event.raw is not None for event in events if isinstance(event, Final))


async def test_transcription_is_kept_alive_while_nobody_speaks(nursery, autojump_clock):
    rig, began = Rig(nursery), trio.current_time()
    async with rig.listen() as session:
        for _ in range(40):
            await trio.sleep(1)
            if (pending := session.keep_alive_or_pending()) is not None:
                await pending
            if trio.current_time() == pytest.approx(began + 15):
                await session.send_audio(bytes(320))
        await transcript(session)
    empty = [frame for frame in rig.frames if not frame["audio_base_64"] and not frame["commit"]]
    assert len(empty) == 3


# ---- what ends a session otherwise


async def begin(rig, kind):
    if kind == "listen":
        async with rig.listen() as session:
            await transcript(session, *fsk.encode("hello there", 16_000))
    else:
        async with rig.speak_live() as session:
            for word in ("one ", "two ", "three "):
                await session.send_text(word)
            await session.finish()
            await read(session)


KINDS = pytest.mark.parametrize("kind", ["listen", "speak_live"])


@KINDS
@pytest.mark.parametrize(
    ("status", "error"),
    [(401, ProviderRejected), (402, ProviderFailed), (403, ProviderRejected), (429, RateLimitError), (503, ProviderFailed)],
)
async def test_refused_at_the_handshake(kind, status, error, nursery, autojump_clock):
    rig = Rig(nursery, status=status, headers=[("retry-after", "7")])
    with pytest.raises(error) as caught:
        await begin(rig, kind)
    assert type(caught.value) is error
    assert caught.value.retryable
    assert getattr(caught.value, "retry_after_s", 7) == 7
    await rig.check_nothing_left()


@KINDS
@pytest.mark.parametrize(
    ("code", "error"), [(1000, UpstreamCut), (1008, ProviderRejected), (1011, ProviderFailed), (1013, ProviderFailed), (4000, UpstreamCut)]
)
async def test_closed_in_mid_session(kind, code, error, nursery, autojump_clock):
    rig = Rig(nursery, close_after=(2, code))
    with pytest.raises(error) as caught:
        await begin(rig, kind)
    assert type(caught.value) is error
    assert caught.value.retryable
    await rig.check_nothing_left()


@KINDS
async def test_an_error_in_mid_session(kind, nursery, autojump_clock):
    rig = Rig(nursery, session_error_after=2, error_code="scripted")
    with pytest.raises(ProviderFailed) as caught:
        await begin(rig, kind)
    assert caught.value.retryable
    await rig.check_nothing_left()


@KINDS
@pytest.mark.parametrize(("reason", "error"), [("quota_exceeded: nothing left", ProviderFailed), ("bye", ProviderRejected)])
async def test_the_reason_of_a_close_frame_is_read_and_not_shown(kind, reason, error, nursery, autojump_clock):
    async def closing(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
        await send({"type": "websocket.close", "code": 1008, "reason": reason})

    rig = Rig(nursery)
    rig.net.hosts["eleven.test", 80] = hosted(closing)
    with pytest.raises(error) as caught:
        await begin(rig, kind)
    assert type(caught.value) is error
    assert "nothing left" not in caught.value.message
    assert "bye" not in caught.value.message


@KINDS
async def test_nobody_there(kind, nursery, autojump_clock):
    rig = Rig(nursery)
    rig.net.hosts.clear()
    with pytest.raises(ProviderUnreachable):
        await begin(rig, kind)


@KINDS
@pytest.mark.parametrize("after_s", [0.0, 0.3, 5.0])
async def test_cancelling_leaves_nothing(kind, after_s, nursery, autojump_clock):
    rig = Rig(nursery, answer_after_s=0.2, speech_gap_s=10.0)
    with trio.move_on_after(after_s) as scope:
        await begin(rig, kind)
    assert scope.cancelled_caught
    assert rig.net.open == 0
    await trio.sleep(60)   # the vendor notices when it would say something
    await rig.check_nothing_left()
