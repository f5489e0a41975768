"""POST /v1/messages: a caller's request, turned into the common form.

Source: anthropic-python 2.11.0, `types/message_create_params` and the block params it names (November 2026). What only this
dialect knows (thinking, cache control, tools that the vendor runs itself) stays in `native` and reaches an upstream of the
same dialect, as does `anthropic-beta`, without which the vendor refuses members of its betas; another gets what OpenAI's
members can say.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.llm import Ability, ChatRequest
from gw.wire.bounds import MOST_TOKENS
from gw.wire.json_codec import BAD_JSON

_PRINTABLE = bytes(range(0x20, 0x7F))


class MessagesRequest(ChatRequest, frozen=True, kw_only=True):
    """A request as its caller made it. `beta` is the `anthropic-beta` header, for an upstream of this dialect; empty without."""

    beta: bytes = b""


class _Source(msgspec.Struct, gc=False):
    type: str = ""
    media_type: str = ""
    data: str = ""
    url: str = ""


class _Block(msgspec.Struct, gc=False):
    type: str
    text: str | None = None
    source: _Source | None = None
    title: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None
    is_error: bool | None = None


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[_Block]


class _Tool(msgspec.Struct, gc=False):
    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class _Choice(msgspec.Struct, gc=False):
    type: str = ""
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Format(msgspec.Struct, gc=False):
    type: str = ""
    schema: dict[str, Any] | None = None


class _Config(msgspec.Struct, gc=False):
    format: _Format | None = None


class _Metadata(msgspec.Struct, gc=False):
    user_id: str | None = None


class _Request(msgspec.Struct, gc=False):
    messages: list[_Message]
    max_tokens: int
    model: str | None = None
    system: str | list[_Block] | None = None
    stream: bool | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    metadata: _Metadata | None = None
    output_config: _Config | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def parse_request(body: bytes, beta: bytes = b"") -> MessagesRequest:
    """A request body and its `anthropic-beta` header → the common form.

    Raises ClientProtocolError, with `param` where a member is at fault.
    """
    if beta.translate(None, _PRINTABLE):
        raise ClientProtocolError(what="anthropic-beta: printable ASCII only", param="anthropic-beta")
    try:
        body.decode()
        asked = _REQUEST.decode(body)
    except msgspec.ValidationError as error:
        raise ClientProtocolError(what=f"the body is not of the expected form: {error}", param=_member(error)) from None
    except BAD_JSON:
        raise ClientProtocolError(what="the body is not JSON") from None
    if not asked.messages:
        raise ClientProtocolError(what="messages: at least one message is required", param="messages")
    if not 0 <= asked.max_tokens <= MOST_TOKENS:
        raise ClientProtocolError(what=f"max_tokens must be between 1 and {MOST_TOKENS}", param="max_tokens")
    reader = _Reader()
    messages = reader.conversation(asked)
    fields = {"model": asked.model or "", "messages": messages, **_settings(asked)}
    if "tools" in fields:
        reader.needs.add("tools")
    return MessagesRequest(
        model=asked.model or "",
        fields={name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()},
        stream=bool(asked.stream),
        include_usage=bool(asked.stream),
        needs=frozenset(reader.needs),
        input_characters=reader.characters,
        max_output_tokens=asked.max_tokens or None,
        dialect="anthropic",
        native=body,
        beta=beta,
    )


def wants_thinking(body: bytes) -> bool:
    """Whether a request asks for thinking, so that an answer may hold it."""
    try:
        told = msgspec.json.decode(body, type=_Thinks)
    except BAD_JSON:
        return False
    return told.thinking is not None and told.thinking.type not in ("", "disabled")


class _Thinking(msgspec.Struct, gc=False):
    type: str = ""


class _Thinks(msgspec.Struct, gc=False):
    thinking: _Thinking | None = None


def _member(error: msgspec.ValidationError) -> str | None:
    """The member that a validation error names, at `$.name` or in "missing required field `name`"."""
    text = str(error)
    at = text.rpartition("`$.")[2] if "`$." in text else text.rpartition("field `")[2] if "field `" in text else ""
    return at.partition("`")[0].partition(".")[0].partition("[")[0] or None


class _Reader:
    """Puts a conversation into OpenAI's messages, and notes what it needs on the way."""

    def __init__(self) -> None:
        self.needs: set[Ability] = set()
        self.characters = 0

    def conversation(self, asked: _Request) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        system = _text(asked.system)
        if system:
            messages.append({"role": "system", "content": self._counted(system)})
        for message in asked.messages:
            blocks = [_Block(type="text", text=message.content)] if isinstance(message.content, str) else message.content
            if message.role == "user":
                messages += self._user(blocks)
            elif message.role == "assistant":
                messages.append(self._assistant(blocks))
            elif message.role == "system":
                messages.append({"role": "system", "content": self._counted(_text(blocks))})
            else:
                raise ClientProtocolError(what="a message's role must be user, assistant or system", param="messages")
        return messages

    def _counted(self, text: str) -> str:
        self.characters += len(text)
        return text

    def _user(self, blocks: list[_Block]) -> list[dict[str, Any]]:
        """Results of tools are messages of their own, before the rest."""
        results = [self._result(block) for block in blocks if block.type == "tool_result"]
        parts = [part for block in blocks if (part := self._part(block)) is not None]
        if not parts and results:
            return results
        plain = all(part["type"] == "text" for part in parts)
        content = "\n".join(part["text"] for part in parts) if plain else parts
        return [*results, {"role": "user", "content": content}]

    def _result(self, block: _Block) -> dict[str, Any]:
        try:
            content = block.content
            text = content if isinstance(content, str) else _text(msgspec.convert(content or [], list[_Block]))
        except msgspec.ValidationError:
            raise ClientProtocolError(what="a tool_result's content is not of the expected form", param="messages") from None
        return {"role": "tool", "tool_call_id": block.tool_use_id or "", "content": self._counted(text)}

    def _part(self, block: _Block) -> dict[str, Any] | None:
        if block.type == "text":
            return {"type": "text", "text": self._counted(block.text or "")}
        source = block.source
        if source is None:
            return None
        if block.type == "document" and source.type == "text":
            return {"type": "text", "text": self._counted(source.data)}
        url = source.url if source.type == "url" else f"data:{source.media_type};base64,{source.data}"
        if block.type == "image":
            self.needs.add("vision")
            return {"type": "image_url", "image_url": {"url": url}}
        if block.type == "document" and source.type == "base64":
            return {"type": "file", "file": {"filename": block.title or "document.pdf", "file_data": url}}
        return None

    def _assistant(self, blocks: list[_Block]) -> dict[str, Any]:
        """Text and calls; thinking is the vendor's own and signed, so no other can use it."""
        message: dict[str, Any] = {"role": "assistant", "content": self._counted(_text(blocks)) or None}
        calls = [
            {
                "id": block.id or "",
                "type": "function",
                "function": {
                    "name": block.name or "",
                    "arguments": self._counted(msgspec.json.encode(block.input or {}).decode()),
                },
            }
            for block in blocks
            if block.type == "tool_use"
        ]
        if calls:
            message["tool_calls"] = calls
        elif message["content"] is None:
            message["content"] = ""
        return message


def _text(content: str | list[_Block] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(block.text for block in content if block.type == "text" and block.text)


def _settings(asked: _Request) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if asked.max_tokens:
        fields["max_completion_tokens"] = asked.max_tokens
    if asked.stream:
        fields["stream"] = True
    if asked.stop_sequences:
        fields["stop"] = asked.stop_sequences
    if asked.temperature is not None:
        fields["temperature"] = asked.temperature
    if asked.top_p is not None:
        fields["top_p"] = asked.top_p
    if asked.metadata is not None and asked.metadata.user_id:
        fields["user"] = asked.metadata.user_id
    shape = asked.output_config.format if asked.output_config is not None else None
    if shape is not None and shape.type == "json_schema":
        schema = {"name": "answer", "schema": shape.schema or {}, "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields | _tool_settings(asked)


def _tool_settings(asked: _Request) -> dict[str, Any]:
    tools = [_tool(tool) for tool in asked.tools or () if tool.type in (None, "custom") and tool.name]
    if not tools:
        return {}
    fields: dict[str, Any] = {"tools": tools}
    choice = asked.tool_choice
    if choice is not None:
        if choice.type == "tool":
            fields["tool_choice"] = {"type": "function", "function": {"name": choice.name or ""}}
        else:
            fields["tool_choice"] = {"any": "required", "none": "none"}.get(choice.type, "auto")
        if choice.disable_parallel_tool_use:
            fields["parallel_tool_calls"] = False
    return fields


def _tool(tool: _Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema or {"type": "object"}}
    if tool.description:
        function["description"] = tool.description
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}
