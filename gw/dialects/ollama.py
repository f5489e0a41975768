"""Ollama's own API: `POST /api/chat`, as one object or as lines of JSON. Only below `/ollama`: at the root, `/api` is ours.

Streaming is this API's default. If the upstream is an Ollama too, its own answer goes out unchanged.
"""

from __future__ import annotations

from datetime import UTC, datetime

from gw.dialects import error_bodies
from gw.dialects.http_handler import (
    Dialect,
    Handler,
    HttpExchange,
    answer_chat,
    request_body,
    stream_lines,
    while_connected,
)
from gw.errors import GwError
from gw.relay.relay import ChatAnswer
from gw.wire.ollama_chat import OllamaEncoder, error_body, parse_request

_LINES = b"application/x-ndjson"


def _error_body(error: GwError, request_id: str) -> bytes:
    facts = error_bodies.facts_of(error) | {"code": error_bodies.code_of(error), "request_id": request_id}
    return error_body(error.message, **facts)


DIALECT = Dialect(name="ollama", error_body=_error_body, in_band=lambda body: body + b"\n")


async def chat(exchange: HttpExchange) -> None:
    request = parse_request(await request_body(exchange))
    if not request.stream:
        await answer_chat(exchange, request, lambda answer, events: _encoder(answer).answer(events))
        return
    opening = exchange.gateway.relay.chat(request, exchange.caller)
    await while_connected(
        exchange, lambda: stream_lines(exchange, opening, lambda answer: _encoder(answer).encode, _LINES)
    )


def _encoder(answer: ChatAnswer) -> OllamaEncoder:
    created_at = datetime.fromtimestamp(answer.meter.timestamp, UTC).isoformat().replace("+00:00", "Z")
    return OllamaEncoder(model=answer.call.model.name, created_at=created_at)


ROUTES: dict[tuple[str, str], Handler] = {("POST", "/api/chat"): chat}
"""Method and path → handler."""
