"""The vendor's own SDK, unchanged, against the fake vendor: so that what the fake says is what real clients understand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anthropic
import pytest
import trio

from gw.types.usage import Usage
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.anthropic import FakeAnthropic

pytestmark = pytest.mark.clients
T = TypeVar("T")
ASK: dict[str, Any] = {"model": "claude-haiku-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Say hello"}]}
TOOLS = [{"name": "weather", "description": "d", "input_schema": {"type": "object", "properties": {}}}]
USED = Usage(input_tokens=30, cached_input_tokens=20, cache_write_tokens=4, output_tokens=7, source="vendor")


@pytest.fixture
def fake() -> FakeAnthropic:
    return FakeAnthropic(api_key="test-key")


@pytest.fixture
async def ask(fake, nursery):
    """Run a function of a client in a thread."""
    address = await nursery.start(serve_asgi, fake)

    async def run(use: Callable[[anthropic.Anthropic], T], api_key: str = "test-key") -> T:
        def in_thread() -> T:
            with anthropic.Anthropic(base_url=address, api_key=api_key, max_retries=0, timeout=60) as client:
                return use(client)

        return await trio.to_thread.run_sync(in_thread)

    return run


async def test_models(fake, ask):
    assert await ask(lambda client: [m.id for m in client.models.list(limit=1)]) == list(fake.models)


async def test_a_message(fake, ask):
    fake.usage = USED
    message = await ask(lambda client: client.messages.create(**ASK, system="Be brief."))
    assert (message.type, message.role, message.stop_reason) == ("message", "assistant", "end_turn")
    assert [(block.type, block.text) for block in message.content] == [("text", "Hello there, how are you?")]
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens, message.usage.output_tokens) == (6, 20, 7)
    assert fake.ledger[0].fields == {**ASK, "system": "Be brief."}


def streamed(client: anthropic.Anthropic, **more: Any) -> Any:
    """The whole message, put together by the SDK, and the pieces of text."""
    with client.messages.stream(**ASK, **more) as stream:
        pieces = list(stream.text_stream)
        return stream.get_final_message(), pieces


async def test_a_streamed_message(fake, ask):
    fake.tokens, fake.usage = ["Hé", "llo", "."], USED
    message, pieces = await ask(streamed)
    assert pieces == ["Hé", "llo", "."]
    assert (message.content[0].text, message.stop_reason) == ("Héllo.", "end_turn")
    assert (message.usage.input_tokens, message.usage.cache_creation_input_tokens, message.usage.output_tokens) == (6, 4, 7)


async def test_events_come_in_order(fake, ask):
    def raw(client: anthropic.Anthropic) -> list[str]:
        with client.messages.create(**ASK, stream=True) as stream:
            return [event.type for event in stream]

    kinds = await ask(raw)
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


async def test_a_tool_call(fake, ask):
    fake.tool_call = ("weather", '{"city":"Rome"}')
    message = await ask(lambda client: client.messages.create(**ASK, tools=TOOLS))
    assert message.stop_reason == "tool_use"
    assert [(b.type, b.id, b.name, b.input) for b in message.content] == [("tool_use", "call_1", "weather", {"city": "Rome"})]
    message, _ = await ask(lambda client: streamed(client, tools=TOOLS))
    assert [(b.type, b.name, b.input) for b in message.content] == [("tool_use", "weather", {"city": "Rome"})]


async def test_a_refusal(fake, ask):
    fake.refuse = "refusal"
    message = await ask(lambda client: client.messages.create(**ASK))
    assert (message.stop_reason, message.stop_details.explanation) == ("refusal", "I cannot help with that.")
    message, _ = await ask(streamed)
    assert message.stop_reason == "refusal"


async def test_an_error_in_the_stream(fake, ask):
    fake.error_in_stream, fake.error_after = "overloaded_error", 1
    with pytest.raises(anthropic.APIStatusError, match="scripted failure"):
        await ask(streamed)


async def test_a_cut_stream(fake, ask):
    fake.cut_after = 2
    with pytest.raises((anthropic.APIConnectionError, Exception)) as caught:
        await ask(streamed)
    assert "incomplete" in str(caught.value) or isinstance(caught.value, anthropic.APIConnectionError)
    assert fake.ledger[0].outcome == "cut"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, anthropic.BadRequestError), (403, anthropic.PermissionDeniedError), (404, anthropic.NotFoundError),
        (409, anthropic.ConflictError), (413, anthropic.APIStatusError), (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError), (529, anthropic.APIStatusError),
    ],
)  # fmt: skip
async def test_error_classes(fake, ask, status, error):
    fake.status, fake.headers = [status], [("retry-after", "7")]
    with pytest.raises(error, match="scripted failure") as caught:
        await ask(lambda client: client.messages.create(**ASK))
    assert caught.value.status_code == status
    assert caught.value.response.headers["retry-after"] == "7"
    await ask(streamed)   # the list is used up: well again


async def test_a_wrong_key_and_a_bad_request(fake, ask):
    with pytest.raises(anthropic.AuthenticationError):
        await ask(streamed, api_key="other")
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        await ask(lambda client: client.messages.create(model="m", max_tokens=1, messages=[]))
