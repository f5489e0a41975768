"""Ollama's own API: chat and generate, as one object or as lines of JSON, embeddings, and what is said of models. Only below `/ollama`: at
the root, `/api` is ours.

Streaming is this API's default. If the upstream is an Ollama too, its own answer goes out unchanged. Requests that change the
models of a server are refused. The answers have the members that ollama-python 0.6.3 reads (`ListResponse`, `ShowResponse`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from gw.dialects import error_bodies
from gw.dialects.exchange import Dialect, HttpExchange, Routes
from gw.dialects.http_handler import JSON, answer_chat, answer_document
from gw.dialects.request_io import send_response
from gw.errors import NotOffered
from gw.providers.spec import spec_of
from gw.relay.relay import ChatAnswer
from gw.wire.json_codec import decode_request
from gw.wire.ollama_chat import OllamaEncoder, error_body, parse_request
from gw.wire.ollama_generate import GenerateEncoder, encode_embeddings, parse_embed, parse_generate

_LINES = b"application/x-ndjson"
DIALECT = Dialect(
    name="ollama", error_body=partial(error_bodies.body_by, error_bodies.bare(error_body)), in_band=lambda body: body + b"\n"
)
COMPATIBLE = Dialect(name="ollama")
"""OpenAI's protocol below `/ollama/v1`: answers and errors are OpenAI's, and bare names of models mean Ollama's first."""


async def chat(exchange: HttpExchange) -> None:
    await answer_chat(exchange, await exchange.decoded(parse_request), _encoder, _LINES)


def _encoder(answer: ChatAnswer) -> OllamaEncoder:
    return OllamaEncoder(model=answer.call.model.name, created_at=_stamp(answer.meter.timestamp))


def _stamp(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).isoformat().replace("+00:00", "Z")


async def generate(exchange: HttpExchange) -> None:
    request, model, done_reason = await exchange.decoded(parse_generate)
    if request is not None:
        await answer_chat(exchange, request, _generate_encoder, _LINES, passes_raw=False)
        return
    (meant, *_) = exchange.gateway.relay.resolve(model, "llm", exchange.caller)
    encoder = GenerateEncoder(model=meant.name, created_at=_stamp(exchange.gateway.clock.now()))
    await send_response(exchange.send, 200, JSON, encoder.loaded(done_reason), exchange.id_headers)


def _generate_encoder(answer: ChatAnswer) -> GenerateEncoder:
    return GenerateEncoder(model=answer.call.model.name, created_at=_stamp(answer.meter.timestamp))


async def embed(exchange: HttpExchange, *, older: bool = False) -> None:
    request = await exchange.decoded(partial(parse_embed, older=older))
    await answer_document(exchange, request, lambda body, answer: encode_embeddings(body, answer.call.model.name, older=older))


async def running(exchange: HttpExchange) -> None:
    """List no models: the gateway has none in memory."""
    await _send(exchange, {"models": []})


class _ShowRequest(msgspec.Struct):
    """`name` is the older word for `model`."""

    model: str = ""
    name: str = ""


_SHOW = msgspec.json.Decoder(_ShowRequest)
_CAPABILITIES = {"tools": "tools", "vision": "vision"}  # ability of a provider type → Ollama's word


async def _send(exchange: HttpExchange, answer: object) -> None:
    await send_response(exchange.send, 200, JSON, msgspec.json.encode(answer), exchange.id_headers)


async def version(exchange: HttpExchange) -> None:
    await _send(exchange, {"version": exchange.gateway.version})


async def tags(exchange: HttpExchange) -> None:
    """List the language models. The gateway has no files, so they have neither size nor digest."""
    modified_at = datetime.fromtimestamp(int(exchange.gateway.started_at), UTC).isoformat().replace("+00:00", "Z")
    models = exchange.gateway.current.catalog.by_modality["llm"].values()
    listed = [
        {"name": model.id, "model": model.id, "modified_at": modified_at, "size": 0, "digest": "", "details": _details(model.provider)}
        for model in models
    ]
    await _send(exchange, {"models": listed})


def _details(family: str) -> dict[str, Any]:
    return {
        "parent_model": "", "format": "", "family": family, "families": [family], "parameter_size": "",
        "quantization_level": "",
    }  # fmt: skip


async def show(exchange: HttpExchange) -> None:
    """Describe the model that a chat request would mean."""
    request = decode_request(_SHOW, await exchange.body())
    (model, *_) = exchange.gateway.relay.resolve(request.model or request.name, "llm", exchange.caller)
    abilities = spec_of(exchange.gateway.current.catalog.provider(model.provider).type).abilities
    offered = ["completion", *(word for ability, word in _CAPABILITIES.items() if ability in abilities)]
    await _send(exchange, {"details": _details(model.provider), "model_info": {}, "capabilities": offered})


async def refuse_administration(exchange: HttpExchange) -> None:
    raise NotOffered(what="this gateway has no models of its own to change: run this against the Ollama server itself")


ROUTES: Routes = {
    ("POST", "/api/chat"): chat,
    ("POST", "/api/generate"): generate,
    ("POST", "/api/embed"): embed,
    ("POST", "/api/embeddings"): partial(embed, older=True),
    ("GET", "/api/ps"): running,
    ("GET", "/api/version"): version,
    ("GET", "/api/tags"): tags,
    ("POST", "/api/show"): show,
    **{("POST", f"/api/{name}"): refuse_administration for name in ("pull", "push", "create", "copy")},
    ("DELETE", "/api/delete"): refuse_administration,
}
