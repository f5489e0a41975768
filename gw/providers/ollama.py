"""Ollama: its native API, or its OpenAI-compatible one where the entry says `api: openai`.

Native by default: only there can the context length be set (`num_ctx`), without which longer prompts are cut silently, and
only there does `keep_alive` keep a model in memory between two calls.
"""

from __future__ import annotations

import attrs

from gw.providers import openai_like
from gw.providers.chat_call import ChatWire, chat_call
from gw.providers.http_call import HttpCall
from gw.providers.spec import Account, ChatStream, ProviderSpec, bearer
from gw.types.llm import ChatRequest
from gw.wire import ollama_chat, vendor_errors

_NATIVE = ChatWire(
    dialect="ollama", path=b"/api/chat", stream_type=b"application/x-ndjson", headers=bearer,
    body=lambda request, account: ollama_chat.upstream_body(request, account.model, account.options),
    decoder=lambda provider, keep_raw: ollama_chat.OllamaDecoder(provider, keep_raw=keep_raw),
    decode=lambda body, provider, keep_raw: ollama_chat.decode_answer(body, provider, keep_raw=keep_raw),
    classify=vendor_errors.classify,
)
_OPENAI = attrs.evolve(openai_like.CHAT, path=b"/v1/chat/completions")
_EMBEDDINGS = attrs.evolve(openai_like.EMBEDDINGS, path=b"/v1/embeddings")


def chat(request: ChatRequest, account: Account) -> HttpCall[ChatStream]:
    """`POST {base}/api/chat`, or with `api: openai` `{base}/v1/chat/completions`; `{base}/v1/embeddings` for embeddings."""
    if request.dialect == _EMBEDDINGS.dialect:
        return chat_call(_EMBEDDINGS, request, account)
    return chat_call(_OPENAI if account.options.get("api") == "openai" else _NATIVE, request, account)


SPEC = ProviderSpec(
    type="ollama", base_url="http://127.0.0.1:11434", dialect="ollama",
    abilities=frozenset({"stream", "tools", "vision"}),
    more_chat_dialects=frozenset({_EMBEDDINGS.dialect}),
    chat=chat,
    health_path="/api/version",
    transports={"chat": "HTTP, lines of JSON"},
)
