"""Deepgram's sessions and requests: the address, the order, what ends a session, and what is left of it."""

from __future__ import annotations

from urllib.parse import parse_qsl

import attrs
import pytest
import trio
import trio.testing
from websockets.frames import Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from gw.errors import ProviderFailed, ProviderRejected, RateLimitError, UpstreamCut, UpstreamProtocolError
from gw.net.http1 import Origin, Pool
from gw.net.ws import WsClosed
from gw.providers import deepgram
from gw.providers.sim import fsk
from gw.providers.spec import Account
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K
from gw.types.secret import Secret
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenRequest,
    SpeechStarted,
    TranscribeRequest,
    Transcript,
    UtteranceEnd,
    VendorFrame,
)
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage, VendorFigure
from gw.wire import deepgram_listen, g711, wav
from tests.fakes.golden import golden
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.vendors.deepgram import FakeDeepgram

TEXT = "Grüß Gott, Köln"
PCM = [*fsk.encode(TEXT, 16_000), bytes(16_000)]
FLUX = golden("deepgram/flux").decode().splitlines()
REFUSALS = [
    (400, ProviderRejected), (401, ProviderRejected), (402, ProviderFailed), (403, ProviderRejected), (404, ProviderRejected),
    (429, RateLimitError), (503, ProviderFailed),
]  # fmt: skip
"""Of a session each is for another candidate: what this vendor does not understand another may."""
CLOSES = [
    (1000, UpstreamCut), (1008, ProviderRejected), (1011, ProviderFailed), (1013, ProviderFailed), (4000, UpstreamCut)
]  # fmt: skip


class Rig:
    def __init__(self, nursery, model="nova-3", **fake):
        self.net = FakeNet(nursery)
        self.fake = FakeDeepgram(api_key="k-1", **fake)
        self.net.hosts["api.deepgram.com", 443] = hosted(self.fake)
        self.account = Account(
            provider_id="p", model=model, origin=Origin.parse(deepgram.SPEC.base_url), api_key=Secret("k-1"),
            pool=Pool(connect=self.net),
        )  # fmt: skip

    def listen(self, fmt=PCM_16K, **request):
        return deepgram.listen(ListenRequest(model="m", format=fmt, **request), self.account)

    def speak(self, fmt=PCM_24K, **request):
        return deepgram.speak_live(SpeakLiveRequest(model="m", format=fmt, **request), self.account)

    def replies(self, *answers):
        """In place of the fake: a server that says `answers[n]` after the client's frame n, None = closes without a code,
        and ends the connection after the last."""
        self.net.hosts["api.deepgram.com", 443] = _scripted(answers)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.fake.ledger[0].fields["query"]))

    async def check_nothing_left(self):
        await trio.testing.wait_all_tasks_blocked()
        assert (self.net.open, self.net.live) == (0, 0)


def _scripted(answers):
    async def serve(stream):
        protocol, left = ServerProtocol(), list(answers)
        while data := await stream.receive_some(65_536):
            protocol.receive_data(data)
            for event in protocol.events_received():
                if isinstance(event, Request):
                    protocol.send_response(protocol.accept(event))
                elif event.opcode in (Opcode.TEXT, Opcode.BINARY) and left:
                    for frame in left.pop(0):
                        if frame is None:
                            protocol.send_close()
                        else:
                            protocol.send_text(frame.encode())
            await stream.send_all(b"".join(protocol.data_to_send()))
            if not left:
                await stream.aclose()
                return

    return serve


@attrs.frozen
class Recording:
    data: bytes
    filename: str = "a.wav"
    content_type: str = "audio/wav"

    @property
    def size(self) -> int:
        return len(self.data)

    async def chunks(self):
        yield self.data


async def remainder(session, last=(ListenEnd, SpeakEnd)):
    events = []
    while not events or not isinstance(events[-1], last):
        events += await session.receive()
    return events


async def recognized(session, *pieces):
    for piece in pieces:
        await session.send_audio(piece)
    await session.finish()
    return await remainder(session)


async def listened(opened, *pieces):
    """Events of a session that stays open."""
    async with opened as session:
        for piece in pieces:
            await session.send_audio(piece)
        return await remainder(session)


async def spoken(opened, text):
    async with opened as session:
        await session.send_text(text)
        await session.flush()
        return await remainder(session)


# ---- whole requests


async def test_a_recording(nursery, autojump_clock):
    rig = Rig(nursery, transcript=TEXT)
    audio = wav.header(PCM_16K, 32_000) + bytes(32_000)
    request = TranscribeRequest(model="m", audio=Recording(audio), keyterms=("a b",))
    async with deepgram.transcribe(request, rig.account) as stream:
        (decoded,) = await stream.receive()
    assert isinstance(decoded, Transcript)
    assert (decoded.text, decoded.usage) == (TEXT, Usage(audio_seconds=1.0, source="vendor"))
    (entry,) = rig.fake.ledger
    assert (entry.headers["authorization"], entry.headers["content-type"]) == ("Token k-1", "audio/wav")
    assert (entry.audio, rig.query["keyterm"]) == (audio, "a b")


async def test_an_answer_that_is_no_transcript(nursery, autojump_clock):
    rig = Rig(nursery, malformed=True)
    with pytest.raises(UpstreamProtocolError):
        async with deepgram.transcribe(TranscribeRequest(model="m", audio=Recording(b"ab")), rig.account) as stream:
            await stream.receive()


async def test_speech_is_billed_as_the_vendor_says(nursery, autojump_clock):
    rig = Rig(nursery, "aura-2-thalia-en")
    async with deepgram.speak(SpeakRequest(model="m", text=TEXT, format=PCM_24K, speed=1.1), rig.account) as stream:
        events = await remainder(stream)
    figure = VendorFigure(amount=len(TEXT), unit="characters")
    assert events[-1] == SpeakEnd(usage=Usage(characters=len(TEXT), source="vendor", vendor_figure=figure))
    pcm = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    assert [done.text for done in fsk.decode(pcm, 24_000)] == [TEXT]
    assert rig.query == {
        "model": "aura-2-thalia-en", "encoding": "linear16", "sample_rate": "24000", "container": "none", "speed": "1.1"
    }  # fmt: skip


async def test_text_where_audio_was_expected(nursery, autojump_clock):
    async def text(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'{"request_id":"r"}'})

    rig = Rig(nursery)
    rig.net.hosts["api.deepgram.com", 443] = hosted(text)
    with pytest.raises(UpstreamProtocolError):
        async with deepgram.speak(SpeakRequest(model="m", text="a", format=PCM_24K), rig.account):
            pass


# ---- live transcription


async def test_a_live_session(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen(language="de", keyterms=("Köln",)) as session:
        events = await recognized(session, *PCM)
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert isinstance(events[0], SpeechStarted)
    assert any(isinstance(event, Interim) for event in events)
    assert [event.text for event in events if isinstance(event, Final)] == [TEXT]
    seconds = sum(map(len, PCM)) / 32_000
    assert events[-1] == ListenEnd(usage=Usage(audio_seconds=pytest.approx(seconds, abs=0.001), source="vendor"))
    (entry,) = rig.fake.ledger
    assert (entry.path, entry.headers["authorization"], entry.audio) == ("/v1/listen", "Token k-1", b"".join(PCM))
    assert (rig.query["model"], rig.query["language"], rig.query["keyterm"]) == ("nova-3", "de", "Köln")
    await rig.check_nothing_left()


async def test_telephone_audio_goes_as_it_is(nursery, autojump_clock):
    rig = Rig(nursery)
    pieces = [g711.pcm16_to_mulaw(piece) for piece in fsk.encode("hello", 8_000)]
    async with rig.listen(MULAW_8K) as session:
        events = await recognized(session, *pieces)
    assert [event.text for event in events if isinstance(event, Final)] == ["hello"]
    assert rig.fake.ledger[0].audio == b"".join(pieces)


async def test_a_silent_session_ends_as_well(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen() as session:
        assert await recognized(session, b"") == [ListenEnd(usage=Usage(source="vendor"))]
    assert rig.fake.ledger[0].audio == b""


async def wait_like_the_relay(session, seconds):
    with trio.move_on_after(seconds):
        while True:
            await trio.sleep_until(session.keep_alive_at)
            if (pending := session.keep_alive_or_pending()) is not None:
                await pending


async def test_a_session_is_kept_open_while_nobody_speaks(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen() as session:
        for _ in range(10):
            await trio.sleep(1)
            await session.send_audio(bytes(320))
        assert "kept" not in rig.fake.ledger[0].fields
        await wait_like_the_relay(session, 60)
        assert 11 <= rig.fake.ledger[0].fields["kept"] <= 12
        await recognized(session)
        keep_alives = rig.fake.ledger[0].fields["kept"]
        await wait_like_the_relay(session, 60)
        assert rig.fake.ledger[0].fields["kept"] == keep_alives
    await rig.check_nothing_left()


async def test_orders_of_a_session(nursery, autojump_clock):
    rig = Rig(nursery)
    configure = '{"type":"Configure","keyterms":["a"]}'
    async with rig.listen(dialect="deepgram") as session:
        await session.flush()
        await session.send_frame(configure)
        await recognized(session)
    fields = rig.fake.ledger[0].fields
    assert (fields["finalized"], fields["other"]) == (True, configure)


async def test_a_caller_of_the_same_dialect_has_its_settings_and_every_frame(nursery, autojump_clock):
    rig = Rig(nursery)
    own = (("model", "x"), ("interim_results", "true"), ("utterance_end_ms", "1000"), ("no_delay", "true"))
    async with rig.listen(dialect="deepgram", options=own) as session:
        events = await recognized(session, *PCM)
    assert rig.query == {
        "model": "nova-3", "encoding": "linear16", "sample_rate": "16000", "interim_results": "true",
        "utterance_end_ms": "1000", "no_delay": "true",
    }  # fmt: skip
    frames = [event.raw for event in events if event.raw is not None]
    assert all('"type":"' in frame for frame in frames)
    assert any('"UtteranceEnd"' in frame for frame in frames)
    assert '"Metadata"' in frames[-1]
    assert any(isinstance(event, VendorFrame) for event in events)


@pytest.mark.parametrize("model", ["nova-3", "flux-general-en"])
@pytest.mark.parametrize(("status", "error"), REFUSALS)
async def test_a_refused_handshake(model, status, error, nursery, autojump_clock):
    rig = Rig(nursery, model, status=status)
    with pytest.raises(error) as caught:
        async with rig.listen():
            pass
    assert caught.value.retryable
    await rig.check_nothing_left()


@pytest.mark.parametrize("model", ["nova-3", "flux-general-en"])
@pytest.mark.parametrize(("code", "error"), CLOSES)
async def test_a_session_the_vendor_closes(model, code, error, nursery, autojump_clock):
    rig = Rig(nursery, model, close_after=(3, code))
    with pytest.raises(error) as caught:
        await listened(rig.listen(), *[bytes(3_200)] * 3)
    assert caught.value.retryable
    await rig.check_nothing_left()


@pytest.mark.parametrize("model", ["nova-3", "flux-general-en"])
async def test_a_connection_that_ends(model, nursery, autojump_clock):
    rig = Rig(nursery, model)
    rig.replies([FLUX[0]])
    with pytest.raises(UpstreamCut):
        await listened(rig.listen(), bytes(320))
    await rig.check_nothing_left()


@pytest.mark.parametrize("model", ["nova-3", "flux-general-en"])
async def test_an_error_frame(model, nursery, autojump_clock):
    rig = Rig(nursery, model, session_error_after=2, error_code="NET-0001")
    with pytest.raises(ProviderFailed) as caught:
        async with rig.listen() as session:
            await recognized(session, bytes(3_200))
    assert caught.value.upstream_code == "NET-0001"
    await rig.check_nothing_left()


@pytest.mark.parametrize("model", ["nova-3", "flux-general-en"])
async def test_rubbish_in_a_frame(model, nursery, autojump_clock):
    rig = Rig(nursery, model)
    rig.replies(["{"])
    with pytest.raises(UpstreamProtocolError):
        await listened(rig.listen(), bytes(320))
    await rig.check_nothing_left()


@pytest.mark.parametrize("model", ["nova-3", "flux-general-en"])
async def test_leaving_in_mid_session_leaves_nothing(model, nursery, autojump_clock):
    rig = Rig(nursery, model)
    with trio.move_on_after(5):
        async with rig.listen() as session:
            await session.send_audio(bytes(320))
            await remainder(session)
    await rig.check_nothing_left()


# ---- live transcription by turns


async def test_a_session_by_turns(nursery, autojump_clock):
    rig = Rig(nursery, "flux-general-multi")
    async with rig.listen(language="de-DE", keyterms=("Köln",), endpointing_ms=25) as session:
        events = await recognized(session, *PCM)
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert isinstance(events[0], SpeechStarted)
    assert [event.text for event in events if isinstance(event, Final)] == [TEXT]
    assert [type(event) for event in events[-3:]] == [Final, UtteranceEnd, ListenEnd]
    assert all(event.raw is None for event in events)
    (entry,) = rig.fake.ledger
    assert (entry.path, entry.headers["authorization"], entry.audio) == ("/v2/listen", "Token k-1", b"".join(PCM))
    assert rig.query == {
        "model": "flux-general-multi", "encoding": "linear16", "sample_rate": "16000", "language_hint": "de", "keyterm": "Köln"
    }  # fmt: skip
    await rig.check_nothing_left()


async def test_a_turn_is_ended_on_demand(nursery, autojump_clock):
    rig = Rig(nursery, "flux-general-en")
    async with rig.listen() as session:
        for piece in PCM[:40]:   # in the middle of a word
            await session.send_audio(piece)
        while not isinstance((await session.receive())[-1], Interim):
            pass
        await session.flush()
        assert isinstance((await remainder(session, UtteranceEnd))[-1], UtteranceEnd)


async def test_the_last_turn_stands_though_the_vendor_does_not_end_it(nursery, autojump_clock):
    rig = Rig(nursery, "flux-general-en")
    rig.replies(FLUX[:2], FLUX[9:], [None], [])
    async with rig.listen() as session:
        events = await recognized(session, bytes(320), bytes(320))
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert [event.text for event in events if isinstance(event, Final)] == ["Moment"]
    assert events[-1] == ListenEnd()


async def test_a_caller_of_the_same_protocol_has_its_settings_and_every_frame(nursery, autojump_clock):
    rig = Rig(nursery, "flux-general-en")
    options = (deepgram_listen.BY_TURNS, ("model", "x"), ("eager_eot_threshold", "0.4"), ("keyterm", "a"))
    configure = '{"type":"Configure","thresholds":{"eot_threshold":0.9}}'
    async with rig.listen(dialect="deepgram", options=options) as session:
        await session.send_frame(configure)
        (answer,) = await session.receive()
        events = await recognized(session, *PCM)
    assert isinstance(answer, VendorFrame)
    assert '"ConfigureSuccess"' in str(answer.raw)
    assert rig.fake.ledger[0].fields["other"] == configure
    assert rig.query["eager_eot_threshold"] == "0.4"
    assert "/v2/listen" not in rig.query
    assert '"StartOfTurn"' in str(events[0].raw)
    assert isinstance(events[0], SpeechStarted)


async def test_callers_of_the_two_protocols_do_not_get_each_others_frames(nursery, autojump_clock):
    for model, options in (("flux-general-en", ()), ("nova-3", (deepgram_listen.BY_TURNS,))):
        rig = Rig(nursery, model)
        async with rig.listen(dialect="deepgram", options=options) as session:
            if model.startswith("flux"):
                await session.send_frame('{"type":"Configure","features":{"numerals":true}}')
            events = await recognized(session, *PCM)
        assert "other" not in rig.fake.ledger[0].fields
        assert [event.text for event in events if isinstance(event, Final)] == [TEXT]
        assert all(event.raw is None for event in events)


# ---- live speech


async def test_speech_in_pieces(nursery, autojump_clock):
    rig = Rig(nursery, "aura-2-thalia-en")
    async with rig.speak() as session:
        for piece in ("", "Grüß ", "Gott, ", "Köln"):
            await session.send_text(piece)
        await session.finish()
        events = await remainder(session)
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert session.format == PCM_24K
    assert events[-1] == SpeakEnd(usage=Usage(characters=len(TEXT), source="measured"))
    pcm = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    assert [done.text for done in fsk.decode(pcm, 24_000)] == [TEXT]
    assert not any(isinstance(event, Flushed) for event in events)
    assert rig.fake.ledger[0].headers["authorization"] == "Token k-1"
    await rig.check_nothing_left()


async def test_what_is_flushed_comes_before_what_is_said_later(nursery, autojump_clock):
    rig = Rig(nursery, "aura-2-thalia-en")
    async with rig.speak(MULAW_8K) as session:
        await session.send_text("one")
        await session.flush()
        first = await remainder(session, Flushed)
        await session.send_text("two")
        await session.finish()
        second = await remainder(session)
    sentence_text = [
        b"".join(g711.mulaw_to_pcm16(event.data) for event in events if isinstance(event, AudioChunk))
        for events in (first, second)
    ]
    assert [[done.text for done in fsk.decode(pcm, 8_000)] for pcm in sentence_text] == [["one"], ["two"]]
    assert (rig.query["encoding"], rig.query["sample_rate"]) == ("mulaw", "8000")


async def test_what_was_cleared_is_not_spoken(nursery, autojump_clock):
    rig = Rig(nursery, "aura-2-thalia-en")
    async with rig.speak() as session:
        await session.send_text("never mind")
        await session.clear()
        await session.send_text("hello")
        await session.finish()
        events = await remainder(session)
    pcm = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    assert [done.text for done in fsk.decode(pcm, 24_000)] == ["hello"]


async def test_nothing_to_say(nursery, autojump_clock):
    rig = Rig(nursery, "aura-2-thalia-en")
    async with rig.speak() as session:
        await session.send_text("")
        await session.finish()
        assert await remainder(session) == [SpeakEnd(usage=Usage(source="measured"))]
    await rig.check_nothing_left()


async def test_frames_of_a_caller_of_the_same_dialect(nursery, autojump_clock):
    rig = Rig(nursery, "aura-2-thalia-en")
    async with rig.speak(dialect="deepgram", options=(("model", "x"), ("mip_opt_out", "true"))) as session:
        await session.send_frame('{"type":"Speak","text":"hello"}')
        await session.send_frame('{"type":"Flush"}')
        events = await remainder(session, Flushed)
        await session.send_frame('{"type":"Close"}')
        last = await remainder(session)
    assert isinstance(events[0], VendorFrame)
    assert '"Metadata"' in str(events[0].raw)
    assert '"Flushed"' in str(events[-1].raw)
    assert last == [SpeakEnd(usage=Usage(characters=5, source="measured"))]
    assert (rig.query["model"], rig.query["mip_opt_out"]) == ("aura-2-thalia-en", "true")


@pytest.mark.parametrize(("status", "error"), REFUSALS)
async def test_a_refused_handshake_of_speech(status, error, nursery, autojump_clock):
    rig = Rig(nursery, status=status)
    with pytest.raises(error) as caught:
        async with rig.speak():
            pass
    assert caught.value.retryable
    await rig.check_nothing_left()


@pytest.mark.parametrize(("code", "error"), CLOSES)
async def test_speech_the_vendor_closes(code, error, nursery, autojump_clock):
    rig = Rig(nursery, close_after=(2, code))
    with pytest.raises(error) as caught:
        await spoken(rig.speak(), "a")
    assert caught.value.retryable
    await rig.check_nothing_left()


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        (["{"], UpstreamProtocolError), (['{"type":"Error","code":"NET-0001"}'], ProviderFailed), ([None], UpstreamCut),
        (['{"type":"Error","code":"DATA-0002"}'], ProviderRejected), ([], UpstreamCut),
    ],
)  # fmt: skip
async def test_faults_in_the_middle_of_speech(frames, error, nursery, autojump_clock):
    rig = Rig(nursery)
    rig.replies([], frames)
    with pytest.raises(error) as caught:
        await spoken(rig.speak(), "a")
    assert caught.value.retryable
    await rig.check_nothing_left()


def test_no_key_is_no_header():
    assert deepgram.key_headers(Secret("")) == []
    assert deepgram.key_headers(Secret("k")) == [(b"authorization", b"Token k")]


# ---- Flux TTS


async def test_flux_speaks_at_its_own_path(nursery, autojump_clock):
    rig = Rig(nursery, model="flux-alexis-en", speech_gap_s=0.1)
    async with rig.speak(dialect="deepgram", options=(("mip_opt_out", "true"),)) as session:
        await session.send_text("Hello there. ")
        await session.flush()
        await session.send_text("Bye.")
        await session.finish()
        events = []
        while not events or not isinstance(events[-1], SpeakEnd):
            events += await session.receive()
    sound = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    assert [done.text for done in fsk.decode(sound, 24_000)] == ["Hello there. ", "Bye."]
    assert sum(isinstance(event, Flushed) for event in events) == 1
    figure = VendorFigure(amount=17, unit="characters")
    assert events[-1].usage == Usage(characters=17, source="vendor", vendor_figure=figure)
    assert rig.fake.ledger[0].path == "/v2/speak"
    assert rig.query == {"model": "flux-alexis-en", "encoding": "linear16", "sample_rate": "24000", "mip_opt_out": "true"}
    await rig.check_nothing_left()


async def test_flux_is_interrupted(nursery, autojump_clock):
    rig = Rig(nursery, model="flux-alexis-en")
    async with rig.speak() as session:
        await session.send_text("Never mind. ")
        await session.clear()
        await session.send_text("Bye.")
        await session.finish()
        events = []
        while not events or not isinstance(events[-1], SpeakEnd):
            events += await session.receive()
    sound = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    assert [done.text for done in fsk.decode(sound, 24_000)] == ["Bye."]
    await rig.check_nothing_left()


async def test_flux_over_http(nursery, autojump_clock):
    rig = Rig(nursery, model="flux-alexis-en")
    request = SpeakRequest(model="m", text="Hello.", voice="", format=PCM_24K)
    async with deepgram.speak(request, rig.account) as stream:
        events = []
        while not events or not isinstance(events[-1], SpeakEnd):
            events += await stream.receive()
    assert rig.fake.ledger[0].path == "/v2/speak"
    assert any(isinstance(event, AudioChunk) for event in events)


@pytest.mark.parametrize(
    ("code", "reason", "fault"),
    [(1008, "DATA-0000: cannot be decoded", "request"), (1008, "MESSAGE-0000", "request"), (1008, "bad key", "candidate")],
)
def test_a_close_names_what_was_refused(code, reason, fault):
    error = deepgram._close_error("p", WsClosed(code, reason))
    assert isinstance(error, ProviderRejected)
    assert (error.fault, error.upstream_code) == (fault, reason.partition(":")[0] if fault == "request" else "")
