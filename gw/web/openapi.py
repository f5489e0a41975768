"""The table of routes as an OpenAPI 3.1 document. Source: OpenAPI Specification 3.1.1 and JSON Schema 2020-12."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from gw import __version__
from gw.admin.schemas import Schema
from gw.web.authorization import Right
from gw.web.route import Field, Raw, Route, RouteTable, Shape
from gw.web.routes import TABLE
from gw.web.session_cookie import COOKIE

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


_REF = "#/components/schemas/{name}"
_PARAMETERS = {
    "model_id": "`<provider>/<model>`; the slash may stand as it is or as `%2F`.",
    "project_id": "The project's id.",
    "provider_id": "The provider's id.",
    "record_id": "The id that the request's answer carried as `X-Request-Id`.",
    "key_id": "The key's id.",
    "turn_id": "The turn's id: the one the app sent, else the one it was given.",
    "modality": "`stt`, `llm` or `tts`.",
}
_EXAMPLES = {"model_id": "sim/echo", "project_id": "default", "provider_id": "sim"}
_STATUSES = {
    400: "The request is at fault.",
    401: "No credential, or a wrong one.",
    402: "The project has reached its daily budget.",
    403: "The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one.",
    404: "There is no such thing; the body lists what there is.",
    409: "It exists already, or something still needs it.",
    413: "The body is too large.",
    422: "The request is at fault: `param` names the field.",
    429: "Too many; `Retry-After` says when to ask again.",
    500: "A stored key cannot be decrypted, or a fault of the gateway's own.",
    501: "The engine of a local provider is not installed.",
    502: "Every candidate failed.",
    503: "Overloaded, stopping, or the usage store is unavailable.",
    504: "Every candidate was too slow.",
}
_SECURITY: dict[Right, list[Json]] = {
    "public": [{}],
    "data": [{"bearer": []}, {"apiKey": []}, {"session": []}, {}],
    "metrics": [{"bearer": []}, {"session": []}, {}],
    "admin": [{"bearer": []}, {"apiKey": []}, {"session": []}, {}],
}
_INTRODUCTION = (
    "The control plane and the OpenAI-shaped data plane of a self-hosted voice AI gateway. Rights: `public` needs no "
    "credential; `data` a project key or the admin token; `admin` the admin token; `metrics` nothing on loopback, else "
    "the admin token. A gateway without `auth` in gw.yaml asks for none. Every answer carries `X-Request-Id`. Query "
    "fields that an admin route does not know are refused."
)


@lru_cache(maxsize=1)
def document_bytes() -> bytes:
    """The document as `/v1/openapi.json` serves it."""
    return msgspec.json.encode(document())


def document(table: RouteTable = TABLE, version: str = __version__) -> Json:
    shapes = _Shapes(table.routes)
    paths: Json = {}
    for operation in table.routes:
        for path in operation.paths:
            paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, path, shapes)
    return {
        "openapi": "3.1.0",
        "info": {"title": "gw", "version": version, "description": _INTRODUCTION, "license": {"name": "MIT"}},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(op.tag for op in table.routes)],
        "paths": paths,
        "components": {"schemas": shapes.components, "securitySchemes": _schemes()},
    }


def _schemes() -> Json:
    return {
        "bearer": {"type": "http", "scheme": "bearer"},
        "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
        "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
    }


class _Shapes:
    """The schemas of all bodies and answers; those of structs are components."""

    def __init__(self, operations: Iterable[Route]) -> None:
        found = [shape for op in operations for shape in (op.body, *op.answers) if _is_ours(shape)]
        self._types = [*found, Error]
        schemas, components = msgspec.json.schema_components(self._types, ref_template=_REF)
        self._schemas = list(schemas)
        self.components: Json = {name: components[name] for name in sorted(components)}

    def schema(self, shape: Shape) -> Json:
        if isinstance(shape, Raw):
            return dict(shape.schema)
        return self._schemas[self._types.index(shape)]


def _is_ours(shape: Shape) -> bool:
    return shape is not None and not isinstance(shape, Raw)


def _operation(operation: Route, path: str, shapes: _Shapes) -> Json:
    names = [*re.findall(r"{(\w+)}", path)]
    found: Json = {
        "operationId": operation.id + ("" if path == operation.path else "_" + path.split("/")[1]),
        "summary": operation.summary,
        "tags": [operation.tag],
        "x-gw-right": operation.right,
        "security": _SECURITY[operation.right],
        "responses": dict(_responses(operation, shapes, bool(names))),
    }
    if operation.notes:
        found["description"] = operation.notes
    if parameters := [*map(_path_parameter, names), *map(_query_parameter, operation.query)]:
        found["parameters"] = parameters
    if operation.body is not None:
        found["requestBody"] = {"required": True, "content": _content((operation.body,), shapes)}
    return found


def _path_parameter(name: str) -> Json:
    schema = {"enum": ["stt", "llm", "tts"]} if name == "modality" else {"type": "string", "minLength": 1}
    found = {"name": name, "in": "path", "required": True, "schema": schema, "description": _PARAMETERS[name]}
    return {**found, "example": _EXAMPLES[name]} if name in _EXAMPLES else found


def _query_parameter(field: Field) -> Json:
    return {"name": field.name, "in": "query", "schema": dict(field.schema), "description": field.description}


def _content(shapes_of_it: Iterable[Shape], shapes: _Shapes) -> Json:
    """Several shapes of one content type are alternatives."""
    by_type: dict[str, list[Shape]] = {}
    for shape in shapes_of_it:
        content_type = shape.content_type if isinstance(shape, Raw) else "application/json"
        by_type.setdefault(content_type, []).append(shape)
    return {content_type: _media(found, shapes) for content_type, found in by_type.items()}


def _media(found: list[Shape], shapes: _Shapes) -> Json:
    schemas = [shapes.schema(shape) for shape in found]
    media: Json = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
    if isinstance(found[0], Raw) and found[0].example is not None:
        media["example"] = found[0].example
    return media


def _responses(operation: Route, shapes: _Shapes, has_parameters: bool) -> Iterator[tuple[str, Json]]:
    yield "200", {"description": "Done.", "content": _content(operation.answers, shapes)}
    for status in sorted(_errors_of(operation, has_parameters)):
        content: Json = {"application/json": {"schema": shapes.schema(Error)}}
        if status == 503 and operation.id == "ready":
            content = _content(operation.answers, shapes)
        if status == 503 and operation.id == "front":
            content = _content(operation.answers[1:], shapes)
        yield str(status), {"description": _STATUSES[status], "content": content}


def _errors_of(operation: Route, has_parameters: bool) -> set[int]:
    """What the operation says, and what follows from its right, its path and its body."""
    found = {*operation.errors, 403}  # a foreign Host is refused everywhere
    if operation.right != "public":
        found.add(401)
    if operation.right == "admin":
        found.add(422)  # an unknown query field
    if has_parameters:
        found.add(404)
    if operation.body is not None:
        found.add(413)
    return found
