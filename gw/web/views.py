"""What every view of the control plane is made of: the right it needs, its query, its JSON answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec
import trio
from quart import Response, request

from gw.errors import RequestError
from gw.gateway import Gateway
from gw.types.asgi import Scope
from gw.web.guard import Right

View = Callable[..., Awaitable[Response]]
V = TypeVar("V", bound=View)
B = TypeVar("B", bound=msgspec.Struct)

READ_LAG_S = 0.25
"""Longest wait for the writer before a report is read; then it is read without the newest records."""
BODY_BYTES = 1_000_000


def needs(right: Right) -> Callable[[V], V]:
    """Mark a view with the right it needs; one without a mark needs `admin`."""

    def mark(view: V) -> V:
        view.gw_right = right  # type: ignore[attr-defined]  # read by right_of
        return view

    return mark


def right_of(view: Callable[..., Any] | None) -> Right:
    right: Right = getattr(view, "gw_right", "admin")
    return right


def json_reply(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` of dicts, lists, numbers, strings and msgspec structs. Not to be cached: it is about this moment."""
    response = Response(msgspec.json.encode(value), status, content_type="application/json")
    response.headers["cache-control"] = "no-store"
    if headers:
        response.headers.update(headers)
    return response


def scope() -> Scope:
    """The ASGI scope of the current request."""
    return cast("Scope", request.scope)


def query(name: str, default: str | None = None) -> str | None:
    """The first value of a query field."""
    value: str | None = request.args.get(name, default)
    return value


def query_text(name: str, default: str) -> str:
    return query(name, default) or ""


async def read_json(kind: type[B]) -> B:
    """The request's body as a msgspec struct. Raises RequestError, saying what is wrong and where."""
    media_type = (request.headers.get("content-type") or "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestError(what="the content-type must be application/json", param="content-type")
    body = await request.get_data(cache=False)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(what=f"the body is not what was expected: {error}") from error


async def fresh(gateway: Gateway) -> None:
    """Let the records of requests that have ended reach the database before it is read, if that takes a moment only."""
    if gateway.store.queue_depth:
        with trio.move_on_after(READ_LAG_S):
            await gateway.store.flush()
