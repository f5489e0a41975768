"""AssemblyAI: where its two hosts are, recordings that take their time, live sessions and what ends them."""

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
from gw.providers import assemblyai
from gw.providers.sim import fsk
from gw.providers.spec import Account
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.types.secret import Secret
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, TranscribeRequest, Transcript, UtteranceEnd
from gw.wire import assemblyai_stream, g711, wav
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.vendors.assemblyai import FakeAssemblyAI

KEY = "k-1"


class Rig:
    def __init__(self, nursery, address="http://stt.test", hosts=(), **fake):
        self.net = FakeNet(nursery)
        self.fake = FakeAssemblyAI(api_key=KEY, measures=True, **fake)
        self.account = Account(
            provider_id="p", model="a/b c", origin=Origin.parse(address), api_key=Secret(KEY), pool=Pool(connect=self.net)
        )
        for host in hosts or (self.account.origin.host,):
            self.net.hosts[host, self.account.origin.port] = hosted(self.fake)

    def listen(self, fmt=PCM_16K, **request):
        return assemblyai.listen(ListenRequest(model="m", format=fmt, **request), self.account)

    async def transcribe(self, audio=b"abc", **request):
        requested = TranscribeRequest(model="m", audio=Recording(audio), **request)
        async with assemblyai.transcribe(requested, self.account) as answer:
            (matches,) = await answer.receive()
        assert isinstance(matches, Transcript)
        return matches

    async def check_nothing_left(self):
        await self.account.pool.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert (self.net.open, self.net.live) == (0, 0)


class Recording:
    filename = "a.wav"
    content_type = "audio/wav"

    def __init__(self, data):
        self._data = data
        self.size = len(data)

    async def chunks(self):
        for at in range(0, len(self._data), 65_536):
            yield self._data[at : at + 65_536]


async def recognized(session, *pieces):
    for piece in pieces:
        await session.send_audio(piece)
    await session.finish()
    return await until_the_end(session)


async def until_the_end(session):
    events = []
    while not events or not isinstance(events[-1], ListenEnd):
        events += await session.receive()
    return events


def finals(events):
    return [event.text for event in events if isinstance(event, Final)]


# ---- recordings


async def test_a_recording(nursery, autojump_clock):
    rig = Rig(nursery, transcript="Grüß Gott, 世界!", polls=3)
    audio = wav.header(PCM_16K, 64_000) + bytes(64_000)
    matches = await rig.transcribe(audio, language="de-AT", keyterms=("gw",))
    assert (matches.text, matches.duration_s, matches.raw) == ("Grüß Gott, 世界!", 2.0, None)
    assert matches.usage is not None
    assert (matches.usage.audio_seconds, matches.usage.source) == (2.0, "vendor")
    upload, job, *questions = rig.fake.ledger
    assert (upload.path, upload.audio) == ("/v2/upload", audio)
    assert all(entry.headers["authorization"] == KEY for entry in rig.fake.ledger)
    assert job.fields == {
        "audio_url": "https://cdn.test/upload/1", "speech_models": ["a/b c"], "language_code": "de",
        "keyterms_prompt": ["gw"],
    }  # fmt: skip
    assert [entry.opened for entry in questions] == pytest.approx([0.5, 1.0, 2.0, 3.0])
    assert len(rig.net.transports) == 1
    await rig.check_nothing_left()


async def test_settings_and_answer_of_a_caller_of_the_same_dialect(nursery, autojump_clock):
    rig = Rig(nursery)
    matches = await rig.transcribe(dialect="assemblyai", fields=(("punctuate", "false"),), language="en_us")
    assert rig.fake.ledger[1].fields == {
        "audio_url": "https://cdn.test/upload/1", "speech_models": ["a/b c"], "punctuate": False,
    }  # fmt: skip
    assert matches.raw is not None
    assert b'"status":"completed"' in matches.raw


async def test_a_recording_that_cannot_be_read(nursery, autojump_clock):
    rig = Rig(nursery, job_error="File type is no audio")
    with pytest.raises(ProviderFailed) as caught:
        await rig.transcribe()
    assert "no audio" in caught.value.message
    await rig.check_nothing_left()


async def test_a_recording_that_is_never_done(nursery, autojump_clock):
    rig = Rig(nursery, polls=10**6, first_token_after_s=118)   # of each answer: an hour of quick ones would be 1800
    with pytest.raises(ProviderFailed) as caught:
        await rig.transcribe()
    assert "within an hour" in caught.value.message
    assert trio.current_time() == pytest.approx(3_600, abs=1)
    assert rig.fake.polled == pytest.approx(30, abs=2)
    await rig.check_nothing_left()


@pytest.mark.parametrize(
    ("statuses", "error"),
    [([429], RateLimitError), ([200, 401], ProviderRejected), ([200, 200, 402], ProviderFailed),
     ([200, 200, 200, 500], ProviderFailed)],
)  # fmt: skip
async def test_a_refusal_at_each_step(statuses, error, nursery, autojump_clock):
    rig = Rig(nursery, status=list(statuses), headers=[("retry-after", "7")])
    with pytest.raises(error) as caught:
        await rig.transcribe()
    assert caught.value.retryable
    assert getattr(caught.value, "retry_after_s", 7.0) == 7.0
    assert len(rig.fake.ledger) == len(statuses)
    await rig.check_nothing_left()


@pytest.mark.parametrize("leaves_after", [0.0, 0.25, 1.7])
async def test_leaving_stops_the_questions(leaves_after, nursery, autojump_clock):
    rig = Rig(nursery, polls=10**6)
    with trio.move_on_after(leaves_after) as scope:
        await rig.transcribe()
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(leaves_after)
    seen = len(rig.fake.ledger)
    await trio.sleep(10)
    assert len(rig.fake.ledger) == seen
    await rig.check_nothing_left()


async def test_a_name_that_is_no_name(nursery, autojump_clock):
    async def answer(scope, receive, send):
        body = assemblyai_stream.encode_upload("u") if "upload" in scope["path"] else b'{"id":"../x","status":"queued"}'
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    rig = Rig(nursery)
    rig.net.hosts["stt.test", 80] = hosted(answer)
    with pytest.raises(UpstreamProtocolError):
        await rig.transcribe()
    await rig.check_nothing_left()


# ---- live sessions


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://api.assemblyai.com", "streaming.assemblyai.com"),
        ("https://api.eu.assemblyai.com", "streaming.eu.assemblyai.com"),
        ("https://api.example.com", "api.example.com"),
        ("https://api-assemblyai.com", "api-assemblyai.com"),
        ("http://stt.test:8000", "stt.test"),
    ],
)
async def test_the_host_of_live_sessions(address, host, nursery, autojump_clock):
    rig = Rig(nursery, address, hosts=(host,))
    async with rig.listen() as session:
        assert finals(await recognized(session)) == []
    entry = rig.fake.ledger[0]
    assert entry.path == "/v3/ws"
    assert (entry.headers["authorization"], entry.headers["assemblyai-version"]) == (KEY, "2025-05-12")
    assert "speech_model=a%2Fb+c" in entry.fields["query"]
    await rig.check_nothing_left()


async def test_a_session_in_order(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen() as session:
        events = await recognized(session, *fsk.encode("one two", 16_000), bytes(32_000), *fsk.encode("three", 16_000))
        assert finals(events) == ["one two", "three"]
        kinds = [type(event) for event in events]
        assert kinds.index(Interim) < kinds.index(Final)
        assert kinds.count(UtteranceEnd) == 2
        assert events[-1].usage.audio_seconds > 1
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert rig.fake.ledger[0].outcome == "ended"
    await rig.check_nothing_left()


@pytest.mark.parametrize("piece_s", [0.003, 0.02, 0.05, 2.048])
async def test_frames_of_any_length(piece_s, nursery, autojump_clock):
    rig = Rig(nursery)
    pcm = b"".join(fsk.encode("one two three", 16_000)) + bytes(16_000)
    step = int(piece_s * 16_000) * 2
    async with rig.listen() as session:
        await session.send_audio(b"")
        events = await recognized(session, *(pcm[at : at + step] for at in range(0, len(pcm), step)))
    assert finals(events) == ["one two three"]
    entry = rig.fake.ledger[0]
    assert entry.audio[: len(pcm)] == pcm
    assert all(0.05 <= frame <= 1 for frame in entry.fields["frames"] if isinstance(frame, float))


async def test_telephone_audio_goes_as_it_is(nursery, autojump_clock):
    rig = Rig(nursery)
    pieces = [g711.pcm16_to_mulaw(piece) for piece in fsk.encode("hello there", 8_000)]
    async with rig.listen(MULAW_8K) as session:
        assert finals(await recognized(session, *pieces)) == ["hello there"]
    assert rig.fake.ledger[0].audio.startswith(b"".join(pieces))
    assert "encoding=pcm_mulaw" in rig.fake.ledger[0].fields["query"]


@pytest.mark.parametrize("encoding", ["opus", "alaw"])
async def test_audio_it_does_not_take_is_for_another_candidate(encoding, nursery, autojump_clock):
    rig = Rig(nursery)
    with pytest.raises(ProviderRejected) as caught:
        async with rig.listen(AudioFormat(encoding=encoding, sample_rate_hz=8_000)):
            pass
    assert caught.value.retryable
    assert rig.net.transports == []


async def test_a_flush_ends_the_turn_and_the_session_goes_on(nursery, autojump_clock):
    rig = Rig(nursery)
    pcm = b"".join(fsk.encode("one two three four", 16_000))
    half = len(pcm) // 64 * 32
    async with rig.listen() as session:
        await session.send_audio(pcm[:half])
        await session.flush()
        events = []
        while not finals(events):
            events += await session.receive()
        assert events[-1] == UtteranceEnd(at_s=events[-2].end_s)
        events += await recognized(session, pcm[half:], bytes(16_000))
    assert len(finals(events)) == 2
    assert " ".join(finals(events)) == "one two three four"
    assert rig.fake.ledger[0].fields["frames"].count("ForceEndpoint") == 1
    await rig.check_nothing_left()


async def test_a_caller_of_the_same_dialect(nursery, autojump_clock):
    rig = Rig(nursery)
    options = (("sample_rate", "16000"), ("speech_model", "x"), ("format_turns", "true"), ("prompt", "ü"))
    async with rig.listen(dialect="assemblyai", options=options) as session:
        await session.send_frame('{"type":"UpdateConfiguration","max_turn_silence":100}')
        events = await recognized(session, *fsk.encode("hello", 16_000), bytes(16_000))
    raws = [event.raw for event in events if event.raw is not None]
    assert all(raw.startswith('{"type":"') for raw in raws)
    assert "Termination" in raws[-1]
    ends = [raw for raw in raws if '"end_of_turn":true' in raw]
    assert ['"turn_is_formatted":true' in raw for raw in ends] == [False, True]
    assert finals(events) == ["hello"]
    entry = rig.fake.ledger[0]
    assert entry.fields["frames"][0] == "UpdateConfiguration"
    assert entry.fields["query"] == (
        "sample_rate=16000&encoding=pcm_s16le&speech_model=a%2Fb+c&format_turns=true&prompt=%C3%BC"
    )


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (1000, UpstreamCut), (1008, ProviderFailed), (1011, ProviderFailed), (1013, ProviderFailed),
        (3005, ProviderFailed), (3009, ProviderFailed), (4002, ProviderFailed), (4102, ProviderFailed),
        (3006, ProviderRejected), (3007, ProviderRejected), (3008, UpstreamCut),
    ],
)  # fmt: skip
async def test_a_session_the_vendor_closes(code, error, nursery, autojump_clock):
    rig = Rig(nursery, close_after=(2, code))
    with pytest.raises(error) as caught:
        async with rig.listen() as session:
            await recognized(session, bytes(3_200), bytes(3_200), bytes(3_200))
    assert caught.value.retryable
    await rig.check_nothing_left()


async def test_an_error_inside_a_session(nursery, autojump_clock):
    rig = Rig(nursery, session_error_after=2)
    with pytest.raises(ProviderFailed) as caught:
        async with rig.listen() as session:
            await recognized(session, bytes(3_200), bytes(3_200))
    assert caught.value.upstream_code == "3005"
    await rig.check_nothing_left()


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, ProviderRejected), (401, ProviderRejected), (402, ProviderFailed), (404, ProviderRejected),
     (429, RateLimitError), (500, ProviderFailed)],
)  # fmt: skip
async def test_a_refused_handshake(status, error, nursery, autojump_clock):
    rig = Rig(nursery, status=status, error_body=b'{"error":"the key k-1 is no good"}')
    with pytest.raises(error) as caught:
        async with rig.listen():
            pass
    assert KEY not in caught.value.message
    await rig.check_nothing_left()


@pytest.mark.parametrize("spoken", ["{", "[]", '{"type":"Turn","words":1}'])
async def test_rubbish_in_a_frame(spoken, nursery, autojump_clock):
    async def rubbish(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": spoken})
        while (await receive())["type"] != "websocket.disconnect":
            pass

    rig = Rig(nursery)
    rig.net.hosts["stt.test", 80] = hosted(rubbish)
    with pytest.raises(UpstreamProtocolError):
        async with rig.listen() as session:
            await session.receive()
    await rig.check_nothing_left()


@pytest.mark.parametrize("leaves_at", ["connecting", "receiving"])
async def test_leaving_closes_the_session_at_once(leaves_at, nursery, autojump_clock):
    rig = Rig(nursery, answer_after_s=10 if leaves_at == "connecting" else 0)
    with trio.move_on_after(5) as scope:
        async with rig.listen() as session:
            await session.receive()
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(5, abs=0.06)
    await rig.fake.ledger[0].aborted.wait()
    await rig.check_nothing_left()


async def test_nobody_there(nursery, autojump_clock):
    rig = Rig(nursery)
    rig.net.hosts.clear()
    with pytest.raises(ProviderError) as caught:
        async with rig.listen():
            pass
    assert caught.value.outcome == "unreachable"
