"""Anthropic: the Messages API, `POST {base}/v1/messages`, streamed or whole, and `{base}/v1/messages/count_tokens`.

Source: anthropic-python 2.11.0 and 1.17.0 (November 2026). The newer SDK sends its key as Bearer under a newer version;
`x-api-key` with the version below is what every generation of the API takes.
"""

from __future__ import annotations

import attrs

from gw.providers.chat_call import ChatWire, chat_call
from gw.providers.spec import Abortable, Account, ChatStream, ProviderSpec
from gw.types.llm import ChatRequest
from gw.types.secret import Secret
from gw.wire import anthropic_count_tokens, anthropic_messages_answer, anthropic_messages_request, vendor_errors

VERSION = b"2023-06-01"


def _headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"x-api-key", key.reveal().encode()), (b"anthropic-version", VERSION)]


def _passed(request: ChatRequest) -> list[tuple[bytes, bytes]]:
    """Return the header of a Messages request that goes to the vendor."""
    beta = request.beta if isinstance(request, anthropic_messages_request.MessagesRequest) else b""
    return [(b"anthropic-beta", beta)] if beta else []


_MESSAGES = ChatWire(
    dialect="anthropic", path=b"/v1/messages", stream_type=b"text/event-stream", headers=_headers, passed=_passed,
    body=lambda request, account: anthropic_messages_request.upstream_body(request, account.model),
    decoder=lambda provider, keep_raw: anthropic_messages_answer.MessagesDecoder(provider, keep_raw=keep_raw),
    decode=lambda body, provider, keep_raw: anthropic_messages_answer.decode_message(body, provider, keep_raw=keep_raw),
    classify=vendor_errors.classify_anthropic,
)
_COUNT = attrs.evolve(
    _MESSAGES, dialect=anthropic_count_tokens.DIALECT, path=b"/v1/messages/count_tokens",
    body=lambda request, account: anthropic_count_tokens.upstream_body(request, account.model),
    decode=lambda body, provider, keep_raw: anthropic_count_tokens.decode_count(body, provider, keep_raw=keep_raw),
)


def chat(request: ChatRequest, account: Account) -> Abortable[ChatStream]:
    return chat_call(_COUNT if request.dialect == _COUNT.dialect else _MESSAGES, request, account)


SPEC = ProviderSpec(
    type="anthropic", base_url="https://api.anthropic.com", dialect="anthropic",
    abilities=frozenset({"stream", "tools", "vision"}),
    chat=chat, more_chat_dialects=frozenset({_COUNT.dialect}),
    health_path="/v1/models?limit=1", key_headers=_headers,
)
