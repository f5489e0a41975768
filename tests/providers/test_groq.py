"""Members that Groq refuses are left out of a request of OpenAI's."""

from __future__ import annotations

import msgspec
import pytest

from gw.net.http1 import Origin, Pool
from gw.providers import groq
from gw.providers.spec import Account
from gw.types.secret import Secret
from gw.wire import openai_chat
from tests.fakes.hosting import hosted
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
