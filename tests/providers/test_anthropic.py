"""The Messages API over HTTP; its codec has separate tests."""

from __future__ import annotations

import msgspec
import pytest

from gw.errors import ProviderRejected
from gw.net.http1 import Origin, Pool
from gw.providers import anthropic
from gw.providers.spec import Account
from gw.types.llm import ChatEnd, Completion, Delta
from gw.types.secret import Secret
from gw.wire import anthropic_messages_answer, anthropic_messages_request, openai_chat
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.vendors.anthropic import FakeAnthropic

NATIVE = {
    "model": "mine",
    "max_tokens": 50,
    "messages": [{"role": "user", "content": "hi"}],
    "thinking": {"type": "adaptive"},
    "stream": True,
}


@pytest.fixture
def fake():
    return FakeAnthropic(api_key="k-1", reply="Hello there")


@pytest.fixture
def account(fake, nursery):
    net = FakeNet(nursery)
    net.hosts["api.test", 80] = hosted(fake)
    return Account(
        provider_id="p",
        model="claude-haiku-4-5",
        origin=Origin.parse("http://api.test"),
        api_key=Secret("k-1"),
        pool=Pool(connect=net),
    )


async def answered(request, account):
    events = []
    async with anthropic.chat(request, account) as stream:
        while not events or not isinstance(events[-1], (ChatEnd, Completion)):
            events += await stream.receive()
    return events


async def test_the_key_and_the_version_stand_in_headers(fake, account, autojump_clock):
    body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    await answered(openai_chat.parse_request(body), account)
    (entry,) = fake.ledger
    assert (entry.path, entry.headers["x-api-key"], entry.headers["anthropic-version"]) == ("/v1/messages", "k-1", "2023-06-01")
    assert "authorization" not in entry.headers


@pytest.mark.parametrize("stream", [True, False])
async def test_a_caller_of_the_same_dialect_gets_what_was_sent(stream, fake, account, autojump_clock):
    native = msgspec.json.encode({**NATIVE, "stream": stream})
    events = await answered(anthropic_messages_request.parse_request(native), account)
    assert fake.ledger[0].fields == {**NATIVE, "model": "claude-haiku-4-5", "stream": stream}
    encoder = anthropic_messages_answer.MessagesEncoder(id="x", model="x")
    decoded = encoder.encode(events) if stream else encoder.answer(events)
    assert b'"id":"msg_1"' in decoded
    assert b"Hello" in decoded
    if stream:
        assert decoded.startswith(b"event: ping\n")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_caller_of_another_dialect_gets_no_raw(stream, fake, account, autojump_clock):
    body = msgspec.json.encode({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}]})
    events = await answered(openai_chat.parse_request(body), account)
    assert all(event.raw is None for event in events if isinstance(event, (Delta, Completion)))


async def test_what_cannot_be_said_is_this_candidates_fault(fake, account, autojump_clock):
    part = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": [part]}]})
    with pytest.raises(ProviderRejected) as caught:
        await answered(openai_chat.parse_request(body), account)
    assert caught.value.retryable
    assert fake.ledger == []
