"""Ollama's own API: `POST /api/chat`, as one object or as lines of JSON. Only below `/ollama`: at the root, `/api` is ours.

Streaming is this API's default. If the upstream is an Ollama too, its own answer goes out unchanged.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from gw.dialects import error_bodies
from gw.dialects.http_handler import Dialect, HttpExchange, Routes, answer_chat
from gw.relay.relay import ChatAnswer
from gw.wire.ollama_chat import OllamaEncoder, error_body, parse_request

_LINES = b"application/x-ndjson"
DIALECT = Dialect(
    name="ollama", error_body=partial(error_bodies.body_by, error_bodies.bare(error_body)), in_band=lambda body: body + b"\n"
)


async def chat(exchange: HttpExchange) -> None:
    await answer_chat(exchange, parse_request(await exchange.body()), _encoder, _LINES)


def _encoder(answer: ChatAnswer) -> OllamaEncoder:
    created_at = datetime.fromtimestamp(answer.meter.timestamp, UTC).isoformat().replace("+00:00", "Z")
    return OllamaEncoder(model=answer.call.model.name, created_at=created_at)


ROUTES: Routes = {("POST", "/api/chat"): chat}
