"""What only reads, of the control plane: plain ASGI functions that the express host runs, as it runs the data plane.

A dashboard asks for its reports while people speak, and both are served by one thread. Quart on Hypercorn takes more than a
millisecond of it per request, in which nobody's audio moves on; here a request is its head, its right, its query, a
question to the report process and the bytes that come back, each step a small part of that. Long bodies go out in pieces
with a turn for everybody between two. Reads are not counted as requests in flight: that limit is about sessions that last
and vendors that are slow, and a gateway that sheds calls is looked at.

The same functions answer on connections that Hypercorn serves already (`gw.web.app`); Quart never sees a request of theirs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import parse_qsl, unquote

import attrs
import msgspec
import trio

from gw.dialects.auth import request_id
from gw.dialects.request_io import cancels, header, raw_path, until_disconnect
from gw.errors import GwError
from gw.gateway import Gateway
from gw.store.chunked_body import Encoded, in_pieces
from gw.types.asgi import Receive, Scope, Send
from gw.web import error_responses
from gw.web.authorization import authorize
from gw.web.operations import Operation, Table, check_query, path_of, right_of

READ_LAG_S = 0.25
"""Longest wait for the writer before a report is read; then it is read without the newest records."""
LOOKUP_LAG_S = 2.0
"""The same for one request by its id: where "there is none" would be wrong, late is better."""

_NOT_CACHED = (b"cache-control", b"no-store")


class Reply(msgspec.Struct):
    """`headers` beside content type (b"" = none) and length."""

    body: bytes | Encoded
    content_type: bytes = error_responses.JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    status: int = 200


def shown(value: object, status: int = 200) -> Reply:
    """`value` of dicts, lists, numbers, strings and msgspec structs, or encoded. Not to be cached: it is about this moment."""
    body = value if isinstance(value, Encoded) else msgspec.json.encode(value)
    return Reply(body, headers=(_NOT_CACHED,), status=status)


class Request(msgspec.Struct):
    """One request. `named` is what its path names, "" where it names nothing; `fields` those of its query, decoded.

    Of a request that no rule is about, `named` is the path.
    """

    scope: Scope
    named: str
    fields: list[tuple[str, str]]

    def query(self, name: str, default: str | None = None) -> str | None:
        """The first value of a query field."""
        return next((value for field, value in self.fields if field == name), default)

    def query_text(self, name: str, default: str) -> str:
        return self.query(name, default) or ""

    def header(self, name: bytes) -> bytes | None:
        return header(self.scope, name)


View = Callable[[Request], Awaitable[Reply]]
Others = Callable[[str], View | None]
"""What answers a path that no rule is about, to anybody and whatever the query; None = nothing does."""


class RouteTable:
    """Views by rule, written as Quart's: `/v1/requests/<record_id>`; `<path:…>` may hold slashes. A name ends its rule."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self.by_rule: dict[str, View] = {}

    def get(self, rule: str) -> Callable[[View], View]:
        def add(view: View) -> View:
            self.by_rule[self._prefix + rule] = view
            return view

        return add


@attrs.frozen
class _Route:
    view: View
    operation: Operation | None
    ruled: bool = True


class Router:
    """The views as one ASGI app. `takes` tells which requests are theirs; it comes without the fence (`gw.web.authorization`)."""

    def __init__(
        self, gateway: Gateway, views: Iterable[RouteTable], table: Table, others: Others = lambda path: None
    ) -> None:
        self._gateway = gateway
        self._table = table
        self._others = others
        self._fixed: dict[str, _Route] = {}
        self._named: list[tuple[str, bool, _Route]] = []
        self.rules = tuple(rule for one in views for rule in self._add(one))

    def _add(self, views: RouteTable) -> Iterable[str]:
        for rule, view in views.by_rule.items():
            route = _Route(view, self._table.find("GET", rule))
            before, name, _ = rule.partition("<")
            if name:
                self._named.append((before, "<path:" in rule, route))
            else:
                self._fixed[rule] = route
        return views.by_rule

    @property
    def routes(self) -> set[tuple[str, str]]:
        """Method and path, as in OpenAPI."""
        return {("GET", path_of(rule)) for rule in self.rules}

    def takes(self, method: bytes, path: bytes) -> bool:
        """`path` raw, without its query."""
        return method in (b"GET", b"HEAD") and self._find(path) is not None

    def rules_on(self, path: bytes) -> bool:
        """Whether a rule is about this raw path."""
        found = self._find(path)
        return found is not None and found[0].ruled

    def _find(self, raw: bytes) -> tuple[_Route, str] | None:
        whole = raw.decode("latin-1")
        if "%" in whole:
            whole = unquote(whole)
        path, route = whole, self._fixed.get(whole)
        if route is None and path.endswith("/"):
            path = path[:-1]
            route = self._fixed.get(path)
        if route is not None:
            return route, ""
        found = self._find_named(path)
        if found is None and (view := self._others(whole)) is not None:
            return _Route(view, None, ruled=False), whole
        return found

    def _find_named(self, path: str) -> tuple[_Route, str] | None:
        for before, deep, route in self._named:
            if path.startswith(before):
                name = path[len(before) :]
                if name and not name.startswith("/") and (deep or "/" not in name):
                    return route, name
        return None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if cancels(scope):
            return self._serve(scope, send)
        return until_disconnect(receive, lambda: self._serve(scope, send))

    async def _serve(self, scope: Scope, send: Send) -> None:
        """The outermost function of a request: whatever a view raises is answered."""
        try:
            reply = await self._reply(scope)
        except GwError as error:
            reply = _failed(error_responses.of_gateway(error, request_id(self._gateway, scope)))
        except Exception as error:
            reply = _failed(error_responses.of_unexpected(error, request_id(self._gateway, scope)))
        await _send(self._gateway, scope, send, reply)

    async def _reply(self, scope: Scope) -> Reply:
        """The right first, then the query: who may not ask learns nothing about what may be asked. Raises GwError."""
        found = self._find(raw_path(scope))
        if found is None:
            raise LookupError("asked for a request that is not taken")
        (route, named), gateway = found, self._gateway
        if not route.ruled:
            return await route.view(Request(scope, named, []))
        authorize(gateway, right_of(route.operation), scope, gateway.clock.now())
        query: bytes = scope.get("query_string", b"")
        fields = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True) if query else []
        check_query(route.operation, fields)
        return await route.view(Request(scope, named, fields))


def _failed(answer: error_responses.Answer) -> Reply:
    status, headers, body = answer
    return Reply(body, headers=tuple(field for field in headers if field[0] != b"content-type"), status=status)


async def _send(gateway: Gateway, scope: Scope, send: Send, reply: Reply) -> None:
    body = reply.body
    parts = body.pieces if isinstance(body, Encoded) else (body,)
    size = sum(map(len, parts))
    headers = [
        *(((b"content-type", reply.content_type),) if reply.content_type else ()),
        (b"content-length", b"%d" % size),
        *reply.headers,
        (b"x-request-id", request_id(gateway, scope).encode()),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    left = 0 if scope["method"] == "HEAD" else size
    if not left:
        await send({"type": "http.response.body", "body": b""})
        return
    for piece in (piece for part in parts if part for piece in in_pieces(part)):
        left -= len(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
        if left:
            await trio.lowlevel.checkpoint()


async def fresh(gateway: Gateway, within_s: float = READ_LAG_S) -> None:
    """Let the records of requests that have ended reach the database before it is read, if that takes a moment only."""
    if gateway.store.queue_depth:
        with trio.move_on_after(within_s):
            await gateway.store.catch_up()
