"""Ollama's own API: `POST /api/chat`, whole and as lines of JSON. Only below `/ollama`: at the root, `/api` is ours.

Streaming is this API's default. Where the upstream is an Ollama too, its own answer goes out unchanged.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from gw.dialects import error_bodies
from gw.dialects.http_handler import (
    JSON,
    Dialect,
    Handler,
    HttpExchange,
    answer_headers,
    body_of,
    stream_lines,
    while_connected,
)
from gw.dialects.request_io import send_whole
from gw.errors import AllCandidatesFailed, GwError, ProviderError
from gw.relay.relay import ChatAnswer
from gw.types.llm import ChatEvent, ChatRequest
from gw.wire.ollama_chat import OllamaEncoder, error_body, parse_request

_LINES = b"application/x-ndjson"


def _error_body(error: GwError, request_id: str) -> bytes:
    facts = error.facts() | {"code": error_bodies.code_of(error), "request_id": request_id}
    facts.pop("what", None)
    if isinstance(error, ProviderError):
        facts["outcome"] = error.outcome
    if isinstance(error, AllCandidatesFailed):
        facts["attempts"] = error_bodies.attempts_of(error)
    return error_body(error.message, **facts)


def _in_band(body: bytes) -> bytes:
    return body + b"\n"


DIALECT = Dialect(name="ollama", error_body=_error_body, in_band=_in_band)


async def chat(exchange: HttpExchange) -> None:
    request = parse_request(await body_of(exchange))
    answer = _stream if request.stream else _whole
    await while_connected(exchange, partial(answer, exchange, request))


def _encoder(answer: ChatAnswer) -> OllamaEncoder:
    created_at = datetime.fromtimestamp(answer.meter.timestamp, UTC).isoformat().replace("+00:00", "Z")
    return OllamaEncoder(model=answer.call.model.name, created_at=created_at)


async def _whole(exchange: HttpExchange, request: ChatRequest) -> None:
    events: list[ChatEvent] = []
    async with exchange.gateway.relay.chat(request, exchange.caller) as answer:
        while not answer.done:
            events += await answer.receive()
        body = _encoder(answer).answer(events)
        await send_whole(exchange.send, 200, JSON, body, answer_headers(exchange, answer))


async def _stream(exchange: HttpExchange, request: ChatRequest) -> None:
    opening = exchange.gateway.relay.chat(request, exchange.caller)
    await stream_lines(exchange, opening, lambda answer: _encoder(answer).encode, _LINES)


ROUTES: dict[tuple[str, str], Handler] = {("POST", "/api/chat"): chat}
"""Method and path → handler."""
