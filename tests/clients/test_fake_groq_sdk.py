"""Groq's own SDK, unchanged, against the fake vendor of OpenAI's dialect below /openai/v1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import groq
import pytest
import trio

from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.openai import FakeOpenAI

pytestmark = pytest.mark.clients
T = TypeVar("T")
HI: Any = [{"role": "user", "content": "Say hello"}]
SECOND_OF_WAV = wav.header(PCM_16K, 32_000) + bytes(32_000)


@pytest.fixture
def fake() -> FakeOpenAI:
    return FakeOpenAI(api_key="test-key", prefix="/openai/v1")


@pytest.fixture
async def ask(fake, nursery):
    """Run a function of a client in a thread."""
    address = await nursery.start(serve_asgi, fake)

    async def run(use: Callable[[groq.Groq], T], api_key: str = "test-key") -> T:
        def in_thread() -> T:
            with groq.Groq(base_url=address, api_key=api_key, max_retries=0, timeout=60) as client:
                return use(client)

        return await trio.to_thread.run_sync(in_thread)

    return run


async def test_models(fake, ask):
    assert [m.id for m in (await ask(lambda client: client.models.list())).data] == list(fake.models)


async def test_chat(fake, ask):
    answer = await ask(lambda client: client.chat.completions.create(model="m", messages=HI, reasoning_effort="none"))
    assert answer.choices[0].message.content == "Hello there, how are you?"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 5)
    assert fake.ledger[0].path == "/openai/v1/chat/completions"
    assert fake.ledger[0].fields["reasoning_effort"] == "none"


async def test_streamed_chat(fake, ask):
    def streamed(client: groq.Groq) -> list[Any]:
        more = {"stream_options": {"include_usage": True}}
        with client.chat.completions.create(model="m", messages=HI, stream=True, extra_body=more) as stream:
            return list(stream)

    *chunks, last = await ask(streamed)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Hello there, how are you?"
    assert last.usage.total_tokens == 7


async def test_speech_and_transcription(fake, ask):
    fake.transcript = "good morning"
    speech = {"model": "canopylabs/orpheus-v1-english", "voice": "autumn", "input": "Hi.", "response_format": "wav"}
    spoken = await ask(lambda client: client.audio.speech.create(**speech).read())
    assert wav.parse(spoken) is not None
    answer = await ask(lambda client: client.audio.transcriptions.create(model="w", file=("a.wav", SECOND_OF_WAV)))
    assert answer.text == "good morning"


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, groq.BadRequestError), (429, groq.RateLimitError), (498, groq.APIStatusError), (503, groq.InternalServerError)],
)
async def test_error_classes(fake, ask, status, error):
    fake.status = [status]
    with pytest.raises(error, match="scripted failure"):
        await ask(lambda client: client.chat.completions.create(model="m", messages=HI))


async def test_a_wrong_key(ask):
    with pytest.raises(groq.AuthenticationError):
        await ask(lambda client: client.models.list(), api_key="other")
