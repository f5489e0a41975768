"""Requests of POST /v1/messages, both roles: OpenAI's request in this form, and a caller's request in the common form.

Source: anthropic-python 2.11.0, `types/message_create_params` and the params it names (November 2026); models that refuse
sampling settings or a prefilled answer: litellm 1.109.1 (`supports_sampling_params`, `supports_assistant_prefill`).

For an upstream, a request of OpenAI's form becomes: a top-level system text, alternating turns that begin with the user's,
content as blocks, tool results in the user's turn, tool arguments as objects. Members that only this dialect has (`thinking`,
`top_k`, `cache_control` …) pass through if a caller adds them.

In a caller's request such members, and tools that the vendor runs itself, stay in `native` and reach an upstream of the same
dialect, as does `anthropic-beta`, without which the vendor refuses members of its betas; other upstreams get what OpenAI's
members can express.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types import llm
from gw.types.llm import ChatRequest
from gw.wire.bounds import MOST_TOKENS
from gw.wire.chat_answer import arguments_object
from gw.wire.chat_messages import ChatFields, Function, Message, Part, Tool, decode_fields
from gw.wire.json_codec import decode_request, present

# ---- client

DEFAULT_MAX_TOKENS = 4_096  # the member is mandatory here and optional in OpenAI's dialect
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PASSED_ON = ("thinking", "top_k", "cache_control", "output_config", "speed", "container")
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
_VERSION = re.compile(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?!\d)")
_SAMPLING_ENDS = (4, 7)  # from this version on `temperature` and `top_p` are refused
_PREFILL_ENDS = (4, 6)  # from this version on a conversation cannot end with the assistant's turn
_OPENING = "(start)"
"""User's text before a conversation that is empty or begins with the assistant: the way to ask for a greeting."""
_CONTINUE = "(continue)"
_NO_RESULT = "(no result)"
_JSON_ONLY = "Answer with one JSON object and nothing else."  # this dialect has no `json_object`, only schemas

Block = dict[str, Any]


class _Fields(ChatFields, gc=False):
    """Members of OpenAI's request that have a counterpart."""

    tools: list[Tool] | None = None
    tool_choice: str | Tool | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None
    safety_identifier: str | None = None


def upstream_body(request: ChatRequest, model: str) -> bytes:
    """Return the body for an upstream of this dialect: a caller's own with another `model`. Raises ClientProtocolError."""
    if request.dialect == "anthropic" and request.native:
        return msgspec.json.encode({**_MEMBERS.decode(request.native), "model": model})
    fields = decode_fields(request, _Fields)
    version = _version(model)
    system, turns = _conversation(fields.messages)
    if turns[-1]["role"] == "assistant":
        _end_with_user(turns, prefill=version is None or version < _PREFILL_ENDS)
    if fields.wants_json:
        system.append({"type": "text", "text": _JSON_ONLY})
    body = present(
        model=model, max_tokens=request.max_output_tokens or DEFAULT_MAX_TOKENS, system=system or None, messages=turns,
        stream=request.stream or None,
    )
    body |= _tools(fields)
    if version is None or version < _SAMPLING_ENDS:
        body |= _sampling(fields)
    body |= _settings(fields, request.fields)
    return msgspec.json.encode(body)


def _version(model: str) -> tuple[int, int] | None:
    match = _VERSION.match(model)
    return (int(match[1]), int(match[2] or 0)) if match else None


def _conversation(messages: list[Message]) -> tuple[list[Block], list[Block]]:
    """Return the blocks of the system text, and turns that alternate and begin with the user's."""
    system: list[Block] = []
    turns: list[Block] = []
    for message in messages:
        if message.role in ("system", "developer"):
            system += _text_blocks(message)
        elif message.role == "assistant":
            _add(turns, "assistant", [*_text_blocks(message), *_tool_uses(message)])
        elif message.role in ("tool", "function"):
            _add(turns, "user", [_tool_result(message)])
        else:
            _add(turns, "user", _user_blocks(message))
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": _OPENING}]})
    _answer_tools(turns)
    return system, turns


def _add(turns: list[Block], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return   # empty content is refused
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": blocks})


def _text_block(part: Part) -> Block:
    return {"type": "text", "text": part.text or part.refusal, **present(cache_control=part.cache_control)}


def _text_blocks(message: Message) -> list[Block]:
    return [_text_block(part) for part in message.parts if (part.text or part.refusal or "").strip()]


def _user_blocks(message: Message) -> list[Block]:
    blocks: list[Block] = []
    for part in message.parts:
        if part.image:
            blocks.append({"type": "image", "source": _image(part.image)})
        elif (part.text or "").strip():
            blocks.append(_text_block(part))
        elif part.type in ("input_audio", "file"):
            raise ClientProtocolError(what=f"this model does not accept {part.type}", param="messages")
    return blocks


def _image(url: str) -> Block:
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    head, _, data = url[5:].partition(",")
    media_type, _, coding = head.partition(";")
    if coding.rpartition(";")[2] != "base64" or not data:
        raise ClientProtocolError(what="an image's data: URL must be base64", param="messages")
    return {"type": "base64", "media_type": media_type or "image/png", "data": data}


def _tool_uses(message: Message) -> list[Block]:
    return [
        {"type": "tool_use", "id": call.id, "name": call.function.name, "input": arguments_object(call.function.arguments)}
        for call in message.tool_calls or ()
        if call.function is not None
    ]


def _tool_result(message: Message) -> Block:
    text = "\n".join(block["text"] for block in _text_blocks(message))
    return {"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": text}


def _answer_tools(turns: list[Block]) -> None:
    """Answer every call in the next turn, results first; a result without its call becomes text."""
    calls: list[str] = []
    for turn in turns:   # grows by the turn that answers the last one's calls
        if turn["role"] == "user":
            turn["content"] = _results_first(turn["content"], calls)
            calls = []
        else:
            calls = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
            if calls and turn is turns[-1]:
                turns.append({"role": "user", "content": []})


def _results_first(blocks: list[Block], calls: list[str]) -> list[Block]:
    results = {b["tool_use_id"]: b for b in blocks if b["type"] == "tool_result" and b["tool_use_id"] in calls}
    missing = {"type": "tool_result", "content": _NO_RESULT, "is_error": True}
    first = [results.get(call) or {**missing, "tool_use_id": call} for call in calls]
    others = [
        {"type": "text", "text": f"(result of a tool) {block['content']}"} if block["type"] == "tool_result" else block
        for block in blocks
        if block["type"] != "tool_result" or block["tool_use_id"] not in results
    ]
    return [*first, *others]


def _end_with_user(turns: list[Block], *, prefill: bool) -> None:
    """Prepare a conversation that ends with the assistant, to be continued if the model can (`prefill`)."""
    if not prefill:
        turns.append({"role": "user", "content": [{"type": "text", "text": _CONTINUE}]})
    elif turns[-1]["content"][-1]["type"] == "text":
        last = turns[-1]["content"][-1]
        last["text"] = last["text"].rstrip()   # trailing space is refused


def _tools(fields: _Fields) -> dict[str, Any]:
    functions = [tool.function for tool in fields.tools or () if tool.function is not None]
    if not functions:
        return {}
    choice = _choice(fields.tool_choice)
    if fields.parallel_tool_calls is False and choice.get("type") != "none":
        choice = {"type": "auto", **choice, "disable_parallel_tool_use": True}
    tools = [_tool(function) for function in functions]
    return {"tools": tools, "tool_choice": choice} if choice else {"tools": tools}


def _tool(function: Function) -> Block:
    schema = {"type": "object", **(function.parameters or {"properties": {}})}
    return present(
        name=function.name, description=function.description or None, input_schema=schema, strict=function.strict or None
    )


def _choice(choice: str | Tool | None) -> Block:
    if isinstance(choice, Tool):
        return {"type": "tool", "name": choice.function.name} if choice.function is not None else {}
    kind = {"none": "none", "auto": "auto", "required": "any"}.get(choice or "")
    return {"type": kind} if kind else {}


def _sampling(fields: _Fields) -> dict[str, Any]:
    """Return one sampling setting, as newer models take only one. Temperature goes to 2 in OpenAI's dialect, to 1 here."""
    if fields.temperature is not None:
        return {"temperature": min(fields.temperature, 1.0)}
    return {} if fields.top_p is None else {"top_p": fields.top_p}


def _settings(fields: _Fields, raw_fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if stops := [stop for stop in fields.stops if stop.strip()]:   # white space alone is refused
        body["stop_sequences"] = stops
    if user := fields.safety_identifier or fields.user:
        body["metadata"] = {"user_id": user}
    config: dict[str, Any] = {}
    if (schema := fields.json_schema) is not None:
        config["format"] = {"type": "json_schema", "schema": schema}
    if fields.reasoning_effort in _EFFORTS:
        config["effort"] = _EFFORTS[fields.reasoning_effort]
    elif fields.reasoning_effort == "none":
        body["thinking"] = {"type": "disabled"}
    if config:
        body["output_config"] = config
    return body | {name: raw_fields[name] for name in _PASSED_ON if name in raw_fields}


# ---- server

_PRINTABLE = bytes(range(0x20, 0x7F))


class MessagesRequest(ChatRequest, frozen=True, kw_only=True):
    """A request with its `anthropic-beta` header, b"" if there is none."""

    beta: bytes = b""
    wants_thinking: bool = False
    """Whether the request enables thinking, so that the answer may contain it."""


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
    thinking: Any = None

    @property
    def wants_thinking(self) -> bool:
        kind = self.thinking.get("type") if isinstance(self.thinking, dict) else None
        return isinstance(kind, str) and kind not in ("", "disabled")


_REQUEST = msgspec.json.Decoder(_Request)


def checked_beta(beta: bytes) -> bytes:
    """Return the value of `anthropic-beta`. Raises ClientProtocolError for one that is no text of a header."""
    if beta.translate(None, _PRINTABLE):
        raise ClientProtocolError(what="anthropic-beta: printable ASCII only", param="anthropic-beta")
    return beta


def parse_request(body: bytes, beta: bytes = b"") -> MessagesRequest:
    """Decode a request into the common form. Raises ClientProtocolError, with `param` if a member is at fault."""
    beta = checked_beta(beta)
    request = decode_request(_REQUEST, body)
    if not request.messages:
        raise ClientProtocolError(what="messages: at least one message is required", param="messages")
    if not 0 <= request.max_tokens <= MOST_TOKENS:
        raise ClientProtocolError(what=f"max_tokens must be between 1 and {MOST_TOKENS}", param="max_tokens")
    translator = _Translator()
    messages = translator.conversation(request)
    fields = {"model": request.model or "", "messages": messages, **_common_settings(request)}
    if "tools" in fields:
        translator.needs.add("tools")
    return MessagesRequest(
        model=request.model or "", fields={name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()},
        stream=bool(request.stream), include_usage=bool(request.stream), needs=frozenset(translator.needs),
        input_characters=translator.characters, max_output_tokens=request.max_tokens or None, dialect="anthropic",
        native=body, beta=beta, wants_thinking=request.wants_thinking,
    )


class _Translator:
    """Translation of a conversation into OpenAI's messages; collects the abilities it needs and counts its characters."""

    def __init__(self) -> None:
        self.needs: set[llm.Ability] = set()
        self.characters = 0

    def conversation(self, request: _Request) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        if system := _text(request.system):
            messages.append({"role": "system", "content": self._counted(system)})
        for message in request.messages:
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
        """Return the messages of a user turn; tool results are separate messages and come first."""
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
        """Return text and calls; thinking is signed by the vendor, so no other can use it."""
        message: dict[str, Any] = {"role": "assistant", "content": self._counted(_text(blocks)) or None}
        calls = []
        for block in blocks:
            if block.type == "tool_use":
                arguments = self._counted(msgspec.json.encode(block.input or {}).decode())
                function = {"name": block.name or "", "arguments": arguments}
                calls.append({"id": block.id or "", "type": "function", "function": function})
        if calls:
            message["tool_calls"] = calls
        elif message["content"] is None:
            message["content"] = ""
        return message


def _text(content: str | list[_Block] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(block.text for block in content if block.type == "text" and block.text)


def _common_settings(request: _Request) -> dict[str, Any]:
    fields = present(
        max_completion_tokens=request.max_tokens or None, stream=request.stream or None,
        stop=request.stop_sequences or None, temperature=request.temperature, top_p=request.top_p,
        user=(request.metadata.user_id or None) if request.metadata is not None else None,
    )
    output_format = request.output_config.format if request.output_config is not None else None
    if output_format is not None and output_format.type == "json_schema":
        schema = {"name": "answer", "schema": output_format.schema or {}, "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields | _common_tools(request)


def _common_tools(request: _Request) -> dict[str, Any]:
    tools = [_function(tool) for tool in request.tools or () if tool.type in (None, "custom") and tool.name]
    if not tools:
        return {}
    fields: dict[str, Any] = {"tools": tools}
    if (choice := request.tool_choice) is not None:
        named = {"type": "function", "function": {"name": choice.name or ""}}
        fields["tool_choice"] = {"any": "required", "none": "none", "tool": named}.get(choice.type, "auto")
        if choice.disable_parallel_tool_use:
            fields["parallel_tool_calls"] = False
    return fields


def _function(tool: _Tool) -> dict[str, Any]:
    schema = tool.input_schema or {"type": "object"}
    function = present(
        name=tool.name, parameters=schema, description=tool.description or None, strict=tool.strict or None
    )
    return {"type": "function", "function": function}
