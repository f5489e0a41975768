"""POST /chat/completions of vendors that take less than OpenAI does, or call it otherwise: the request as they take it.

    settings_of(request, variant)       what the request asks for and the vendor refuses: needed, and only wished for
    taken_fields(request, variant)      the request's members without these, and in the vendor's words
    upstream_body(request, …, variant)  the body with them

Which members are needed does not depend on the vendor: without `tools`, `stop` or a schema the answer means something else;
without `seed`, `user` or a penalty it is only tuned otherwise. A value that says the same as the member's absence, such as
`n: 1`, is left out and is neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gw.types.chat_variant import ChatVariant
from gw.types.llm import ChatRequest
from gw.wire import openai_chat
from gw.wire.json_codec import BAD_JSON, decode_or

NEEDED = frozenset({
    "tools", "tool_choice", "functions", "function_call", "response_format", "modalities", "audio", "n", "stop",
    "web_search_options",
})  # fmt: skip
_SAYS_NOTHING: Mapping[str, tuple[object, ...]] = {
    "n": (1,), "tools": ([],), "functions": ([],), "tool_choice": ("auto", "none"), "function_call": ("auto", "none"),
    "response_format": ({"type": "text"},), "modalities": (["text"],), "stop": ([],), "logprobs": (False,), "top_logprobs": (0,),
    "logit_bias": ({},), "store": (False,), "parallel_tool_calls": (True,), "frequency_penalty": (0,), "presence_penalty": (0,),
    "service_tier": ("auto", "default"), "metadata": ({},),
}  # fmt: skip
"""Values that OpenAI's API documents as the defaults of these members (openai-python 3.52.0, `chat/completion_create_params.py`)."""
_MESSAGES = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_ANY = msgspec.json.Decoder()
_DEVELOPER = b'"developer"'
_SYSTEM = msgspec.Raw(b'"system"')
_NAME = b'"name"'


def settings_of(request: ChatRequest, variant: ChatVariant) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the settings of a request that the vendor refuses: those the answer depends on, and those that only tune it."""
    needed: list[str] = []
    tuning: list[str] = []
    for name, raw in request.fields.items():
        value = decode_or(_ANY, raw, None)
        if value is None or not _is_refused(name, value, variant) or value in _SAYS_NOTHING.get(name, ()):
            continue
        (needed if name in NEEDED else tuning).append(name)
    if not variant.message_names and _has_names(request.fields["messages"]):
        tuning.append("name")
    return tuple(needed), tuple(tuning)


def _is_refused(name: str, value: object, variant: ChatVariant) -> bool:
    if name in variant.refuses:
        return True
    kind = value.get("type") if isinstance(value, dict) else value
    return isinstance(kind, str) and f"{name}.{kind}" in variant.refuses


def taken_fields(request: ChatRequest, variant: ChatVariant) -> dict[str, msgspec.Raw]:
    """Return the members of a request as the vendor takes them."""
    fields = _renamed(request.fields, variant)
    changed = _changed_messages(fields["messages"], variant)
    if changed is not None:
        fields["messages"] = changed
    return fields


def upstream_body(request: ChatRequest, model: str, variant: ChatVariant) -> bytes:
    """Return the body for a vendor with this variant."""
    request = msgspec.structs.replace(request, fields=taken_fields(request, variant))
    return openai_chat.upstream_body(request, model, stream_options=variant.stream_options)


def _renamed(fields: Mapping[str, msgspec.Raw], variant: ChatVariant) -> dict[str, msgspec.Raw]:
    """Leave out what the vendor refuses and rename the remainder. A member that is there under both names is kept once."""
    sent: dict[str, Any] = {}
    partly = {name.partition(".")[0] for name in variant.refuses if "." in name}
    for name, raw in fields.items():
        if name in variant.refuses or (name in partly and _is_refused(name, decode_or(_ANY, raw, None), variant)):
            continue
        new = variant.renames.get(name, name)
        if new == name or new not in fields:
            sent[new] = raw
    return sent


# ---- messages


def _decoded(raw: msgspec.Raw) -> list[dict[str, msgspec.Raw]]:
    """Return the messages; none where they are malformed: the vendor will say what is wrong with them."""
    try:
        return _MESSAGES.decode(raw)
    except BAD_JSON:
        return []


def _has_names(raw: msgspec.Raw) -> bool:
    return _NAME in bytes(raw) and any("name" in message for message in _decoded(raw))


def _changed_messages(raw: msgspec.Raw, variant: ChatVariant) -> msgspec.Raw | None:
    """Return the messages as the vendor takes them; None where nothing has to be changed. Names of tools stay."""
    encoded = bytes(raw)
    drops_names = not variant.message_names and _NAME in encoded
    drops_role = not variant.developer_role and _DEVELOPER in encoded
    if not (drops_names or drops_role):
        return None
    messages = _decoded(raw)
    for message in messages:
        if drops_names:
            message.pop("name", None)
        if drops_role and bytes(message.get("role", b"")) == _DEVELOPER:
            message["role"] = _SYSTEM
    return msgspec.Raw(msgspec.json.encode(messages)) if messages else None
