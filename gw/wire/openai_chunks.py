"""The JSON of a chat answer of OpenAI's protocol, streamed or not, as far as the gateway reads it."""

from __future__ import annotations

from typing import Any

import msgspec

from gw.types.llm import ToolCallPiece


class ChunkFunction(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class ChunkCall(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: ChunkFunction | None = None

    def piece(self, index: int) -> ToolCallPiece:
        function = self.function or ChunkFunction()
        return ToolCallPiece(index=index, id=self.id or "", name=function.name or "", arguments=function.arguments or "")


class ChunkThought(msgspec.Struct, gc=False):
    text: str | None = None


class ChunkText(msgspec.Struct, gc=False):
    """A part of the content. Mistral's reasoning is one of the type `thinking` (mistralai 3.7.0, `models/thinkchunk.py`)."""

    text: str | None = None
    thinking: list[ChunkThought] | None = None


class ChunkMessage(msgspec.Struct, gc=False):
    """A message, or a delta of one."""

    content: str | list[ChunkText] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ChunkCall] | None = None
    function_call: ChunkFunction | None = None
    audio: Any = None
    executed_tools: Any = None


class ChunkChoice(msgspec.Struct, gc=False):
    index: int = 0
    delta: ChunkMessage | None = None
    message: ChunkMessage | None = None
    finish_reason: str | None = None


class ChunkOfGroq(msgspec.Struct, gc=False):
    usage: Any = None
    error: Any = None


class ChunkTokens(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    audio_tokens: int | None = None
    reasoning_tokens: int | None = None


class ChunkUsage(msgspec.Struct, gc=False):
    """`prompt_cache_hit_tokens` is DeepSeek's, `cached_tokens` Together's word for the cached part of the prompt.

    OpenRouter states the cost.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    prompt_tokens_details: ChunkTokens | None = None
    completion_tokens_details: ChunkTokens | None = None
    cost: Any = None
    cost_details: Any = None
    is_byok: Any = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk of a streamed answer, or an unstreamed one."""

    choices: list[ChunkChoice] | None = None
    usage: ChunkUsage | None = None
    x_groq: ChunkOfGroq | None = None
    error: Any = None
    service_tier: Any = None


class ChunkWithAnyUsage(msgspec.Struct, gc=False):
    """A chunk whose usage has another form than OpenAI's, which is no reason to lose the answer."""

    choices: list[ChunkChoice] | None = None
    usage: Any = None
    x_groq: ChunkOfGroq | None = None
    error: Any = None
    service_tier: Any = None
