"""POST /api/generate, /api/embed and /api/embeddings of Ollama, as a server.

Source: ollama-python 0.6.4, `_types.py` (`GenerateRequest`, `GenerateResponse`, `EmbedRequest`, `EmbedResponse`,
`EmbeddingsRequest`, `EmbeddingsResponse`), and Ollama's docs/api.md (November 2026): a request without a prompt only loads the
model, and streaming is the default.

A prompt becomes a conversation of one turn. What a conversation cannot express (a template, a suffix, earlier tokens) is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.llm import ChatEvent, ChatRequest
from gw.wire.json_codec import MEMBERS, decode_request, present
from gw.wire.ollama_chat import Object, OllamaEncoder, parse_request
from gw.wire.openai_embeddings import parse_embeddings

_NOT_OFFERED = (
    "suffix", "template", "context", "raw", "logprobs", "top_logprobs", "width", "height", "steps",
)  # fmt: skip
_EMPTY = (b"null", b"false", b'""', b"[]", b"{}")
_PASSED_ON = ("options", "format", "think", "keep_alive")


class _Generate(msgspec.Struct, gc=False):
    model: str = ""
    prompt: str | None = None
    system: str | None = None
    images: list[str] | None = None
    stream: bool | None = None
    keep_alive: Any = None

    @property
    def only_loads(self) -> bool:
        return not self.prompt and not self.images


_GENERATE = msgspec.json.Decoder(_Generate)


def parse_generate(body: bytes) -> tuple[ChatRequest | None, str, str]:
    """Return the conversation, the model's name, and `load` or `unload` in place of a conversation that has no words.

    Raises ClientProtocolError.
    """
    request, members = decode_request(_GENERATE, body), decode_request(MEMBERS, body)
    if named := [name for name in _NOT_OFFERED if bytes(members.get(name, b"null")) not in _EMPTY]:
        what = f"'{named[0]}' is not offered: the prompt goes to the model as one turn of a conversation"
        raise ClientProtocolError(what=what, param=named[0])
    if request.only_loads:
        return None, request.model, "unload" if request.keep_alive in (0, "0") else "load"
    system = [{"role": "system", "content": request.system}] if request.system else []
    turn = {"role": "user", "content": request.prompt or "", **present(images=request.images)}
    passed = {name: members[name] for name in _PASSED_ON if name in members}
    chat = {"model": request.model, "stream": request.stream is not False, "messages": [*system, turn], **passed}
    return parse_request(msgspec.json.encode(chat)), request.model, ""


class GenerateEncoder(OllamaEncoder):
    """Like the encoder of chats, with the words of a line as `response`.

    The lines of an upstream of this dialect are those of a chat, so they are not passed on.
    """

    def encode(self, events: list[ChatEvent]) -> bytes:
        return super().encode(_without_raw(events))

    def answer(self, events: list[ChatEvent]) -> bytes:
        return super().answer(_without_raw(events))

    def loaded(self, reason: str) -> bytes:
        """Return the answer to a request that only loads or unloads a model."""
        return msgspec.json.encode(self._object({"content": ""}, done=True, done_reason=reason))

    def _object(self, message: Object, **members: Any) -> Object:
        words = {"response": message.get("content") or "", **present(thinking=message.get("thinking"))}
        return {**self._common, **words, **members}


def _without_raw(events: list[ChatEvent]) -> list[ChatEvent]:
    return [msgspec.structs.replace(event, raw=None) if getattr(event, "raw", None) is not None else event for event in events]


# ---- embeddings


def parse_embed(body: bytes, *, older: bool = False) -> ChatRequest:
    """Return a request for embeddings; `older`: that of /api/embeddings, with one `prompt`. Raises ClientProtocolError.

    `truncate` and `keep_alive` are left to the model's server: Ollama cuts texts that are too long, other vendors refuse them.
    """
    members = decode_request(MEMBERS, body)
    options = msgspec.json.decode(members.get("options", b"null"))
    if isinstance(options, Mapping) and any(value is not None for value in options.values()):
        raise ClientProtocolError(what="'options' are not passed on with embeddings: set them at the model's server", param="options")
    given = members.get("prompt" if older else "input", msgspec.Raw(b"null"))
    request = {"model": members.get("model", ""), "input": given, "encoding_format": "float"}
    if "dimensions" in members:
        request["dimensions"] = members["dimensions"]
    return parse_embeddings(msgspec.json.encode(request))


class _Vector(msgspec.Struct, gc=False):
    embedding: msgspec.Raw


class _Used(msgspec.Struct, gc=False):
    prompt_tokens: int = 0


class _Vectors(msgspec.Struct, gc=False):
    data: list[_Vector]
    usage: _Used | None = None


_VECTORS = msgspec.json.Decoder(_Vectors)


def encode_embeddings(document: bytes, model: str, *, older: bool = False) -> bytes:
    """Return OpenAI's answer in Ollama's form. Raises msgspec.DecodeError for a vector that is missing."""
    vectors = _VECTORS.decode(document)
    if older:
        return msgspec.json.encode({"embedding": vectors.data[0].embedding})
    used = {} if vectors.usage is None else {"prompt_eval_count": vectors.usage.prompt_tokens}
    return msgspec.json.encode({"model": model, "embeddings": [vector.embedding for vector in vectors.data], **used})
