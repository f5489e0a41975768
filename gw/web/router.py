"""The control plane as ASGI apps: routes requests, checks right and query, calls the handler and sends its answer.

Reads are served directly: a request is its head, its right, its query, a question to the report process and the bytes
that come back. Quart takes more than a millisecond per request on the thread that also serves audio, so only changes,
which are rare, run inside it (`gw.web.quart_app`). Reads are not counted as requests in flight: that limit is about
sessions that last and vendors that are slow, and operators look at a gateway that sheds load.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from typing import Final
from urllib.parse import parse_qsl, unquote

import msgspec
import trio

from gw.dialects import unrouted
from gw.dialects.auth import request_id
from gw.dialects.request_io import cancels, header, raw_path, until_disconnect
from gw.errors import GwError, RequestError, TooLarge
from gw.types.asgi import Receive, Scope, Send
from gw.web import static_files
from gw.web.authorization import authorize, keep_login
from gw.web.confinement import confine
from gw.web.reply import Headers, Reply, gateway_error, json_reply, method_not_allowed, not_found, unexpected_error
from gw.web.route import LOOKUP_LAG_S, ControlPlane, Raw, Request, Route, RouteTable

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PUBLIC_BODY_BYTES: Final = 65_536  # of a login
ADMIN_BODY_BYTES: Final = 1_000_000
"""The largest body of a change. Parsing nine megabytes of small values holds the interpreter for seconds, in a thread as well."""
FORM: Final = "application/x-www-form-urlencoded"
_FORM_FIELDS: Final = 100
EMPTY_BODY_BYTES: Final = 1_000
"""The largest body that is parsed where it must be empty, to name the member that would be ignored."""
ReadBody = Callable[[], Awaitable[bytes]]


class Router:
    """The app of all reads, of the dashboard's files, and of 404 and 405. It has no Host and Origin checks (`fenced`)."""

    def __init__(self, plane: ControlPlane, table: RouteTable) -> None:
        self.plane = plane
        self._table = table

    def changes(self, method: bytes, path: bytes) -> bool:
        """Return whether the request is a change, which `reply` answers within Quart. `path` is raw, without its query."""
        return method not in (b"GET", b"HEAD") and method.decode("latin-1") in self._table.find(_decoded(path))[0]

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if cancels(scope):
            return self._serve(scope, send)
        return until_disconnect(receive, self._serve(scope, send))

    async def _serve(self, scope: Scope, send: Send) -> None:
        reply = await self.reply(scope, None)
        await reply.send(send, self.common_headers(scope), head=scope["method"] == "HEAD")

    def common_headers(self, scope: Scope) -> Headers:
        """Return the headers that every answer has."""
        return [(b"x-request-id", request_id(self.plane.gateway, scope).encode()), (b"x-content-type-options", b"nosniff")]

    async def reply(self, scope: Scope, read_body: ReadBody | None) -> Reply:
        """Answer a request; this is the outermost function of its work, so every error becomes an answer."""
        try:
            return await self._reply(scope, read_body)
        except GwError as error:
            return gateway_error(error, request_id(self.plane.gateway, scope))
        except Exception as error:
            return unexpected_error(error, request_id(self.plane.gateway, scope))

    async def _reply(self, scope: Scope, read_body: ReadBody | None) -> Reply:
        raw, method = raw_path(scope), scope["method"]
        path = _decoded(raw)
        routes, name = self._table.find(path)
        route = routes.get("GET" if method == "HEAD" else method)
        if route is None:
            return self._unrouted(scope, path, raw, routes)
        request = self._admitted(scope, route, name)
        if read_body is not None:
            await _receive_body(request, read_body)
        if request.projects is not None:
            await confine(request, request.projects)
        if route.lag_s:
            await self._catch_up(route.lag_s)
        answer = route.handler(request) if route.handler else None
        if isawaitable(answer):
            answer = await answer
        return answer if isinstance(answer, Reply) else json_reply(answer)

    def _admitted(self, scope: Scope, route: Route, name: str) -> Request:
        """Check the right first, then the query: without the right nothing about the query is revealed. Raises GwError."""
        gateway = self.plane.gateway
        principal = authorize(gateway, route.need, scope, gateway.clock.now())
        if principal is not None and principal.login_id:
            keep_login(gateway, principal)
        query: bytes = scope.get("query_string", b"")
        fields = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True) if query else []
        route.check_query(fields)
        return Request(self.plane, route, scope, name, fields, principal=principal)

    async def _catch_up(self, within_s: float) -> None:
        """Let the records of finished requests reach the database before it is read, if that takes a moment only."""
        store = self.plane.gateway.store
        if store.queue_depth or store.gather_elsewhere is not None:
            with trio.move_on_after(max(within_s, LOOKUP_LAG_S) if store.starting else within_s):
                await store.catch_up()

    def _unrouted(self, scope: Scope, path: str, raw: bytes, routes: Mapping[str, Route]) -> Reply:
        """Answer with a file, or with the dashboard's page for paths that its own router reads; else 405 or 404."""
        if not routes and scope["method"] in ("GET", "HEAD") and (reply := self._file(scope, path)):
            return reply
        methods = [method for method in _METHODS if self.plane.serves(method.encode(), raw)]
        for method in routes:
            methods += ["GET", "HEAD"] if method == "GET" else [method]
        ident = request_id(self.plane.gateway, scope)
        methods = list(dict.fromkeys(methods))
        dialect = None if routes or self._table.has_below(path) else unrouted.dialect_of(scope, path)
        if dialect is not None:
            status, body, headers = unrouted.answer(dialect, scope, path, methods, ident)
            return Reply(body, headers=headers, status=status)
        return method_not_allowed(methods, ident) if methods else not_found(ident)

    def _file(self, scope: Scope, path: str) -> Reply | None:
        names = (b"accept-encoding", b"if-none-match")
        encoding, known_tag = ((header(scope, name) or b"").decode("latin-1") for name in names)
        files = self.plane.files
        reply = files.file(path, encoding, known_tag)
        if reply is None and static_files.is_page(path, (header(scope, b"accept") or b"").decode("latin-1")):
            reply = files.page(encoding, known_tag)
        return reply


async def _receive_body(request: Request, read_body: ReadBody) -> None:
    """Read the body that the route needs; a POST without one must have an empty body. Raises RequestError and TooLarge."""
    if request.route.body is not None:
        body = await read_body()
        _check_size(request.route, len(body))
        if isinstance(request.route.body, Raw) and request.route.body.content_type == FORM:
            request.body = parse_form(request, body)
            return
        request.body = await request.gateway.relay.in_flight.large.decode(partial(parse_body, request), body)
    elif request.route.method == "POST":
        refuse_body(request, await read_body())


def _check_size(route: Route, size: int) -> None:
    """Raise TooLarge for a body that is larger than its route needs. The host has checked `serve.max_body_mb`."""
    if route.right == "public":
        limit, of = PUBLIC_BODY_BYTES, "a request without a credential"
    else:
        limit, of = ADMIN_BODY_BYTES, "this request"
    if size > limit and not route.large_body:
        raise TooLarge(what=f"the body of {of} may have at most {limit} bytes", limit_bytes=limit)


def _decoded(raw: bytes) -> str:
    path = raw.decode("latin-1")
    return unquote(path) if "%" in path else path


def parse_body(request: Request, body: bytes) -> dict[str, object]:
    """Decode a JSON object, whose members the caller checks. Raises RequestError.

    msgspec refuses what is not JSON in UTF-8, numbers out of range, lone surrogates and endless nesting; Python's parser
    then refuses repeated members, since readers differ in which of the two counts.
    """
    _check_content_type(request)
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


def parse_form(request: Request, body: bytes) -> dict[str, object]:
    """Decode a form. Raises RequestError."""
    if request.header(b"content-type").partition(";")[0].strip().lower() != FORM:
        raise RequestError(what=f"the content-type must be {FORM}", param="content-type")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_FORM_FIELDS)
        return _without_duplicates([(name, value) for name, value in pairs])
    except _DuplicateError as error:
        raise RequestError(what=str(error), param=error.name) from None
    except ValueError:
        raise RequestError(what="the body is not a form") from None


def refuse_body(request: Request, body: bytes) -> None:
    """Refuse a body that would be ignored: it must be empty, or `{}` as JSON. Raises RequestError."""
    if len(body) > EMPTY_BODY_BYTES:
        raise RequestError(what="the body must be empty")
    if body:
        for name in parse_body(request, body):
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


def _check_content_type(request: Request) -> None:
    media_type, _, parameters = request.header(b"content-type").partition(";")
    if media_type.strip().lower() != "application/json":
        raise RequestError(what="the content-type must be application/json", param="content-type")
    if parameters.strip().lower() not in ("", "charset=utf-8", 'charset="utf-8"'):
        raise RequestError(what="JSON must be encoded in UTF-8", param="content-type")
    if (request.header(b"content-encoding") or "identity").lower() != "identity":
        raise RequestError(what="the body must not be compressed", param="content-encoding")
