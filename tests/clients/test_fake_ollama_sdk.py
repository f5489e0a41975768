"""The project's own SDK, unchanged, against the fake server: so that what the fake says is what real clients understand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import ollama
import pytest
import trio

from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.ollama import FakeOllama

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore::ResourceWarning")]
T = TypeVar("T")
HI = [{"role": "user", "content": "Say hello"}]


@pytest.fixture
def fake() -> FakeOllama:
    return FakeOllama()


@pytest.fixture
async def ask(fake, nursery, not_ours):
    """Run a function of a client in a thread."""
    address = await nursery.start(serve_asgi, fake)

    async def run(use: Callable[[ollama.Client], T]) -> T:
        return await trio.to_thread.run_sync(lambda: use(ollama.Client(host=address, timeout=60)))

    return run


async def test_models(fake, ask):
    assert [m.model for m in (await ask(lambda client: client.list())).models] == list(fake.models)


async def test_chat(fake, ask):
    answer = await ask(lambda client: client.chat("llama3.2:3b", HI, options={"num_ctx": 99}, keep_alive="1m"))
    assert (answer.message.content, answer.done, answer.done_reason) == ("Hello there, how are you?", True, "stop")
    assert (answer.prompt_eval_count, answer.eval_count) == (2, 5)
    assert fake.ledger[0].fields["options"] == {"num_ctx": 99}


def streamed(client: ollama.Client, **more: Any) -> list[Any]:
    return list(client.chat("llama3.2:3b", HI, stream=True, **more))


async def test_streamed_chat(fake, ask):
    fake.tokens = ["Hé", "llo", "."]
    *pieces, last = await ask(streamed)
    assert [piece.message.content for piece in pieces] == ["Hé", "llo", "."]
    assert (last.done, last.done_reason, last.eval_count) == (True, "stop", 3)


async def test_a_tool_call(fake, ask):
    fake.tool_call = ("weather", '{"city":"Rome"}')
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
    answer = await ask(lambda client: client.chat("m", HI, tools=tools))
    (call,) = answer.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", {"city": "Rome"})
    calls = [call for piece in await ask(lambda client: streamed(client, tools=tools)) for call in piece.message.tool_calls or ()]
    assert [call.function.arguments for call in calls] == [{"city": "Rome"}]


async def test_an_error_in_the_stream(fake, ask):
    fake.error_in_stream, fake.error_after = "cuda", 1
    with pytest.raises(ollama.ResponseError, match="scripted failure"):
        await ask(streamed)


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_errors(fake, ask, status):
    fake.status = [status]
    with pytest.raises(ollama.ResponseError, match="scripted failure") as caught:
        await ask(streamed)
    assert caught.value.status_code == status
