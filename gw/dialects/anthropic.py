"""Anthropic's Messages API: `POST /v1/messages`, whole and streamed.

Where the upstream speaks this dialect too, it gets the request with its `anthropic-beta` header, and its own answer goes out
unchanged. `max_tokens`, which this API insists on, bounds the answer at every other vendor as well.
"""

from __future__ import annotations

from functools import partial

from gw.dialects import error_bodies
from gw.dialects.http_handler import (
    JSON,
    Dialect,
    Handler,
    HttpExchange,
    answer_headers,
    body_of,
    stream_events,
    while_connected,
)
from gw.dialects.request_io import send_whole
from gw.errors import AllCandidatesFailed, GwError, ProviderError
from gw.relay.relay import ChatAnswer
from gw.types.llm import ChatEvent, ChatRequest
from gw.wire import sse
from gw.wire.anthropic_messages_server import MessagesEncoder, error_body, parse_request, wants_thinking

_CHARACTERS_A_TOKEN = 4


def _error_body(error: GwError, request_id: str) -> bytes:
    facts = error.facts()
    facts.pop("what", None)
    if isinstance(error, ProviderError):
        facts["outcome"] = error.outcome
    if isinstance(error, AllCandidatesFailed):
        facts["attempts"] = error_bodies.attempts_of(error)
    return error_body(
        status=error_bodies.status_of(error),
        message=error.message,
        request_id=request_id,
        **facts | {"code": error_bodies.code_of(error)},
    )


def _in_band(body: bytes) -> bytes:
    return sse.encode(body, event="error")


DIALECT = Dialect(name="anthropic", error_body=_error_body, in_band=_in_band, id_headers=(b"x-request-id", b"request-id"))


async def messages(exchange: HttpExchange) -> None:
    beta = b",".join(value for name, value in exchange.scope["headers"] if name == b"anthropic-beta")
    request = parse_request(await body_of(exchange), beta)
    answer = _stream if request.stream else _whole
    await while_connected(exchange, partial(answer, exchange, request))


def _encoder(exchange: HttpExchange, answer: ChatAnswer, request: ChatRequest) -> MessagesEncoder:
    return MessagesEncoder(
        id="msg_" + exchange.caller.request_id,
        model=answer.call.model.name,
        input_tokens=request.input_characters // _CHARACTERS_A_TOKEN,
        thinking=request.native is not None and wants_thinking(request.native),
    )


async def _whole(exchange: HttpExchange, request: ChatRequest) -> None:
    events: list[ChatEvent] = []
    async with exchange.gateway.relay.chat(request, exchange.caller) as answer:
        while not answer.done:
            events += await answer.receive()
        body = _encoder(exchange, answer, request).message(events)
        await send_whole(exchange.send, 200, JSON, body, answer_headers(exchange, answer))


async def _stream(exchange: HttpExchange, request: ChatRequest) -> None:
    await stream_events(
        exchange,
        exchange.gateway.relay.chat(request, exchange.caller),
        lambda answer: _encoder(exchange, answer, request).encode,
    )


ROUTES: dict[tuple[str, str], Handler] = {("POST", "/v1/messages"): messages}
"""Method and path → handler."""
