"""What every view that changes something is made of: its query, its JSON body, its JSON answer. What only reads: `gw.web.router`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar, cast

import msgspec
from quart import Response, request

from gw.admin.request_models import read
from gw.errors import RequestError
from gw.types.asgi import Scope

B = TypeVar("B", bound=msgspec.Struct)

BODY_BYTES = 1_000_000


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


async def read_json(kind: type[B]) -> B:
    """The request's body as a msgspec struct. Raises RequestError, saying what is wrong and where."""
    return read(await read_object(), kind)


async def read_object() -> dict[str, object]:
    """The request's body, a JSON object, for a use case that checks its members itself. Raises RequestError.

    msgspec refuses what is no JSON in UTF-8, numbers that are none, lone surrogates and endless nesting; Python's parser
    then sees to it that no member stands there twice, for which of the two would count is anybody's guess.
    """
    body = await _json_bytes()
    try:
        msgspec.json.decode(body)
        found = json.loads(body, object_pairs_hook=_once)
    except _TwiceError as error:
        raise RequestError(what=str(error), param=error.name) from None
    except (ValueError, RecursionError):
        raise RequestError(what="the body is not JSON, or too deep, or holds a number out of range") from None
    if not isinstance(found, dict):
        raise RequestError(what="the body must be a JSON object")
    return found


class _TwiceError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"the member {name!r} stands there twice")
        self.name = name


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return found


async def _json_bytes() -> bytes:
    media_type, _, parameters = (request.headers.get("content-type") or "").partition(";")
    if media_type.strip().lower() != "application/json":
        raise RequestError(what="the content-type must be application/json", param="content-type")
    if parameters.strip().lower() not in ("", "charset=utf-8", 'charset="utf-8"'):
        raise RequestError(what="JSON is sent as UTF-8", param="content-type")
    if (request.headers.get("content-encoding") or "identity").lower() != "identity":
        raise RequestError(what="the body must not be compressed", param="content-encoding")
    return cast("bytes", await request.get_data(cache=False))


async def no_body() -> None:
    """Refuse a body that would be ignored: nothing, or `{}` as JSON. Raises RequestError."""
    if not await request.get_data():
        return
    for name in await read_object():
        raise RequestError(what="nothing is to be said in the body", param=name)


def query_flag(name: str) -> bool:
    """`true`, `false`, `1` or `0` in any case; absent = false. Raises RequestError."""
    value = (query(name) or "").lower()
    if name in request.args and value not in ("true", "false", "1", "0"):
        raise RequestError(what=f"{name} must be true or false", param=name)
    return value in ("true", "1")
