"""One table of all routes of both planes: what each is for, the right it needs, its query, body, answers and errors.

Access is decided by it (`right_of`), queries are checked against it (`check_query`), and the OpenAPI document is made of
it. A route that is not in the table needs the admin token; a test fails when table and routes differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs

from gw.errors import RequestError
from gw.web.authorization import Right

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Schema = Mapping[str, object]

CREDENTIALS = frozenset(("token", "access_token", "api_key"))
"""Query fields that may stand in every request: `gw.dialects.auth` reads them."""

_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


@attrs.frozen
class Field:
    """A query parameter; none is required."""

    name: str
    schema: Schema
    what: str


@attrs.frozen
class Raw:
    """A body or an answer that is no JSON of ours: its content type and a JSON Schema of it."""

    content_type: str
    schema: Schema
    example: object = None


Shape = Any
"""A type that msgspec can describe, or a Raw."""


@attrs.frozen(kw_only=True)
class Operation:
    """`path` as in OpenAPI. `answers`: shapes of the 200, one of them. `errors`: statuses beyond those of its right.

    `also`: further paths that do the same. `lenient`: unknown query fields are ignored, as SDKs and probes send them.
    """

    id: str
    method: Method
    path: str
    tag: str
    what: str
    right: Right = "admin"
    query: tuple[Field, ...] = ()
    body: Shape = None
    answers: tuple[Shape, ...] = ()
    errors: tuple[int, ...] = ()
    also: tuple[str, ...] = ()
    more: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path, *self.also)

    @property
    def lenient(self) -> bool:
        return self.right != "admin"


class Table:
    """Operations by method and path, aliases included."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = tuple(operations)
        self._by_route: dict[tuple[str, str], Operation] = {(op.method, path): op for op in self.operations for path in op.paths}

    def find(self, method: str, rule: str) -> Operation | None:
        """`rule` as Werkzeug writes it: `/v1/models/<path:model_id>`. HEAD is GET."""
        return self._by_route.get(("GET" if method == "HEAD" else method, path_of(rule)))


def path_of(rule: str) -> str:
    """`/v1/models/<path:model_id>` → `/v1/models/{model_id}`."""
    return _PARAMETER.sub(r"{\1}", rule)


def right_of(operation: Operation | None) -> Right:
    return operation.right if operation is not None else "admin"


def check_query(operation: Operation | None, pairs: Iterable[tuple[str, str]]) -> None:
    """Refuse fields that mean nothing here, or stand there twice: a misspelt filter must not look like an empty result.

    Raises RequestError.
    """
    if operation is None or operation.lenient:
        return
    known = [field.name for field in operation.query]
    seen: set[str] = set()
    for name, _ in pairs:
        if name in CREDENTIALS:
            continue
        if name not in known:
            what = f"unknown query parameter {name!r}; there are: {', '.join(known) or 'none'}"
            raise RequestError(what=what, param=name)
        if name in seen:
            raise RequestError(what=f"the query parameter {name!r} stands there twice", param=name)
        seen.add(name)
