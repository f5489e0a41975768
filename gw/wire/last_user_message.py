"""The last user message of a chat request, read without decoding the conversation before it."""

from __future__ import annotations

import msgspec

from gw.types.llm import ChatRequest, LastUser
from gw.wire.json_codec import BAD_JSON

MAX_TRIED = 32
"""Messages tried, from the end: a turn's tool results follow the user's message."""


class _Part(msgspec.Struct, gc=False):
    text: str | None = None


class _Message(msgspec.Struct, gc=False):
    role: str = ""
    content: str | list[_Part] | None = None


_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_MESSAGE = msgspec.json.Decoder(_Message)


def last_user(request: ChatRequest) -> LastUser | None:
    """Return the last user message; None if there is none, or messages are not of the usual form."""
    try:
        messages = _LIST.decode(request.fields["messages"])
        for at in range(len(messages) - 1, max(-1, len(messages) - 1 - MAX_TRIED), -1):
            message = _MESSAGE.decode(messages[at])
            if message.role == "user":
                before = bytes(messages[at - 1]) if at else b""
                return LastUser(_text(message.content), hash((at, before)))
    except (KeyError, *BAD_JSON):
        pass
    return None


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text)
