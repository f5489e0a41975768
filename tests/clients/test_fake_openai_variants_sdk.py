"""The SDKs of vendors that are a file, unchanged, against the fakes that have their conventions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cerebras.cloud.sdk
import fireworks
import mistralai.client
import mistralai.client.errors
import openai
import openrouter
import openrouter.errors
import pytest
import sambanova
import together
import trio

from gw.types.usage import Usage
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.openai_variants import CONVENTIONS, FakeVariant

pytestmark = pytest.mark.clients
HI: Any = [{"role": "user", "content": "Say hello"}]
TEXT, THOUGHT = "Hello there, how are you?", "let me think"
STAINLESS: dict[str, Any] = {
    "cerebras": cerebras.cloud.sdk.Cerebras, "fireworks": fireworks.Fireworks, "sambanova": sambanova.SambaNova,
    "together": together.Together, "deepseek": openai.OpenAI, "xai": openai.OpenAI, "gemini": openai.OpenAI,
}  # fmt: skip
"""Clients of one generator. The last three vendors name OpenAI's SDK in their documentation."""


@pytest.fixture
async def ask(nursery):
    """Run a function of a vendor's address in a thread, and return its result and the fake."""

    async def run(name: str, use: Callable[[str], Any], **options: Any) -> tuple[Any, FakeVariant]:
        fake = FakeVariant(
            api_key="test-key", conventions=CONVENTIONS[name], usage=Usage(input_tokens=100, output_tokens=20, source="vendor"),
            reasoning=THOUGHT, cached_tokens=40, prefix="/v1", **options,
        )
        address = await nursery.start(serve_asgi, fake)
        return await trio.to_thread.run_sync(use, address), fake

    return run


def client_of(name: str, address: str, **options: Any) -> Any:
    root = address if name in ("cerebras", "fireworks", "together") else address + "/v1"   # paths of the three begin with the version
    more = {"warm_tcp_connection": False} if name == "cerebras" else {}
    return STAINLESS[name](**{"base_url": root, "api_key": "test-key", "max_retries": 0, "timeout": 10, **more, **options})


def reasoning_of(message: Any) -> str:
    return getattr(message, "reasoning", None) or getattr(message, "reasoning_content", None) or ""


@pytest.mark.parametrize("name", STAINLESS)
async def test_an_answer(ask, name):
    answer, _ = await ask(name, lambda address: client_of(name, address).chat.completions.create(model="m", messages=HI))
    message = answer.choices[0].message
    assert (message.content, reasoning_of(message)) == (TEXT, THOUGHT)
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (100, 123)
    assert answer.usage.completion_tokens == (23 if CONVENTIONS[name].reasoning_counts == "inside" else 20)


@pytest.mark.parametrize("name", STAINLESS)
async def test_a_streamed_answer_and_its_usage(ask, name):
    options = {} if CONVENTIONS[name].usage == "last chunk" else {"stream_options": {"include_usage": True}}
    if name == "together":   # its SDK has no such parameter, and its API has
        options = {"extra_body": options}

    def streamed(address: str) -> list[Any]:
        with client_of(name, address) as client:
            return list(client.chat.completions.create(model="m", messages=HI, stream=True, **options))

    chunks, _ = await ask(name, streamed)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == TEXT
    assert "".join(map(reasoning_of, deltas)) == THOUGHT
    assert chunks[-1].usage.prompt_tokens == 100


@pytest.mark.parametrize("name", ["cerebras", "gemini", "xai"])
async def test_what_is_refused_is_an_error_of_the_sdk(ask, name):
    def refused(address: str) -> Any:
        error = cerebras.cloud.sdk.BadRequestError if name == "cerebras" else openai.BadRequestError
        messages = [{**HI[0], "name": "Ann"}] if name == "xai" else HI
        with client_of(name, address) as client, pytest.raises(error) as caught:
            client.chat.completions.create(model="m", messages=messages, extra_body={"logit_bias": {}})
        return caught.value

    error, _ = await ask(name, refused)
    assert error.status_code == 400


async def test_keys_are_checked(ask):
    def refused(address: str) -> Any:
        with pytest.raises(together.AuthenticationError):
            client_of("together", address, api_key="wrong").chat.completions.create(model="m", messages=HI)

    await ask("together", refused)


# ---- SDKs of other generators


async def test_mistral(ask):
    def use(address: str) -> tuple[Any, list[Any]]:
        with mistralai.client.Mistral(api_key="test-key", server_url=address) as client:
            answer = client.chat.complete(model="m", messages=HI, max_tokens=9, random_seed=3)
            with client.chat.stream(model="m", messages=HI) as stream:
                return answer, [event.data for event in stream]

    (answer, chunks), fake = await ask("mistral", use)
    thought, text = answer.choices[0].message.content
    assert (thought.type, thought.thinking[0].text, text.text) == ("thinking", THOUGHT, TEXT)
    assert answer.usage.total_tokens == 123
    assert chunks[-1].usage.completion_tokens == 23
    assert fake.ledger[0].fields["random_seed"] == 3


async def test_mistral_refuses_what_it_does_not_know(ask):
    def refused(address: str) -> Any:
        unprocessable = pytest.raises(openai.UnprocessableEntityError)
        with openai.OpenAI(base_url=address + "/v1", api_key="test-key", max_retries=0) as client, unprocessable:
            client.chat.completions.create(model="m", messages=HI, user="u")
        wrong_key = pytest.raises(mistralai.client.errors.SDKError)
        with mistralai.client.Mistral(api_key="wrong", server_url=address) as client, wrong_key as caught:
            client.chat.complete(model="m", messages=HI)
        return caught.value.status_code

    status, _ = await ask("mistral", refused)
    assert status == 401


async def test_openrouter(ask):
    def use(address: str) -> tuple[Any, list[Any]]:
        with openrouter.OpenRouter(api_key="test-key", server_url=address + "/v1") as client:
            answer = client.chat.send(model="m", messages=HI)
            with client.chat.send(model="m", messages=HI, stream=True, stream_options={"include_usage": True}) as stream:
                return answer, list(stream)

    (answer, chunks), _ = await ask("openrouter", use)
    message = answer.choices[0].message
    assert (message.content, message.reasoning) == (TEXT, THOUGHT)
    assert answer.usage.prompt_tokens_details.cached_tokens == 40
    assert chunks[-1].usage.completion_tokens == 23
    assert (answer.usage.cost, answer.usage.cost_details.upstream_inference_cost, answer.usage.is_byok) == (0.0123, 0.0123, False)


async def test_openrouter_has_no_credit(ask):
    def refused(address: str) -> Any:
        with openrouter.OpenRouter(api_key="test-key", server_url=address + "/v1") as client:
            with pytest.raises(openrouter.errors.PaymentRequiredResponseError) as caught:
                client.chat.send(model="m", messages=HI)
            return caught.value.data.error.code

    code, _ = await ask("openrouter", refused, status=402)
    assert code == 402


async def test_azure(ask):
    def use(address: str) -> Any:
        headers = {"api-key": "test-key"}   # as `openai.AzureOpenAI` sends it, which cannot call the v1 API
        with openai.OpenAI(base_url=address + "/v1", api_key="unused", default_headers=headers, max_retries=0) as client:
            return client.chat.completions.create(model="my-deployment", messages=HI, max_completion_tokens=9)

    answer, fake = await ask("azure", use)
    assert answer.choices[0].message.content == TEXT
    assert fake.ledger[0].headers["api-key"] == "test-key"
