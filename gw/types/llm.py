"""Chat: the request and the events of an answer.

The common form of a chat request is OpenAI's field set, kept as raw JSON per field, so that unknown fields pass through
unchanged. A dialect with other fields translates into these; a provider with other fields decodes those it needs.
Events carry `raw`, a piece of the answer as the upstream sent it, where caller and upstream speak the same dialect: it
goes out unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from gw.errors import ClientProtocolError
from gw.types.usage import Usage

Ability = Literal["tools", "stream", "vision", "audio_in"]


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`model` is as the caller wrote it; `fields` are OpenAI's request members, JSON each, `model` included."""

    model: str
    fields: Mapping[str, msgspec.Raw]
    stream: bool = False
    include_usage: bool = False
    """The caller requested the usage chunk; from the upstream it is always requested."""
    needs: frozenset[Ability] = frozenset()
    input_characters: int = 0
    """Size of the messages, for estimates."""
    max_output_tokens: int | None = None
    dialect: str = "openai"
    """Dialect of the caller. An upstream of the same dialect gets the request, and answers, without translation."""
    native: bytes = b""
    """Body of the request as it came, where `dialect` is not OpenAI's."""
    document: bool = False
    """The answer is one JSON document (vectors, categories) that has a meaning only for this model: no text of a conversation, and
    no other model may answer in its place."""
    only_native: ClientProtocolError | None = None
    """Set where `fields` lack a part of the request, so that only an upstream of the same dialect may be called: the error
    for a caller who has no such candidate."""


class LastUser(msgspec.Struct, frozen=True):
    """Text of the last user message of a chat request, and a hash of the messages before it."""

    text: str
    context: int
    is_answered: bool = False
    """Whether the model has answered it in part, as with a call of a tool whose result follows."""


REFUSED = "The model refused to answer."
"""Text of a refusal without one."""


class ToolCallPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a tool call; `id` and `name` come with the first only, `arguments` is a fragment of JSON text."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the answer."""

    text: str = ""
    refusal: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallPiece, ...] = ()
    finish_reason: str | None = None
    choice: int = 0
    raw: bytes | None = None

    @property
    def has_content(self) -> bool:
        return bool(self.text or self.tool_calls or self.reasoning)


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Usage as the vendor counts it. `raw` is the chunk that holds nothing else."""

    usage: Usage
    raw: bytes | None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer that was not streamed."""

    text: str
    refusal: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallPiece, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    raw: bytes | None = None


class StreamError(msgspec.Struct, frozen=True, kw_only=True):
    """The vendor reported a failure inside the stream."""

    code: str
    message: str


class ChatEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The upstream's own end marker. A stream that stops without one was cut."""


ChatEvent: TypeAlias = Delta | UsageReport | Completion | StreamError | ChatEnd
