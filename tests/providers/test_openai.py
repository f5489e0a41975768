"""Live transcription at OpenAI: the address, what ends a session, and what is left of it."""

from __future__ import annotations

import msgspec
import pytest
import trio
import trio.testing

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, UpstreamCut, UpstreamProtocolError
from gw.net.http1 import Origin, Pool
from gw.providers import openai
from gw.providers.sim import fsk
from gw.providers.spec import Account
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.types.llm import ChatRequest
from gw.types.secret import Secret
from gw.types.stt import Final, ListenEnd, ListenRequest, UtteranceEnd
from gw.wire import g711, openai_chat, openai_responses_request
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.vendors.openai import FakeOpenAI


class Rig:
    def __init__(self, nursery, host="stt.test", model="whisper-x", **fake):
        self.net = FakeNet(nursery)
        self.fake = FakeOpenAI(api_key="k-1", **fake)
        self.paths = []
        self.net.hosts[host, 80] = hosted(self._noting)
        self.account = Account(
            provider_id="p", model=model, origin=Origin.parse(f"http://{host}/v1"), api_key=Secret("k-1"), pool=Pool(connect=self.net)
        )

    async def _noting(self, scope, receive, send):
        self.paths.append(scope["path"] + "?" + scope["query_string"].decode())
        await self.fake(scope, receive, send)

    def listen(self, fmt=PCM_16K, **request):
        return openai.listen(ListenRequest(model="m", format=fmt, **request), self.account)

    async def check_nothing_left(self):
        await trio.testing.wait_all_tasks_blocked()
        assert (self.net.open, self.net.live) == (0, 0)


async def transcript(session, *pieces):
    for piece in pieces:
        await session.send_audio(piece)
    await session.finish()
    events = []
    while not events or not isinstance(events[-1], ListenEnd):
        events += await session.receive()
    return events


@pytest.mark.parametrize(
    ("host", "query"),
    [("api.openai.com", "intent=transcription"), ("stt.test", "intent=transcription&model=a%2Fb%20c")],
)
async def test_the_address(host, query, nursery, autojump_clock):
    rig = Rig(nursery, host, "a/b c")
    async with rig.listen() as session:
        await transcript(session)
    assert rig.paths == [f"/v1/realtime?{query}"]
    assert rig.fake.ledger[0].fields["model"] == "a/b c"
    await rig.check_nothing_left()


async def test_the_end_of_a_silent_session(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen() as session:
        ended, last = await transcript(session, bytes(32_000))
        assert (type(ended), type(last)) == (UtteranceEnd, ListenEnd)
        assert ended.at_s == pytest.approx(1, abs=0.001)
        with pytest.raises(UpstreamCut):
            await session.receive()
    await rig.check_nothing_left()


async def test_telephone_audio_goes_as_it_is(nursery, autojump_clock):
    rig = Rig(nursery)
    pieces = [g711.pcm16_to_mulaw(piece) for piece in fsk.encode("hello there", 8_000)]
    async with rig.listen(MULAW_8K) as session:
        events = await transcript(session, *pieces)
    assert [e.text for e in events if isinstance(e, Final)] == ["hello there"]
    assert rig.fake.ledger[0].audio == b"".join(pieces)
    assert rig.fake.ledger[0].fields["format"] == MULAW_8K


async def test_a_flush_commits_what_came(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen() as session:
        await session.flush()   # nothing came: nothing is sent
        await session.send_audio(bytes(3_200))
        await session.flush()
        assert await session.receive() == [UtteranceEnd(at_s=pytest.approx(0.1, abs=0.01))]


async def test_audio_that_is_not_raw_is_for_another_candidate(nursery, autojump_clock):
    rig = Rig(nursery)
    with pytest.raises(ProviderRejected) as caught:
        async with rig.listen(AudioFormat(encoding="opus")):
            pass
    assert caught.value.retryable
    assert rig.net.transports == []


@pytest.mark.parametrize(
    ("code", "error"),
    [(1000, UpstreamCut), (1008, ProviderRejected), (1011, ProviderFailed), (1013, ProviderFailed), (4000, UpstreamCut)],
)
async def test_a_session_the_vendor_closes(code, error, nursery, autojump_clock):
    rig = Rig(nursery, close_after=(3, code))
    with pytest.raises(error) as caught:
        async with rig.listen() as session:
            await transcript(session, bytes(3_200), bytes(3_200), bytes(3_200))
    assert caught.value.retryable
    await rig.check_nothing_left()


async def test_an_error_event(nursery, autojump_clock):
    rig = Rig(nursery, session_error_after=2)
    with pytest.raises(ProviderFailed):
        async with rig.listen() as session:
            await transcript(session, bytes(3_200))
    await rig.check_nothing_left()


@pytest.mark.parametrize(("status", "error"), [(401, ProviderRejected), (404, ProviderRejected), (500, ProviderFailed)])
async def test_a_refused_handshake(status, error, nursery, autojump_clock):
    rig = Rig(nursery, status=status)
    with pytest.raises(error):
        async with rig.listen():
            pass
    await rig.check_nothing_left()


async def test_rubbish_in_a_frame(nursery, autojump_clock):
    async def rubbish(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "{"})
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
            while True:
                await session.receive()
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(5, abs=0.06)
    await rig.fake.ledger[0].aborted.wait()
    await rig.check_nothing_left()


async def test_a_caller_of_the_same_dialect_sends_its_own_frames(nursery, autojump_clock):
    rig = Rig(nursery)
    async with rig.listen(dialect="openai") as session:
        await session.send_frame('{"type":"input_audio_buffer.clear"}')
        raws = []
        while not raws or b"cleared" not in raws[-1]:
            raws += [event.raw.encode() for event in await session.receive()]
    assert [kind for kind in (b"session.created", b"session.updated", b"cleared") if any(kind in raw for raw in raws)] == [
        b"session.created", b"session.updated", b"cleared",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "requested", "sent"),
    [
        ("gpt-5.6-sol", {"max_tokens": 5}, {"max_completion_tokens": 5}),
        ("o3", {"max_tokens": 5, "max_completion_tokens": 6}, {"max_tokens": 5, "max_completion_tokens": 6}),
        ("gpt-4.1", {"max_tokens": 5}, {"max_tokens": 5}),
    ],
)
async def test_the_limit_by_the_name_a_model_takes(model, requested, sent, nursery, autojump_clock):
    rig = Rig(nursery, model=model)
    body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "hi"}], **requested})
    async with openai.chat(openai_chat.parse_request(body), rig.account) as answer:
        await answer.receive()
    fields = rig.fake.ledger[0].fields
    assert {name: value for name, value in fields.items() if name.startswith("max_")} == sent


async def test_nobody_there(nursery, autojump_clock):
    rig = Rig(nursery)
    rig.net.hosts.clear()
    with pytest.raises(ProviderError) as caught:
        async with rig.listen():
            pass
    assert caught.value.outcome == "unreachable"


async def test_a_response_left_while_the_server_is_dialled_has_not_begun(nursery, autojump_clock):
    """What was never sent costs nothing; what was sent to a server without `/responses` was sent."""
    fields = {"model": msgspec.Raw(b'"m"'), "messages": msgspec.Raw(b'[{"role":"user","content":"hi"}]')}
    request = ChatRequest(model="m", fields=fields, dialect=openai_responses_request.DIALECT, native=b'{"model":"m","input":"hi"}')
    rig = Rig(nursery)
    rig.net.connect_s["stt.test"] = 60
    call = openai.chat(request, rig.account)
    with trio.move_on_after(1):
        async with call:
            pass
    assert not call.began
    rig.net.connect_s["stt.test"] = 0
    rig.fake.status = [404, 500]
    call = openai.chat(request, rig.account)
    with pytest.raises(ProviderError):
        async with call:
            pass
    assert call.began
