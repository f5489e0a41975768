"""Routes: each is declared once, with its access, query, body, handler, answers and errors.

Routing, access control, the check of the query, the OpenAPI document, docs/api.md and the MCP tools all use these records.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal

import attrs
import msgspec

from gw.admin.registrar import Registrar
from gw.dialects.request_io import header
from gw.errors import RequestError
from gw.gateway import Gateway
from gw.registry.catalog import Catalog
from gw.registry.credentials import Principal
from gw.store.store import Reader
from gw.types.asgi import Scope
from gw.types.entities import Actor, ActorSource
from gw.web.authorization import LoginFailures
from gw.web.drain import Drain
from gw.web.live_feed import Feed
from gw.web.rights import NEEDS, STRICTEST, Need, Right
from gw.web.sign_ins import SignIns
from gw.web.static_files import Frontend

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Schema = Mapping[str, object]
Serves = Callable[[bytes, bytes], bool]
"""(method, raw path without query) → whether the data plane answers."""

CREDENTIALS = frozenset(("token", "access_token", "api_key", "key"))
"""Query fields that every request may have: `gw.dialects.auth` reads them."""

_KEYWORDS = {"from": "since", "to": "until"}
READ_LAG_S = 0.25
"""Longest wait for the writer before a report is read; after it the newest records are missing from the report."""
LOOKUP_LAG_S = 2.0  # the same for one request by its id: a late answer is better than a wrong 404


class ControlPlane(msgspec.Struct, frozen=True, kw_only=True):
    """The state that handlers share."""

    gateway: Gateway
    drain: Drain
    files: Frontend
    serves: Serves
    feed: Feed
    login_failures: LoginFailures = msgspec.field(default_factory=LoginFailures)
    sign_ins: SignIns = msgspec.field(default_factory=SignIns)


class Request(msgspec.Struct):
    """One request to a route. `name` is the value of the path's parameter, "" without one.

    `fields` are those of the query, decoded; `body` is the decoded JSON object of a request with a body. `principal`: who sent it;
    None for a route that asks nobody.
    """

    plane: ControlPlane
    route: Route
    scope: Scope
    name: str = ""
    fields: list[tuple[str, str]] = []
    body: Mapping[str, object] = {}
    principal: Principal | None = None

    @property
    def gateway(self) -> Gateway:
        return self.plane.gateway

    @property
    def projects(self) -> frozenset[str] | None:
        """Return the projects of somebody who has a role for some projects only; None = all."""
        access = None if self.principal is None else self.principal.access
        return None if access is None else access.projects

    @property
    def catalog(self) -> Catalog:
        """Return the catalog, without the projects that are not the caller's."""
        catalog, projects = self.gateway.current.catalog, self.projects
        return catalog if projects is None else catalog.of_projects(projects)

    @property
    def registrar(self) -> Registrar:
        return self.gateway.registrar

    @property
    def records(self) -> tuple[Reader, Catalog, float]:
        """First arguments of every report: store, catalog, and Unix seconds now."""
        return self.gateway.store, self.catalog, self.gateway.clock.now()

    @property
    def query(self) -> dict[str, Any]:
        """Values of the route's query fields by name: the first one sent, else the default, else None.

        `from` and `to` are called `since` and `until`, because `from` is a keyword.
        """
        values = {field.name: field.schema.get("default") for field in self.route.query}
        values |= {name: value for name, value in reversed(self.fields) if name in values}
        return {_KEYWORDS.get(name, name): value for name, value in values.items()}

    def flag(self, name: str) -> bool:
        """Return a query field that is `true`, `false`, `1` or `0` in any case; absent = false. Raises RequestError."""
        value = str(self.query[name]).lower()
        if value not in ("true", "false", "1", "0"):
            raise RequestError(what=f"{name} must be true or false", param=name)
        return value in ("true", "1")

    def header(self, name: bytes) -> str:
        return (header(self.scope, name) or b"").decode("latin-1")

    @property
    def actor(self) -> Actor:
        """Return the author of a change, for the audit log. `x-gw-source` is the caller's own statement and gives no right."""
        claim = self.header(b"x-gw-source")
        source: ActorSource = "mcp" if claim == "mcp" else "cli" if claim == "cli" else "api"
        return Actor(source=source, name="anyone" if self.principal is None else self.principal.actor)


Handler = Callable[[Request], object | Awaitable[object]]
"""Returns the answer, or an awaitable of it: a struct to encode, an Encoded, or a Reply. Raises GwError."""


class QueryField(msgspec.Struct, frozen=True):
    """A query parameter; none is required. `makes_file`: the answer becomes a file, so MCP tools do without it."""

    name: str
    schema: Schema
    description: str
    makes_file: bool = False


class Raw(msgspec.Struct, frozen=True):
    """A body or answer that is not JSON of ours: its content type and a JSON Schema."""

    content_type: str
    schema: Schema
    example: object = None


Shape = Any
"""A type that msgspec can describe, or a Raw."""


@attrs.frozen
class Route:
    """One route. `path` is written as in OpenAPI, with at most one parameter.

    `handler` is None where the data plane answers. `answers`: alternative shapes of the 200. `errors`: statuses beyond those
    that follow from right, path and body. `need` is in the table of `gw.web.rights`. `lag_s`: longest wait for the writer before the
    handler reads records. `lenient`: unknown query fields are ignored, because SDKs and probes send them. `large_body`: only
    `serve.max_body_mb` limits the body.
    """

    method: Method
    path: str
    id: str
    summary: str
    handler: Handler | None
    answers: tuple[Shape, ...]
    tag: str
    query: tuple[QueryField, ...] = ()
    body: Shape = None
    errors: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()
    notes: str = ""
    unavailable: tuple[Shape, ...] = ()
    """Shapes of a 503 without the usual error body."""
    lag_s: float = 0.0
    large_body: bool = False
    need: Need = attrs.field(default=attrs.Factory(lambda self: NEEDS.get(self.id, STRICTEST), takes_self=True))

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path, *self.aliases)

    @property
    def right(self) -> Right:
        return self.need.right

    @property
    def lenient(self) -> bool:
        return self.right in ("public", "key", "call", "metrics")

    def check_query(self, fields: Iterable[tuple[str, str]]) -> None:
        """Refuse unknown and repeated fields: a misspelt filter must not look like an empty result. Raises RequestError."""
        if self.lenient:
            return
        known = [field.name for field in self.query]
        seen: set[str] = set()
        for name, _ in fields:
            if name in CREDENTIALS:
                continue
            if name not in known:
                what = f"unknown query parameter {name!r}; known parameters: {', '.join(known) or 'none'}"
                raise RequestError(what=what, param=name)
            if name in seen:
                raise RequestError(what=f"the query parameter {name!r} appears twice", param=name)
            seen.add(name)


PATH_PARAMETERS = {
    "model_id": "`<provider>/<model>`; the slash may be sent as it is or as `%2F`.",
    "project_id": "The project's id.",
    "capture_id": "The id of a session, a turn or a request.",
    "provider_id": "The provider's id.",
    "record_id": "The request's id: the `X-Request-Id` of its answer.",
    "key_id": "The key's id.",
    "token_id": "The service token's id.",
    "login_id": "The id of a session of the dashboard.",
    "person_id": "The person's id.",
    "response_id": "The response's id.",
    "session_id": "The session's id: the one the app sent, else the one the gateway assigned.",
    "turn_id": "The turn's id: the one the app sent, else the one the gateway assigned.",
    "modality": "`stt`, `llm` or `tts`.",
    "rule": "Name of a rule of alerts.",
}
"""Descriptions of the parameters that paths have."""
DEEP = frozenset(("model_id", "session_id", "turn_id", "capture_id"))  # path parameters that may contain slashes


class RouteTable:
    """Routes by path and method, aliases included."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._fixed: dict[str, dict[str, Route]] = {}
        self._patterns: dict[re.Pattern[str], dict[str, Route]] = {}
        for route in self.routes:
            for path in route.paths if route.handler is not None else ():
                self._at(path)[route.method] = route
        self._roots = {"/".join(path.split("/")[:3]) for path in (route.path for route in self.routes if route.handler is not None)}

    def _at(self, path: str) -> dict[str, Route]:
        before, parameter, after = path.partition("{")
        if not parameter:
            return self._fixed.setdefault(path, {})
        name, _, after = after.partition("}")
        value = "([^/](?s:.)*)" if name in DEEP else "([^/]+)"
        return self._patterns.setdefault(re.compile(re.escape(before) + value + re.escape(after)), {})

    def has_below(self, path: str) -> bool:
        """Return whether a route has the same first two segments, as in `/v1/costs/x`: then the path is one of ours."""
        return "/".join(path.split("/")[:3]) in self._roots

    def find(self, path: str) -> tuple[Mapping[str, Route], str]:
        """Return the routes of a decoded path by method, and the value of its parameter. A slash at its end is ignored."""
        if path.endswith("/") and path != "/":
            path = path[:-1]
        if routes := self._fixed.get(path):
            return routes, ""
        for pattern, routes in self._patterns.items():
            if match := pattern.fullmatch(path):
                return routes, match[1]
        return {}, ""
