"""The JSON body of a change."""

from __future__ import annotations

import json

import msgspec

from gw.dialects.request_io import header
from gw.errors import RequestError
from gw.types.asgi import Scope

BODY_BYTES = 1_000_000
"""Largest request body of the control plane."""


def parse_body(scope: Scope, body: bytes) -> dict[str, object]:
    """Decode a JSON object, whose members the caller checks. Raises RequestError.

    msgspec refuses what is not JSON in UTF-8, numbers out of range, lone surrogates and endless nesting; Python's parser
    then refuses repeated members, since readers differ in which of the two counts.
    """
    _check_content_type(scope)
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


def refuse_body(scope: Scope, body: bytes) -> None:
    """Refuse a body that would be ignored: it must be empty, or `{}` as JSON. Raises RequestError."""
    if body:
        for name in parse_body(scope, body):
            raise RequestError(what="the body must be empty", param=name)


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


def _check_content_type(scope: Scope) -> None:
    media_type, _, parameters = _field(scope, b"content-type").partition(";")
    if media_type.strip().lower() != "application/json":
        raise RequestError(what="the content-type must be application/json", param="content-type")
    if parameters.strip().lower() not in ("", "charset=utf-8", 'charset="utf-8"'):
        raise RequestError(what="JSON must be encoded in UTF-8", param="content-type")
    if (_field(scope, b"content-encoding") or "identity").lower() != "identity":
        raise RequestError(what="the body must not be compressed", param="content-encoding")


def _field(scope: Scope, name: bytes) -> str:
    return (header(scope, name) or b"").decode("latin-1")
