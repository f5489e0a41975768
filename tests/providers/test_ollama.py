"""The API that an Ollama entry uses."""

from __future__ import annotations

import msgspec
import pytest

from gw.net.http1 import Origin, Pool
from gw.providers import ollama
from gw.providers.spec import Account
from gw.types.llm import ChatEnd, Delta
from gw.types.secret import Secret
from gw.wire import ollama_chat, openai_chat
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.vendors.ollama import FakeOllama
from tests.fakes.vendors.openai import FakeOpenAI

BODY = msgspec.json.encode({"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]})


def account(fake, nursery, **options):
    net = FakeNet(nursery)
    net.hosts["127.0.0.1", 11434] = hosted(fake)
    origin = Origin.parse(ollama.SPEC.base_url)
    return Account(provider_id="p", model="llama3.2:3b", origin=origin, api_key=Secret(""), pool=Pool(connect=net), options=options)


async def answered(request, to):
    events = []
    async with ollama.chat(request, to) as stream:
        while not events or not isinstance(events[-1], ChatEnd):
            events += await stream.receive()
    return events


async def test_native_with_the_entrys_settings(nursery, autojump_clock):
    fake = FakeOllama()
    events = await answered(openai_chat.parse_request(BODY), account(fake, nursery, num_ctx=8_192, keep_alive="30m", think=False))
    (entry,) = fake.ledger
    assert entry.path == "/api/chat"
    assert entry.fields["options"] == {"num_ctx": 8_192}
    assert (entry.fields["keep_alive"], entry.fields["think"], entry.fields["model"]) == ("30m", False, "llama3.2:3b")
    assert all(event.raw is None for event in events if isinstance(event, Delta))


async def test_the_openai_face(nursery, autojump_clock):
    fake = FakeOpenAI()
    events = await answered(openai_chat.parse_request(BODY), account(fake, nursery, api="openai", num_ctx=8_192))
    (entry,) = fake.ledger
    assert entry.path == "/v1/chat/completions"
    assert "options" not in entry.fields
    assert all(event.raw is not None for event in events if isinstance(event, Delta))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_caller_of_the_same_dialect_gets_what_was_sent(stream, nursery, autojump_clock):
    fake = FakeOllama(reply="Hello there")
    native = msgspec.json.encode({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}], "logprobs": True})
    events = []
    async with ollama.chat(ollama_chat.parse_request(native), account(fake, nursery)) as answer:
        while not events or not (isinstance(events[-1], ChatEnd) or not stream):
            events += await answer.receive()
    assert fake.ledger[0].fields["logprobs"] is True
    encoder = ollama_chat.OllamaEncoder(model="x", created_at="x")
    decoded = encoder.encode(events) if stream else encoder.answer(events)
    assert b"2026-11-20T10:00:00.123456789Z" in decoded
    assert (b" there" if stream else b"Hello there") in decoded
