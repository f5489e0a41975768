"""Anthropic's Messages API: `POST /v1/messages`, streamed or not, and `POST /v1/messages/count_tokens`.

If the upstream speaks this dialect too, it gets the request with its `anthropic-beta` header, and its own answer goes out
unchanged. `max_tokens`, which this API requires, limits the answer of every other vendor as well. Tokens are counted by Anthropic only.
"""

from __future__ import annotations

from functools import partial

from gw.dialects import error_bodies
from gw.dialects.exchange import Dialect, HttpExchange, Routes
from gw.dialects.http_handler import answer_chat, answer_document
from gw.errors import GwError
from gw.relay.relay import ChatAnswer
from gw.types.pending import Pending
from gw.wire import anthropic_count_tokens, anthropic_messages_answer, sse
from gw.wire.anthropic_messages_answer import MessagesEncoder
from gw.wire.anthropic_messages_request import parse_request

_CHARACTERS_PER_TOKEN = 4


def _status_of(error: GwError) -> int:
    """Return 529, this vendor's word for an overload, in place of 503."""
    status = error_bodies.status_of(error)
    return 529 if status == 503 else status


def _error_body(error: GwError, request_id: str) -> bytes:
    return error_bodies.body_by(partial(_encode, _status_of(error)), error, request_id)


def _encode(status: int, code: str, message: str, request_id: str, param: object, gw: dict[str, object]) -> bytes:
    """Return the body: this vendor has no codes and no params, but types that follow from the status."""
    about = gw if param is None else {**gw, "param": param}
    return anthropic_messages_answer.error_body(status=status, message=message, request_id=request_id, gw=about)


DIALECT = Dialect(
    name="anthropic", error_body=_error_body, status_of=_status_of, in_band=lambda body: sse.encode(body, event="error"),
    id_headers=(b"x-request-id", b"request-id"),
)


def _beta(exchange: HttpExchange) -> bytes:
    return b",".join(value for name, value in exchange.scope["headers"] if name == b"anthropic-beta")


async def messages(exchange: HttpExchange) -> Pending:
    request = await exchange.decoded(partial(parse_request, beta=_beta(exchange)))
    input_tokens, thinking = request.input_characters // _CHARACTERS_PER_TOKEN, request.wants_thinking

    def encoder(answer: ChatAnswer) -> MessagesEncoder:
        return MessagesEncoder(
            id="msg_" + exchange.caller.request_id, model=answer.call.model.name,
            input_tokens=input_tokens, thinking=thinking,
        )

    return answer_chat(exchange, request, encoder)


async def count_tokens(exchange: HttpExchange) -> None:
    request = await exchange.decoded(partial(anthropic_count_tokens.parse_request, beta=_beta(exchange)))
    await answer_document(exchange, request)


ROUTES: Routes = {("POST", "/v1/messages"): messages, ("POST", "/v1/messages/count_tokens"): count_tokens}
