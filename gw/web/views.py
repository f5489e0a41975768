"""What every view of the control plane is made of: the right it needs, its query, its JSON answer."""

from __future__ import annotations

import json
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
    body = await _json_bytes()
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(what=f"the body is not what was expected: {error}") from error


async def read_object() -> dict[str, object]:
    """The request's body, a JSON object, for a use case that checks its members itself. Raises RequestError.

    A member named twice is refused: which of the two would count is anybody's guess.
    """
    body = await _json_bytes()
    try:
        body.decode()
        return _unambiguous(json.loads(body, object_pairs_hook=_once, parse_constant=_no_number))
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, _Ambiguous) else "the body is not JSON"
        raise RequestError(what=what) from None


class _Ambiguous(ValueError):
    pass


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Ambiguous(f"the member {next(n for n in names if names.count(n) > 1)!r} stands there twice")
    return found


def _no_number(name: str) -> object:
    raise _Ambiguous(f"{name} is no JSON number")


def _unambiguous(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _Ambiguous("the body must be a JSON object")
    return value


async def _json_bytes() -> bytes:
    media_type = (request.headers.get("content-type") or "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestError(what="the content-type must be application/json", param="content-type")
    return cast("bytes", await request.get_data(cache=False))


def query_flag(name: str) -> bool:
    """`true`, `false`, `1` or `0` in any case; absent = false. Raises RequestError."""
    value = (query(name) or "").lower()
    if name in request.args and value not in ("true", "false", "1", "0"):
        raise RequestError(what=f"{name} must be true or false", param=name)
    return value in ("true", "1")


def only_query(*names: str) -> None:
    """Refuse query fields that mean nothing here: a misspelt filter must not look like an empty result."""
    for name in request.args:
        if name not in names:
            known = ", ".join(names) or "none"
            raise RequestError(what=f"unknown query parameter {name!r}; there are: {known}", param=name)


async def fresh(gateway: Gateway) -> None:
    """Let the records of requests that have ended reach the database before it is read, if that takes a moment only."""
    if gateway.store.queue_depth:
        with trio.move_on_after(READ_LAG_S):
            await gateway.store.flush()
