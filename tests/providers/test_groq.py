"""Members that Groq refuses are left out of a request of OpenAI's; its speech is a WAV, whatever the caller wants."""

from __future__ import annotations

import msgspec
import pytest

from gw.net.http1 import Origin, Pool
from gw.providers import groq
from gw.providers.spec import Account
from gw.types.secret import Secret
from gw.wire import openai_chat
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.net import FakeNet
from tests.fakes.vendors.openai import FakeOpenAI

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("requested", "sent"),
    [
        ({}, {}),
        ({"logprobs": True, "top_logprobs": 2, "logit_bias": {"1": 2}, "seed": 3}, {"seed": 3}),
        ({"messages": [{"role": "user", "name": "Ann", "content": "hi"}]}, {"messages": [{"role": "user", "content": "hi"}]}),
        (
            {"messages": [{"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "content": '"name"', "tool_call_id": "c"}]},
            {"messages": [{"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "content": '"name"', "tool_call_id": "c"}]},
        ),
    ],
)
async def test_what_is_sent(requested, sent, nursery, autojump_clock):
    fake = FakeOpenAI(prefix="/openai/v1")
    net = FakeNet(nursery)
    net.hosts["api.groq.com", 443] = hosted(fake)
    account = Account(
        provider_id="p",
        model="openai/gpt-oss-20b",
        origin=Origin.parse(groq.SPEC.base_url),
        api_key=Secret("k"),
        pool=Pool(connect=net),
    )
    plain = {"messages": [{"role": "user", "content": "hi"}]}
    request = openai_chat.parse_request(msgspec.json.encode({"model": "m", **plain, **requested}))
    async with groq.chat(request, account) as answer:
        await answer.receive()
    (entry,) = fake.ledger
    assert entry.path == "/openai/v1/chat/completions"
    assert entry.fields == {"model": "openai/gpt-oss-20b", **plain, **sent}


@pytest.mark.parametrize(
    ("wanted", "content_type"), [("mp3", "audio/mpeg"), ("pcm", "audio/pcm"), ("mulaw", "audio/basic"), ("wav", "audio/wav")]
)
async def test_speech_is_requested_as_wav_and_converted(wanted, content_type, tmp_path, autojump_clock):
    fake = FakeOpenAI(prefix="/openai/v1", api_key="k", speech_pcm=b"\x00\x40" * 24_000)
    config = """
    providers: {groq: {api_key: k, base_url: "http://groq.test/openai/v1"}}
    models: {tts: {groq/canopylabs/orpheus-v1-english: {}}}
    """
    async with open_plane(config, tmp_path) as plane:
        plane.net.hosts["groq.test", 80] = hosted(fake)
        body = {"model": "groq/canopylabs/orpheus-v1-english", "input": "alpha", "voice": "autumn", "response_format": wanted}
        reply = await plane.post("/v1/audio/speech", msgspec.json.encode(body))
    assert (reply.status, reply.headers["content-type"]) == (200, content_type), reply.body[:300]
    assert [entry.fields["response_format"] for entry in fake.ledger] == ["wav"]
