"""OpenAI's Responses API: `POST /v1/responses`, and the responses that are stored here.

An upstream of this dialect gets the request as it came, and its own answer goes out unchanged, under its own id and in its own
store. What another vendor has answered is stored here, in memory, as far as `serve.stored_responses_mb` allows: an app may then
continue it with `previous_response_id`, whoever answers next, read it and delete it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from gw.dialects import http_handler
from gw.dialects.exchange import Dialect, HttpExchange, Routes
from gw.dialects.http_handler import JSON
from gw.dialects.request_io import send_response
from gw.errors import GwError
from gw.gateway import Gateway
from gw.relay.relay import ChatAnswer
from gw.types.pending import Pending
from gw.wire.openai_responses_answer import ResponsesEncoder
from gw.wire.openai_responses_request import Item, ResponsesRequest, parse_request

DIALECT = Dialect(name="openai")
_OFF = ": this gateway stores no responses; set serve.stored_responses_mb, or send the conversation in 'input'"
_NOT_HERE = "; this gateway stores only responses that it has translated itself"


class UnknownResponse(GwError, status=404, code="response_not_found"):
    """No response with this id is stored for this project."""

    id: str
    where: str

    @property
    def message(self) -> str:
        return f"Response with id '{self.id[:100]}' not found{self.where}."


class _Stored(msgspec.Struct, frozen=True):
    """A response as JSON, and its conversation, output included, as a JSON list of items; the first `inputs` were its input."""

    response: bytes
    items: bytes
    inputs: int

    @property
    def size(self) -> int:
        return len(self.response) + len(self.items)


class StoredResponses:
    """Responses by project and id, the oldest forgotten first. They end with the process."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._stored: OrderedDict[tuple[str, str], _Stored] = OrderedDict()
        self._bytes = 0

    @property
    def _max_bytes(self) -> int:
        return int(self._gateway.settings.serve.stored_responses_mb * 1_000_000)

    @property
    def on(self) -> bool:
        return self._max_bytes > 0

    @property
    def where(self) -> str:
        """Say why a response may be missing."""
        return _NOT_HERE if self.on else _OFF

    def put(self, project: str, request: ResponsesRequest, response: dict[str, Any]) -> None:
        items = (*request.items, *response["output"])
        stored = _Stored(msgspec.json.encode(response), msgspec.json.encode(items), len(request.items))
        self._stored[project, response["id"]] = stored
        self._bytes += stored.size
        while self._bytes > self._max_bytes:
            _, oldest = self._stored.popitem(last=False)
            self._bytes -= oldest.size

    def get(self, project: str, id_: str) -> _Stored:
        """Raise UnknownResponse."""
        stored = self._stored.get((project, id_))
        if stored is None:
            raise UnknownResponse(id=id_, where=self.where)
        return stored

    def pop(self, project: str, id_: str) -> None:
        """Raise UnknownResponse."""
        self._bytes -= self.get(project, id_).size
        del self._stored[project, id_]

    def conversation(self, project: str, id_: str) -> tuple[Item, ...] | None:
        """Return the items up to and including a response; None if it is not stored here."""
        stored = self._stored.get((project, id_))
        return None if stored is None else tuple(msgspec.json.decode(stored.items))


async def _create(responses: StoredResponses, exchange: HttpExchange) -> Pending:
    caller = exchange.caller
    earlier: Callable[[str], tuple[Item, ...] | None] = partial(responses.conversation, caller.project)
    request = await exchange.decoded(partial(parse_request, earlier=earlier, missing=responses.where))
    stores = responses.on and request.store
    encoder = ResponsesEncoder(
        id="resp_" + caller.request_id, created_at=int(exchange.gateway.clock.now()), model=request.model,
        echo={**request.echo, "store": stores}, summarized=request.summarized,
        **({"on_complete": partial(responses.put, caller.project, request)} if stores else {}),
    )
    exchange.dialect = msgspec.structs.replace(DIALECT, in_band=encoder.failure)

    def begin(answer: ChatAnswer) -> ResponsesEncoder:
        encoder.model = answer.call.model.name
        return encoder

    return http_handler.answer_chat(exchange, request, begin)


def _id(exchange: HttpExchange) -> str:
    id_: str = exchange.scope["path_params"]["response_id"]
    return id_


async def _retrieve(responses: StoredResponses, exchange: HttpExchange) -> None:
    stored = responses.get(exchange.caller.project, _id(exchange))
    await send_response(exchange.send, 200, JSON, stored.response, exchange.id_headers)


async def _delete(responses: StoredResponses, exchange: HttpExchange) -> None:
    id_ = _id(exchange)
    responses.pop(exchange.caller.project, id_)
    body = msgspec.json.encode({"id": id_, "object": "response", "deleted": True})
    await send_response(exchange.send, 200, JSON, body, exchange.id_headers)


async def _input_items(responses: StoredResponses, exchange: HttpExchange) -> None:
    """Send all items in one page, the last first, as the API does by default."""
    id_ = _id(exchange)
    stored = responses.get(exchange.caller.project, id_)
    items = msgspec.json.decode(stored.items)[: stored.inputs]
    listed = [{"id": f"item_{at}_{id_}", **item} for at, item in enumerate(items)][::-1]
    page = {
        "object": "list", "data": listed, "has_more": False, "first_id": listed[0]["id"] if listed else None,
        "last_id": listed[-1]["id"] if listed else None,
    }
    await send_response(exchange.send, 200, JSON, msgspec.json.encode(page), exchange.id_headers)


def routes(responses: StoredResponses) -> Routes:
    return {
        ("POST", "/v1/responses"): partial(_create, responses),
        ("GET", "/v1/responses/{response_id}"): partial(_retrieve, responses),
        ("DELETE", "/v1/responses/{response_id}"): partial(_delete, responses),
        ("GET", "/v1/responses/{response_id}/input_items"): partial(_input_items, responses),
    }
