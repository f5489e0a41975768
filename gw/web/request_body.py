"""Reading the request of a change and making its JSON answer, within a Quart view.

Views are declared beside the reads, whose modules load at the start; so Quart is imported here only when a view runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec

from gw.admin.request_models import read
from gw.dialects.request_io import header
from gw.errors import RequestError
from gw.types.asgi import Scope

if TYPE_CHECKING:
    from quart import Response

B = TypeVar("B", bound=msgspec.Struct)

BODY_BYTES = 1_000_000
"""Largest request body of the control plane."""


def json_reply(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode `value` (dicts, lists, numbers, strings, msgspec structs). Not to be cached: it describes this moment."""
    from quart import Response

    response = Response(msgspec.json.encode(value), status, content_type="application/json")
    response.headers["cache-control"] = "no-store"
    if headers:
        response.headers.update(headers)
    return response


def scope() -> Scope:
    """Return the ASGI scope of the current request."""
    from quart import request

    return cast("Scope", request.scope)


async def read_json(kind: type[B]) -> B:
    """Return the request's body as a msgspec struct. Raises RequestError, saying what is wrong and where."""
    return read(await read_object(), kind)


async def read_object() -> dict[str, object]:
    """Return the request's body, a JSON object whose members the caller checks. Raises RequestError.

    msgspec refuses what is not JSON in UTF-8, numbers out of range, lone surrogates and endless nesting; Python's parser
    then refuses repeated members, since readers differ in which of the two counts.
    """
    body = await _json_bytes()
    try:
        msgspec.json.decode(body)
        decoded = json.loads(body, object_pairs_hook=_without_duplicates)
    except _DuplicateError as error:
        raise RequestError(what=str(error), param=error.name) from None
    except (ValueError, RecursionError):
        raise RequestError(what="the body is not JSON, or too deep, or holds a number out of range") from None
    if not isinstance(decoded, dict):
        raise RequestError(what="the body must be a JSON object")
    return decoded


class _DuplicateError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"the member {name!r} appears twice")
        self.name = name


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateError(next(name for name in names if names.count(name) > 1))
    return members


async def _json_bytes() -> bytes:
    media_type, _, parameters = _field(b"content-type").partition(";")
    if media_type.strip().lower() != "application/json":
        raise RequestError(what="the content-type must be application/json", param="content-type")
    if parameters.strip().lower() not in ("", "charset=utf-8", 'charset="utf-8"'):
        raise RequestError(what="JSON must be encoded in UTF-8", param="content-type")
    if (_field(b"content-encoding") or "identity").lower() != "identity":
        raise RequestError(what="the body must not be compressed", param="content-encoding")
    return await _body()


async def _body() -> bytes:
    from quart import request

    return cast("bytes", await request.get_data())


def _field(name: bytes) -> str:
    return (header(scope(), name) or b"").decode("latin-1")


async def no_body() -> None:
    """Refuse a body that would be ignored: it must be empty, or `{}` as JSON. Raises RequestError."""
    if not await _body():
        return
    for name in await read_object():
        raise RequestError(what="the body must be empty", param=name)


def query_flag(name: str) -> bool:
    """Return a query field that is `true`, `false`, `1` or `0` in any case; absent = false. Raises RequestError."""
    fields = parse_qsl(scope().get("query_string", b"").decode("utf-8", "replace"), keep_blank_values=True)
    values = [value.lower() for field, value in fields if field == name]
    if values and values[0] not in ("true", "false", "1", "0"):
        raise RequestError(what=f"{name} must be true or false", param=name)
    return values[:1] in (["true"], ["1"])
