"""Items of OpenAI's realtime conversation: the check of a client's, their conversion to a chat request, and truncation.

Source: openai-python 3.52.0, `types/realtime` (November 2026): ConversationItem and its members. Images are PNG or JPEG in a
`data:` URL. A language model of the chat API gets text, so spoken content counts by its transcript.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gw.wire.openai_realtime_server import EventRefused
from gw.wire.openai_realtime_settings import Members, Unsupported, invalid

_IMAGE = re.compile(r"data:image/(png|jpeg);base64,\S")
_PARTS = {
    "user": ("input_text", "input_audio", "input_image"),
    "system": ("input_text",),
    "assistant": ("output_text",),
}
"""Role → types of content that a client may send."""


# ---- items of this server


def user_item(id_: str, transcript: str | None) -> Members:
    return _item(id_, "user", [{"type": "input_audio", "transcript": transcript}])


def assistant_item(id_: str, text: str, *, audio: bool, status: str = "completed") -> Members:
    part = {"type": "output_audio", "transcript": text} if audio else {"type": "output_text", "text": text}
    return _item(id_, "assistant", [part], status)


def _item(id_: str, role: str, content: list[Members], status: str = "completed") -> Members:
    return {"id": id_, "object": "realtime.item", "type": "message", "role": role, "status": status, "content": content}


def call_item(id_: str, call_id: str, name: str, arguments: str) -> Members:
    return {
        "id": id_, "object": "realtime.item", "type": "function_call", "status": "completed", "call_id": call_id,
        "name": name, "arguments": arguments,
    }  # fmt: skip


# ---- items of clients


def checked_item(item: Any, id_: str, path: str = "item") -> Members:
    """Return a client's item, with `id_` if it has none. Raises EventRefused."""
    kind = item.get("type") if isinstance(item, dict) else None
    match kind:
        case "message":
            made = {"role": item.get("role"), "content": _content(item, path)}
        case "function_call":
            item = {**item, "call_id": item.get("call_id") or f"call_of_{id_}"}
            made = _texts(item, path, "call_id", "name", "arguments")
        case "function_call_output":
            made = _texts(item, path, "call_id", "output")
        case _:
            raise invalid(f"{path}.type", "message, function_call or function_call_output is expected")
    if not isinstance(item.get("id"), str | None):
        raise invalid(f"{path}.id", "a text is expected")
    return {"id": item.get("id") or id_, "object": "realtime.item", "type": kind, "status": "completed", **made}


def _texts(item: Members, path: str, *names: str) -> Members:
    for name in names:
        if not isinstance(item.get(name), str):
            raise invalid(f"{path}.{name}", "a text is expected")
    return {name: item[name] for name in names}


def _content(item: Members, path: str) -> list[Members]:
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str) or role not in _PARTS:
        raise invalid(f"{path}.role", "user, assistant or system is expected")
    if not isinstance(content, list):
        raise invalid(f"{path}.content", "a list is expected")
    return [_part(part, role, f"{path}.content[{n}]") for n, part in enumerate(content)]


def _part(part: Any, role: str, path: str) -> Members:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in _PARTS[role]:
        raise invalid(f"{path}.type", " or ".join(_PARTS[role]) + f" is expected for {role}")
    if kind == "input_image":
        if not isinstance(url := part.get("image_url"), str) or _IMAGE.match(url) is None:
            raise invalid(f"{path}.image_url", "a data: URL of a PNG or JPEG image in base64 is expected")
        if part.get("detail") not in (None, "auto", "low", "high"):
            raise invalid(f"{path}.detail", "auto, low or high is expected")
        return {name: part[name] for name in ("type", "image_url", "detail") if part.get(name) is not None}
    if kind == "input_audio":
        if not isinstance(part.get("transcript"), str):
            what = (
                f"Unsupported parameter: '{path}.audio': send speech with input_audio_buffer.append, or its transcript"
            )
            raise Unsupported(what=what, param=f"{path}.audio")
        return {"type": kind, "transcript": part["transcript"]}
    _texts(part, path, "text")
    return {"type": kind, "text": part["text"]}


def image_path(item: Members, path: str = "item") -> str | None:
    """Return the path of the first image of a message; None if it has none."""
    parts = item.get("content") or ()
    return next((f"{path}.content[{n}]" for n, part in enumerate(parts) if part["type"] == "input_image"), None)


# ---- as a chat request


def chat_messages(items: Iterable[Members]) -> list[Members]:
    """Return items as messages of a chat request.

    In the chat API the results of calls follow the message with the calls at once. So adjoining calls become one message,
    with their results behind it wherever these are; calls without a result, and results without a call, are left out.
    """
    items = list(items)
    outputs = {item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"}
    messages: list[Members] = []
    calls: list[Members] = []
    for item in items:
        if item["type"] == "function_call":
            if item.get("call_id") in outputs:
                calls.append(item)
            continue
        messages += _called(calls, outputs)
        calls = []
        if item["type"] == "message" and (message := _message(item)) is not None:
            messages.append(message)
    return messages + _called(calls, outputs)


def _called(calls: list[Members], outputs: dict[str, str]) -> list[Members]:
    if not calls:
        return []
    made = [
        {"id": c["call_id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
        for c in calls
    ]
    results = [{"role": "tool", "tool_call_id": c["call_id"], "content": outputs[c["call_id"]]} for c in calls]
    return [{"role": "assistant", "content": None, "tool_calls": made}, *results]


def _message(item: Members) -> Members | None:
    """Return a message as one of a chat request; None for one without content, such as an answer that nobody heard."""
    role, parts = item["role"], item["content"]
    text = "".join(part.get("text") or part.get("transcript") or "" for part in parts)
    if not any(part["type"] == "input_image" for part in parts):
        return {"role": role, "content": text} if text else None
    content: list[Members] = []
    for part in parts:
        if part["type"] == "input_image":
            content.append(
                {"type": "image_url", "image_url": {"url": part["image_url"], "detail": part.get("detail", "auto")}}
            )
        elif text := part.get("text") or part.get("transcript"):
            content.append({"type": "text", "text": text})
    return {"role": role, "content": content}


# ---- a conversation that has become too long

CHARACTERS_PER_TOKEN = 4  # an estimate: the language model may be any
RETAINED = 0.8  # part of the items that is kept where the client does not say


def within_limit(items: list[Members], truncation: Any) -> list[Members]:
    """Return the latest items that fit the client's limit of tokens; all of them if it has none, or they fit."""
    limit = (truncation.get("token_limits") or {}).get("post_instructions") if isinstance(truncation, dict) else None
    if limit is None or sum(map(length, items)) <= limit * CHARACTERS_PER_TOKEN:
        return items
    left = limit * CHARACTERS_PER_TOKEN * truncation["retention_ratio"]
    kept = len(items)
    while kept and left >= length(items[kept - 1]):
        kept -= 1
        left -= length(items[kept])
    return items[min(kept, len(items) - 1) :]


def shortened(items: list[Members], truncation: Any) -> list[Members] | None:
    """Return the latest items, after a language model has refused all of them as too long; None if none may be left out."""
    if truncation == "disabled" or len(items) < 2:
        return None
    ratio = truncation["retention_ratio"] if isinstance(truncation, dict) else RETAINED
    return items[max(1, len(items) - int(len(items) * ratio)) :] or items[-1:]


def length(item: Members) -> int:
    """Return the number of characters of an item's content."""
    texts = [item.get("arguments"), item.get("output")]
    for part in item.get("content") or ():
        texts += part.get("text"), part.get("transcript"), part.get("image_url")
    return sum(len(text) for text in texts if text)


# ---- truncation of an answer


def truncatable(item: Members | None, id_: object) -> Members:
    """Return an assistant's spoken item. Raises EventRefused, with the codes and texts that OpenAI's server has.

    Sources: livekit/agents #6158 and #6249 (unsupported_content_type), speaches' tests against OpenAI (the text for an
    unknown item; the code as in livekit/agents and others that handle it).
    """
    if item is None:
        what = f"Error truncating item: the item with id {id_!r} does not exist."
        raise EventRefused(what=what, event_code="item_truncate_invalid_item_id", param="item_id")
    content = item.get("content") or ()
    if item.get("role") != "assistant" or not any(part["type"] == "output_audio" for part in content):
        what = "Only model output audio messages can be truncated"
        raise EventRefused(what=what, event_code="unsupported_content_type", param="item_id")
    return item


def missing_item(action: str, id_: object) -> EventRefused:
    """Return the refusal to retrieve or delete an item that does not exist. Source: speaches' tests against OpenAI."""
    gerund = {"retrieve": "retrieving", "delete": "deleting"}[action]
    what = f"Error {gerund} item: the item with id {id_!r} does not exist."
    return EventRefused(what=what, event_code=f"item_{action}_invalid_item_id", param="item_id")
