"""The OpenAPI 3.1 document, made from the table of routes. Source: OpenAPI Specification 3.1.1, JSON Schema 2020-12."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from gw import __version__
from gw.admin.schemas import Schema
from gw.types.ids import MODALITIES
from gw.web.rights import Right
from gw.web.route import PATH_PARAMETERS, QueryField, Raw, Route, RouteTable, Shape
from gw.web.routes import TABLE
from gw.web.session_cookies import COOKIE

Json = dict[str, Any]


class ErrorDetail(Schema):
    """Further members are the facts of the error, such as `provider`, `retry_after_s` or `available`."""

    type: str
    code: str
    message: str
    param: str | None
    request_id: str


class Error(Schema):
    """The one error body everywhere outside vendors' dialects."""

    error: ErrorDetail


class VendorErrorDetail(Schema):
    """Error of a voice request in OpenAI's words; `gw` has our `type`, `code`, `request_id` and the facts."""

    type: str
    code: str | None
    message: str
    param: str | None


class VendorError(Schema):
    """Body of a failed voice request."""

    error: VendorErrorDetail


_REF = "#/components/schemas/{name}"
_EXAMPLES = {"model_id": "sim/echo", "project_id": "default", "provider_id": "sim"}
_STATUSES = {
    400: "The request is invalid.",
    401: "The credential is missing or wrong.",
    402: "The project has reached its daily budget.",
    403: "The credential lacks the right, the entry is defined in gw.yaml, or the request comes from a page of another site.",
    404: "Not found; the body lists what exists.",
    409: "It exists already, or is still in use.",
    413: "The body is too large.",
    422: "The request is invalid: `param` names the field.",
    429: "Too many requests; `Retry-After` says when to try again.",
    500: "A stored key cannot be decrypted, or the gateway has failed.",
    501: "The engine of a local provider is not installed.",
    502: "Every candidate failed.",
    503: "The gateway is overloaded or stopping, or the usage store is unavailable.",
    504: "Every candidate was too slow.",
}
_WITH_CREDENTIAL: list[Json] = [{"bearer": []}, {"apiKey": []}, {"session": []}, {}]
_SECURITY: dict[Right, list[Json]] = {
    "public": [{}],
    "metrics": [{"bearer": []}, {"session": []}, {}],
    **dict.fromkeys(("key", "call", "viewer", "operator", "admin"), _WITH_CREDENTIAL),
}
_INTRODUCTION = (
    "The control plane and the OpenAI-shaped data plane of a self-hosted voice AI gateway. Rights: `public` needs no "
    "credential; `key` any valid one; `call` a project key or the role operator; `viewer`, `operator` and `admin` that role or a "
    "higher one (the admin token has all rights); `metrics` nothing on loopback, else the role viewer. A role for some projects sees "
    "nothing of others. Without `auth` in gw.yaml no credential is needed. Every answer carries `X-Request-Id`. Routes that need a "
    "role refuse unknown query fields."
)


@lru_cache(maxsize=1)
def document_bytes() -> bytes:
    """Return the document as `/v1/openapi.json` serves it."""
    return msgspec.json.encode(document())


def document(table: RouteTable = TABLE, version: str = __version__) -> Json:
    schemas = _Schemas(table.routes)
    paths: Json = {}
    for route in table.routes:
        for path in route.paths:
            paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "gw", "version": version, "description": _INTRODUCTION, "license": {"name": "MIT"}},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in table.routes)],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


class _Schemas:
    """The schemas of all bodies and answers; those of structs are components."""

    def __init__(self, routes: Iterable[Route]) -> None:
        shapes = [shape for route in routes for shape in (route.body, *route.answers)]
        self._types = [*(shape for shape in shapes if shape is not None and not isinstance(shape, Raw)), Error, VendorError]
        schemas, components = msgspec.json.schema_components(self._types, ref_template=_REF)
        self._schemas = list(schemas)
        # A default that is a tuple becomes the list that JSON has.
        self.components: Json = json.loads(msgspec.json.encode({name: components[name] for name in sorted(components)}))

    def content(self, shapes: Iterable[Shape]) -> Json:
        """Return the media types; several shapes of one type are alternatives."""
        by_type: dict[str, list[Shape]] = {}
        for shape in shapes:
            content_type = shape.content_type if isinstance(shape, Raw) else "application/json"
            by_type.setdefault(content_type, []).append(shape)
        return {content_type: self._media(alternatives) for content_type, alternatives in by_type.items()}

    def _media(self, shapes: list[Shape]) -> Json:
        schemas = [
            dict(shape.schema) if isinstance(shape, Raw) else self._schemas[self._types.index(shape)] for shape in shapes
        ]
        media: Json = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
        if isinstance(shapes[0], Raw) and shapes[0].example is not None:
            media["example"] = shapes[0].example
        return media


def _suffix(route: Route, path: str) -> str:
    """Return what makes the id of an alias unique: the segments before the part that it shares with the route's own path."""
    if path == route.path:
        return ""
    first, second, *_ = path.strip("/").split("/")
    return f"_{first}" if second == "v1" else f"_{first}_unversioned"


def _operation(route: Route, path: str, schemas: _Schemas) -> Json:
    names = re.findall(r"{(\w+)}", path)
    operation: Json = {
        "operationId": route.id + _suffix(route, path),
        "summary": route.summary,
        "tags": [route.tag],
        "x-gw-right": route.right,
        "x-gw-reach": route.need.reach,
        "x-gw-capture": route.need.capture,
        "security": _SECURITY[route.right],
        "responses": dict(_responses(route, schemas, has_parameter=bool(names))),
    }
    if route.notes:
        operation["description"] = route.notes
    if parameters := [*map(_path_parameter, names), *map(_query_parameter, route.query)]:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": schemas.content((route.body,))}
    return operation


def _path_parameter(name: str) -> Json:
    schema = {"enum": list(MODALITIES)} if name == "modality" else {"type": "string", "minLength": 1}
    parameter = {"name": name, "in": "path", "required": True, "schema": schema, "description": PATH_PARAMETERS[name]}
    return {**parameter, "example": _EXAMPLES[name]} if name in _EXAMPLES else parameter


def _query_parameter(field: QueryField) -> Json:
    return {"name": field.name, "in": "query", "schema": dict(field.schema), "description": field.description}


def _responses(route: Route, schemas: _Schemas, *, has_parameter: bool) -> Iterator[tuple[str, Json]]:
    yield "200", {"description": "Done.", "content": schemas.content(route.answers)}
    error = VendorError if route.right in ("key", "call") else Error
    for status in sorted(_error_statuses(route, has_parameter)):
        shapes = route.unavailable if status == 503 and route.unavailable else (error,)
        yield str(status), {"description": _STATUSES[status], "content": schemas.content(shapes)}


def _error_statuses(route: Route, has_parameter: bool) -> set[int]:
    """Return the statuses that the route declares, and those that follow from its right, path and body."""
    statuses = {*route.errors, 403}  # a foreign Host is refused everywhere
    if route.right != "public":
        statuses.add(401)
    if not route.lenient:
        statuses.add(422)  # an unknown query field
    if has_parameter:
        statuses.add(404)
    if route.body is not None:
        statuses.add(413)
    return statuses
