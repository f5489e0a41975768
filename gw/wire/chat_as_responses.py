"""A chat request as the body of POST /responses, for vendors that have no /chat/completions.

Source: perplexityai 0.46.1, `generated/api.py` (`ResponsesRequestInput` and what it names). Answers: `openai_responses_answer`.

Messages become items: a call of a function and its result are items of their own. `web_search_options` become the vendor's tool. Members
without a counterpart here go on as they are, so that a caller can add the vendor's own, such as `max_steps`. Left out is reasoning in the
clear, which no other vendor reads. What cannot be expressed raises ClientProtocolError, and another candidate may do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.chat_variant import ChatVariant
from gw.types.llm import ChatRequest
from gw.wire.chat_messages import ChatFields, Message, Part, decode_fields
from gw.wire.chat_variants import taken_fields
from gw.wire.json_codec import present

Item = dict[str, Any]

_TRANSLATED = frozenset({
    "model", "messages", "stream", "stream_options", "max_completion_tokens", "max_tokens", "tools", "tool_choice", "functions",
    "function_call", "web_search_options", "reasoning_effort",
})  # fmt: skip
_PLACE = ("city", "country", "region")
"""Members of OpenAI's approximate location that the vendor's tool takes, too (`ToolUserLocationInput`)."""


class _Fields(ChatFields, gc=False):
    tools: list[Item] | None = None
    tool_choice: Any = None
    web_search_options: Item | None = None


def upstream_body(request: ChatRequest, model: str, variant: ChatVariant) -> bytes:
    """Return the body for a vendor with this variant. Raises ClientProtocolError for what it cannot express."""
    taken = taken_fields(request, variant)
    fields = decode_fields(msgspec.structs.replace(request, fields=taken), _Fields)
    body = present(
        model=model, input=[item for at, message in enumerate(fields.messages) for item in _items(message, at)],
        stream=request.stream or None, max_output_tokens=request.max_output_tokens, tools=_tools(fields) or None,
        tool_choice=_choice(fields.tool_choice) if fields.tools else None,
        reasoning={"effort": fields.reasoning_effort} if fields.reasoning_effort else None,
    )
    return msgspec.json.encode(body | {name: raw for name, raw in taken.items() if name not in _TRANSLATED})


def _items(message: Message, at: int) -> Iterator[Item]:
    joined = message.joined()
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": joined.tool_call_id, "output": joined.text}
        return
    if joined.text or joined.images or not joined.tool_calls:
        yield {"type": "message", "role": message.role, "content": _content(message, at)}
    for call in joined.tool_calls:
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _content(message: Message, at: int) -> str | list[Item]:
    parts = [_part(part, f"messages[{at}].content[{n}]") for n, part in enumerate(message.parts)]
    if all(part["type"] == "input_text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(part: Part, at: str) -> Item:
    if part.type in ("text", "refusal"):
        return {"type": "input_text", "text": part.text or part.refusal or ""}
    if part.image:
        return {"type": "input_image", "image_url": part.image}
    what = f"a chat goes to this vendor with text and images only, and '{at}' is of type '{part.type[:50]}'"
    raise ClientProtocolError(what=what, param="messages")


def _tools(fields: _Fields) -> list[Item]:
    """Return the tools in this API's form; those of the vendor itself go on as they are."""
    tools = [_tool(tool, at) for at, tool in enumerate(fields.tools or ())]
    if fields.web_search_options is not None:
        tools.append(_web_search(fields.web_search_options))
    return tools


def _tool(tool: Item, at: int) -> Item:
    if tool.get("type") != "function":
        return tool
    function = tool.get("function")
    if not isinstance(function, dict):
        raise ClientProtocolError(what=f"'tools[{at}].function' must be an object", param="tools")
    return {"type": "function", **{name: value for name, value in function.items() if value is not None}}


def _choice(choice: object) -> object:
    """Return a choice of tools, whose members are on one level here."""
    if not isinstance(choice, dict):
        return choice
    kind = choice.get("type")
    within = choice.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **within} if isinstance(within, dict) else choice


def _web_search(options: Item) -> Item:
    """Return the vendor's tool for `web_search_options`. Raises ClientProtocolError for a member that the tool does not have."""
    location = options.get("user_location") or {}
    place = location.get("approximate") or {} if isinstance(location, dict) else {}
    given = {name: value for name, value in place.items() if value is not None} if isinstance(place, dict) else {}
    unknown = [f"user_location.approximate.{name}" for name in given.keys() - {*_PLACE}]
    unknown += options.keys() - {"search_context_size", "user_location"}
    if unknown:
        what = f"'web_search_options.{min(unknown)}' is not available at this vendor; leave it out"
        raise ClientProtocolError(what=what, param="web_search_options")
    return {"type": "web_search", **present(search_context_size=options.get("search_context_size"), user_location=given or None)}
