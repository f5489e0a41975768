"""OpenAI's and Anthropic's SDKs, unchanged and with their own retries: a refusal is paid once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import trio

from tests.fakes.running import open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.openai import FakeOpenAI

pytestmark = pytest.mark.clients
T = TypeVar("T")
CONFIG = """
providers:
  one: {{type: openai, api_key: test-key, base_url: "{one}/v1"}}
  two: {{type: openai, api_key: test-key, base_url: "{two}/v1"}}
models: {{llm: [one/m, two/m]}}
fallbacks: {{llm: [one/m, two/m]}}
"""
QUESTION = {"messages": [{"role": "user", "content": "hi"}], "model": "one/m"}


class Setting:
    def __init__(self, url: str, fakes: list[FakeOpenAI]) -> None:
        self.url = url
        self.fakes = fakes

    @property
    def calls(self) -> list[int]:
        return [len(fake.ledger) for fake in self.fakes]

    async def ask(self, use: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(use)


@pytest.fixture
async def setting(nursery, tmp_path):
    fakes = [FakeOpenAI(api_key="test-key", models=("m",)) for _ in range(2)]
    one, two = [await nursery.start(serve_asgi, fake) for fake in fakes]
    async with open_running(tmp_path, CONFIG.format(one=one, two=two)) as running:
        yield Setting(running.url, fakes)


@pytest.mark.parametrize("stream", [False, True])
async def test_openai_gets_the_last_refusal_once(setting, stream):
    import openai

    for fake in setting.fakes:
        fake.refuse = "refusal"

    def use() -> str:
        with openai.OpenAI(base_url=f"{setting.url}/v1", api_key="any") as client:
            if not stream:
                return client.chat.completions.create(**QUESTION).choices[0].message.refusal
            chunks = list(client.chat.completions.create(**QUESTION, stream=True))
            return "".join(chunk.choices[0].delta.refusal or "" for chunk in chunks if chunk.choices)

    assert await setting.ask(use) == "I cannot help with that."
    assert setting.calls == [1, 1]


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropic_gets_the_last_refusal_once(setting, stream):
    import anthropic

    for fake in setting.fakes:
        fake.refuse = "content_filter"

    def use() -> str | None:
        with anthropic.Anthropic(base_url=setting.url, api_key="any") as client:
            if not stream:
                return client.messages.create(**QUESTION, max_tokens=50).stop_reason
            with client.messages.stream(**QUESTION, max_tokens=50) as events:
                return events.get_final_message().stop_reason

    assert await setting.ask(use) == "refusal"
    assert setting.calls == [1, 1]


async def test_a_context_that_is_too_long_everywhere_is_one_400(setting):
    import openai

    for fake in setting.fakes:
        fake.status, fake.error_code = 400, "context_length_exceeded"

    def use() -> openai.BadRequestError:
        with openai.OpenAI(base_url=f"{setting.url}/v1", api_key="any") as client:
            with pytest.raises(openai.BadRequestError) as caught:
                client.chat.completions.create(**QUESTION)
            return caught.value

    assert (await setting.ask(use)).code == "context_length_exceeded"
    assert setting.calls == [1, 1]
