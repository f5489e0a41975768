"""Requests of POST /responses, both roles: a caller's request in the common form, and the body for an upstream that has this API.

Source: openai-python 3.52.0, `types/responses/response_create_params`, `response_input_item_param` and the params they name
(November 2026).

An upstream of this dialect gets the members as they came. For others the items of `input` become OpenAI's chat messages: calls
that follow each other are one assistant message, and their outputs tool messages. A part without a counterpart there (tools
that the vendor runs, `conversation`, `prompt`, encrypted reasoning, an unknown member …) is named in `only_native`. Left out
are: reasoning in the clear, which no other vendor reads; hints that change cost or speed but not the answer (`_HINTS`);
`text.verbosity`; and members about parts that such a request cannot have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, UnknownPreviousResponse
from gw.types import llm
from gw.types.llm import ChatRequest
from gw.wire.bounds import MOST_TOKENS
from gw.wire.json_codec import MEMBERS, decode_request, present

DIALECT = "openai_responses"
Item = dict[str, Any]

_HINTS = frozenset({
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "stream_options", "max_tool_calls",
})  # fmt: skip
"""`max_tool_calls` counts calls of tools that the vendor runs; `stream_options` pads events."""
_TRANSLATED = frozenset({
    "model", "input", "instructions", "stream", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens",
    "temperature", "top_p", "text", "reasoning", "user", "safety_identifier", "metadata", "store", "previous_response_id",
    "truncation", "background", "include", "service_tier", "top_logprobs",
})  # fmt: skip
_FUNCTION_MEMBERS = frozenset({"type", "name", "description", "parameters", "strict"})
_INCLUDED_BY_NONE = "message.output_text.logprobs"
"""The one value of `include` that asks other vendors for something that they have, but in another form."""


class ResponsesRequest(ChatRequest, frozen=True, kw_only=True):
    """`echo` are the members that an answer repeats, `items` the conversation so far, for the store."""

    echo: dict[str, Any]
    items: tuple[Item, ...] = ()
    store: bool = True
    summarized: bool = False
    """The caller wants reasoning as a summary."""


class _Request(msgspec.Struct, gc=False):
    """Types of the members, so that a wrong one is refused with its name."""

    input: str | list[Item] | None = None
    model: str | None = None
    instructions: str | None = None
    stream: bool | None = None
    tools: list[Item] | None = None
    tool_choice: str | Item | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    text: Item | None = None
    reasoning: Item | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    truncation: str | None = None
    background: bool | None = None
    include: list[str] | None = None
    service_tier: str | None = None
    top_logprobs: int | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def upstream_body(request: ChatRequest, model: str) -> bytes:
    """Return the body for an upstream of this dialect: the caller's own, with another `model`."""
    return msgspec.json.encode({**MEMBERS.decode(request.native), "model": model})


def parse_request(
    body: bytes, earlier: Callable[[str], tuple[Item, ...] | None] = lambda response_id: None, *, missing: str = ""
) -> ResponsesRequest:
    """Decode a request into the common form. Raises ClientProtocolError, with `param` if a member is at fault.

    `earlier` returns the conversation up to a response that is stored here, which then goes out with the request; `missing`
    says why there may be none.
    """
    members = decode_request(MEMBERS, body)
    request = decode_request(_REQUEST, body)
    _check(request)
    translator = _Translator()
    given = _items(request.input)
    items = [_referred(item, earlier) for item in given]
    before = earlier(request.previous_response_id) if request.previous_response_id else None
    if before is not None:
        items = [*before, *items]
        del members["previous_response_id"]
    if items != given:
        members["input"] = msgspec.Raw(msgspec.json.encode(items))
        body = msgspec.json.encode(members)
    if request.previous_response_id and before is None:
        what = f"Previous response with id '{request.previous_response_id[:100]}' not found{missing}."
        translator.only_native = UnknownPreviousResponse(what=what, param="previous_response_id")
    translator.others(request, members)
    messages = translator.conversation(request.instructions, items)
    fields = {
        "model": request.model or "", "messages": messages, **translator.tools(request), **translator.settings(request)
    }
    return ResponsesRequest(
        model=request.model or "", fields={name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()},
        stream=bool(request.stream), include_usage=bool(request.stream), needs=frozenset(translator.needs),
        input_characters=translator.characters, max_output_tokens=request.max_output_tokens or None, dialect=DIALECT,
        native=body, only_native=translator.only_native, echo=_echo(request), items=tuple(items),
        store=request.store is not False, summarized=_wants_summary(request),
    )


def _check(request: _Request) -> None:
    if request.background:
        what = "'background' responses are not supported: request the response without it, or stream it"
        raise ClientProtocolError(what=what, param="background")
    if request.max_output_tokens is not None and not 0 < request.max_output_tokens <= MOST_TOKENS:
        raise ClientProtocolError(what=f"'max_output_tokens' must be between 1 and {MOST_TOKENS}", param="max_output_tokens")


def _items(input: str | list[Item] | None) -> list[Item]:   # noqa: A002  the wire's name
    if isinstance(input, str):
        return [{"type": "message", "role": "user", "content": input}]
    return input or []


def _referred(item: Item, earlier: Callable[[str], tuple[Item, ...] | None]) -> Item:
    """Return the item of a response stored here that a reference names; any other item as it is.

    The ids that `openai_responses_answer` gives to items contain that of their response.
    """
    if item.get("type", "item_reference") != "item_reference" or not isinstance(id_ := item.get("id"), str):
        return item
    response_id = "resp_" + id_.partition("_")[2].rpartition("_")[0]
    result = (stored for stored in earlier(response_id) or () if stored.get("id") == id_)
    return item if "role" in item else next(result, item)


def _wants_summary(request: _Request) -> bool:
    reasoning = request.reasoning or {}
    return bool(reasoning.get("summary") or reasoning.get("generate_summary"))


def _echo(request: _Request) -> dict[str, Any]:
    """Return the members of a response that repeat those of its request, with the defaults that the API names."""
    reasoning, text = request.reasoning or {}, request.text or {}
    return {
        "instructions": request.instructions, "max_output_tokens": request.max_output_tokens,
        "metadata": request.metadata or {}, "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": request.previous_response_id,
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "text": {"format": text.get("format") or {"type": "text"}}, "tool_choice": request.tool_choice or "auto",
        "tools": [{"parameters": None, "strict": None, **tool} for tool in request.tools or ()],
        "top_p": 1.0 if request.top_p is None else request.top_p, "truncation": request.truncation or "disabled",
        **present(user=request.user, safety_identifier=request.safety_identifier),
    }


class _Translator:
    """Translation into OpenAI's chat request; collects what it needs, what it cannot express, and its characters."""

    def __init__(self) -> None:
        self.needs: set[llm.Ability] = set()
        self.characters = 0
        self.only_native: ClientProtocolError | None = None
        self._messages: list[Item] = []

    def refuse(self, param: str, what: str = "") -> None:
        """Note a part that other dialects cannot express; the first one is what the caller reads."""
        if self.only_native is None:
            what = what or f"'{param}' is available only from a provider that has the Responses API itself"
            self.only_native = ClientProtocolError(what=what, param=param)

    # ---- members

    def others(self, request: _Request, members: dict[str, msgspec.Raw]) -> None:
        """Refuse the members that no chat request has."""
        for name, raw in members.items():
            if name not in _TRANSLATED and name not in _HINTS and bytes(raw) not in (b"null", b"false"):
                self.refuse(name)
        if request.truncation not in (None, "disabled"):
            self.refuse("truncation")
        if request.top_logprobs:
            self.refuse("top_logprobs")
        if _INCLUDED_BY_NONE in (request.include or ()):
            self.refuse("include")
        for name, value in (request.reasoning or {}).items():
            if name not in ("effort", "summary", "generate_summary") and value not in (None, "auto", "standard"):
                self.refuse(f"reasoning.{name}")

    def settings(self, request: _Request) -> Item:
        effort = (request.reasoning or {}).get("effort")
        return present(
            max_completion_tokens=request.max_output_tokens, stream=request.stream or None, temperature=request.temperature,
            top_p=request.top_p, user=request.user or request.safety_identifier, reasoning_effort=effort,
            response_format=self._format((request.text or {}).get("format")), service_tier=self._tier(request.service_tier),
        )

    def _tier(self, tier: str | None) -> str | None:
        """Return a tier with a price of its own, which the meter reads; no other vendor gets it."""
        if tier in (None, "auto", "default"):
            return None
        self.refuse("service_tier")
        return tier

    def _format(self, form: object) -> Item | None:
        if not isinstance(form, dict) or form.get("type") == "text":
            return None
        if form.get("type") == "json_schema":
            schema = {name: form[name] for name in ("name", "description", "schema", "strict") if form.get(name) is not None}
            return {"type": "json_schema", "json_schema": schema}
        if form.get("type") != "json_object":
            self.refuse("text.format")
        return {"type": "json_object"}

    def tools(self, request: _Request) -> Item:
        """Return `tools`, `tool_choice` and `parallel_tool_calls`. A choice of allowed tools leaves only those."""
        functions = [tool for at, tool in enumerate(request.tools or ()) if self._is_function(at, tool)]
        if not functions:
            return {}
        self.needs.add("tools")
        choice = request.tool_choice
        if isinstance(choice, dict):
            kind = choice.get("type")
            if kind == "function":
                choice = {"type": "function", "function": {"name": choice.get("name") or ""}}
            elif kind == "allowed_tools":
                listed = [tool for tool in choice.get("tools") or () if isinstance(tool, dict)]
                allowed = {tool.get("name") for tool in listed}
                functions = [tool for tool in functions if tool["name"] in allowed]
                choice = choice.get("mode") or "auto"
            else:
                self.refuse("tool_choice")
        fields = {"tools": [_function(tool) for tool in functions]} if functions else {}
        return fields | (present(tool_choice=choice, parallel_tool_calls=request.parallel_tool_calls) if fields else {})

    def _is_function(self, at: int, tool: Item) -> bool:
        if tool.get("type") != "function" or not isinstance(tool.get("name"), str):
            kind = str(tool.get("type"))[:50]
            self.refuse(f"tools[{at}]", f"a tool of type '{kind}' is available only from a provider that has the Responses API itself")
            return False
        for name, value in tool.items():
            if name not in _FUNCTION_MEMBERS and value not in (None, False):
                self.refuse(f"tools[{at}].{name}")
        return True

    # ---- the conversation

    def conversation(self, instructions: str | None, items: Iterable[Item]) -> list[Item]:
        messages = self._messages
        if instructions:
            messages.append({"role": "system", "content": self._counted(instructions)})
        for at, item in enumerate(items):
            self._item(item, f"input[{at}]")
        if not messages and self.only_native is None:
            raise ClientProtocolError(what="'input' is required, as text or a list of items", param="input")
        return messages

    def _item(self, item: Item, at: str) -> None:
        kind = item.get("type") or ("message" if "role" in item else "item_reference")
        if kind == "message":
            self._message(item, at)
        elif kind == "function_call":
            self._call(item)
        elif kind == "function_call_output":
            output = {"role": "tool", "tool_call_id": str(item.get("call_id") or ""), "content": self._output(item, at)}
            self._messages.append(output)
        elif kind == "reasoning":
            if item.get("encrypted_content"):
                self.refuse(f"{at}.encrypted_content")
        else:
            what = f"an item of type '{str(kind)[:50]}' is available only from a provider that has the Responses API itself"
            self.refuse(at, what)

    def _message(self, item: Item, at: str) -> None:
        role, content = item.get("role"), item.get("content")
        if role not in ("user", "assistant", "system", "developer"):
            raise ClientProtocolError(what=f"'{at}.role' must be user, assistant, system or developer", param=f"{at}.role")
        if isinstance(content, str):
            self._add(role, self._counted(content))
            return
        if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
            raise ClientProtocolError(what=f"'{at}.content' must be text or a list of parts", param=f"{at}.content")
        parts = [self._part(part, f"{at}.content[{n}]") for n, part in enumerate(content)]
        chat_parts = [part for part in parts if part is not None]
        if all(part["type"] == "text" for part in chat_parts):
            self._add(role, ("" if role == "assistant" else "\n").join(part["text"] for part in chat_parts))
        else:
            self._add(role, chat_parts)

    def _add(self, role: str, content: str | list[Item]) -> None:
        self._messages.append({"role": "system" if role == "developer" else role, "content": content})

    def _part(self, part: Item, at: str) -> Item | None:
        kind = part.get("type")
        if kind in ("input_text", "output_text", "text"):
            return {"type": "text", "text": self._counted(_text(part, "text", at))}
        if kind == "refusal":
            return {"type": "text", "text": self._counted(_text(part, "refusal", at))}
        if kind == "input_image" and part.get("image_url"):
            self.needs.add("vision")
            return {"type": "image_url", "image_url": {"url": _text(part, "image_url", at), **present(detail=part.get("detail"))}}
        if kind == "input_audio":
            self.needs.add("audio_in")
            return {"type": "input_audio", "input_audio": part.get("input_audio")}
        if kind == "input_file" and part.get("file_data"):
            return {"type": "file", "file": present(filename=part.get("filename"), file_data=part["file_data"])}
        self.refuse(at, f"this content of type '{str(kind)[:50]}' is available only from a provider that has the Responses API itself")
        return None

    def _call(self, item: Item) -> None:
        """Add a call to the assistant's message before it, so that parallel calls are one message."""
        arguments = item.get("arguments")
        function = {"name": str(item.get("name") or ""), "arguments": arguments if isinstance(arguments, str) else ""}
        self._counted(function["arguments"])
        if not self._messages or self._messages[-1]["role"] != "assistant":
            self._messages.append({"role": "assistant", "content": None})
        call = {"id": str(item.get("call_id") or ""), "type": "function", "function": function}
        self._messages[-1].setdefault("tool_calls", []).append(call)

    def _output(self, item: Item, at: str) -> str:
        output = item.get("output")
        if isinstance(output, str):
            return self._counted(output)
        texts: list[str] = []
        for n, part in enumerate(output if isinstance(output, list) else ()):
            if isinstance(part, dict) and part.get("type") in ("input_text", "output_text", "text"):
                texts.append(self._counted(_text(part, "text", f"{at}.output[{n}]")))
            else:
                self.refuse(f"{at}.output[{n}]")
        return "\n".join(texts)

    def _counted(self, text: str) -> str:
        self.characters += len(text)
        return text


def _text(part: Item, name: str, at: str) -> str:
    text = part.get(name)
    if not isinstance(text, str):
        raise ClientProtocolError(what=f"'{at}.{name}' must be text", param=f"{at}.{name}")
    return text


def _function(tool: Item) -> Item:
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in names if tool.get(name) is not None}}
