"""LiveKit's plugin and Pipecat's service for Anthropic, unchanged; over Anthropic and over another vendor.

Both want an earlier major version of Anthropic's SDK than the one that `requirements.txt` names, hence an environment of their
own: `requirements_older.txt`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.clients.gateway_pair import TEXT

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

WHO = pytest.mark.parametrize("who", ["own", "other"])


@WHO
def test_livekit_plugin(drop_in, package, who):
    package("livekit")
    from livekit.agents import llm
    from livekit.plugins import anthropic

    async def talk() -> tuple[list[llm.ChatChunk], Any]:
        model = anthropic.LLM(
            model=drop_in.model("anthropic", "llm"), base_url=drop_in.at("anthropic", who), api_key="any"
        )
        context = llm.ChatContext.empty()
        context.add_message(role="system", content="Be brief.")
        context.add_message(role="user", content=TEXT)
        async with model.chat(chat_ctx=context) as stream:
            chunks = [chunk async for chunk in stream]
        listed = await model._client.models.list(limit=1)   # how it warms its connection
        await model.aclose()
        return chunks, listed

    chunks, listed = asyncio.run(asyncio.wait_for(talk(), 120))
    pieces = [chunk.delta.content for chunk in chunks if chunk.delta and chunk.delta.content]
    assert "".join(pieces) == TEXT
    assert len(pieces) > 3
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    assert usage.total_tokens > 0
    assert listed.data


@WHO
def test_pipecat_service(drop_in, package, who):
    package("pipecat")
    from anthropic import AsyncAnthropic
    from pipecat.services.anthropic.llm import AnthropicLLMService

    from tests.clients.test_pipecat import answered

    client = AsyncAnthropic(base_url=drop_in.at("anthropic", who), api_key="any")
    service = AnthropicLLMService(
        api_key="any", client=client, settings=AnthropicLLMService.Settings(model=drop_in.model("anthropic", "llm"))
    )
    assert "".join(answered(service)) == TEXT
