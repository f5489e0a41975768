"""The control plane as one ASGI app: what reads and, in Quart-Trio, what writes, with the data plane mounted beside them.

The express host runs what reads and the data plane itself. Here both are mounted for connections that went to Hypercorn
because a change or the live view was asked for first: their requests never enter Quart, which would hold the
answers in its own response machinery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from gw.dialects.auth import request_id
from gw.errors import GwError
from gw.gateway import Gateway
from gw.types.asgi import ASGIApp, Message, Receive, Scope, Send
from gw.web import asking, dashboard, error_responses, live_feed, login, managed, page_views, public, site, static_files
from gw.web.authorization import authorize, fenced
from gw.web.drain import Drain
from gw.web.operations import check_query, path_of, right_of
from gw.web.request_body import BODY_BYTES, scope
from gw.web.router import Router
from gw.web.routes import TABLE

IsHot = Callable[[bytes, bytes], bool]

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def make_reads(gateway: Gateway, drain: Drain, files: static_files.Frontend | None = None) -> Router:
    """`files`: the dashboard's; None = look for them."""
    files = files or static_files.load()
    views = [site.views(gateway, files), public.views(gateway, drain), dashboard.views(gateway), page_views.views(gateway)]
    views += [managed.views(gateway), asking.views(gateway), login.views(gateway)]
    return Router(gateway, views, TABLE, site.others(files))


def make_app(
    gateway: Gateway,
    hot: ASGIApp,
    is_hot: IsHot,
    drain: Drain,
    reads: Router | None = None,
) -> ASGIApp:
    """`is_hot(method, raw path without query)` says what belongs to `hot`, which comes with its own fence.

    `reads`: None = make them.
    """
    public.announce(gateway)
    reads = reads or make_reads(gateway, drain)
    quart = _quart(gateway, drain, is_hot, reads)
    reading = fenced(reads, gateway)
    cold = fenced(_identified(cast("ASGIApp", quart)), gateway)  # its annotations name every ASGI message; ours do not

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and is_hot(_method(scope), _raw_path(scope)):
            await hot(scope, receive, send)
        elif scope["type"] == "websocket":
            await _no_such_socket(scope, send)
        elif scope["type"] == "http" and reads.takes(_method(scope), _raw_path(scope)):
            await reading(scope, receive, send)
        else:
            await cold(scope, receive, send)

    return app


def _method(scope: Scope) -> bytes:
    method: str = scope.get("method", "GET")
    return method.encode("latin-1")


def _raw_path(scope: Scope) -> bytes:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0]


async def _no_such_socket(scope: Scope, send: Send) -> None:
    """The control plane has no WebSockets: 404 where the host can say so, else its refusal (403)."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    ident = request_id(scope)
    status, headers, body = error_responses.of_http(NotFound(), ident)
    headers = [*headers, (b"content-length", b"%d" % len(body)), (b"x-request-id", ident.encode())]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


def _identified(app: ASGIApp) -> ASGIApp:
    """Put `X-Request-Id` and `nosniff` on every answer; keep the body back that a HEAD request does not get."""

    async def identified(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        added = [(b"x-request-id", request_id(scope).encode()), (b"x-content-type-options", b"nosniff")]

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *added]}
            elif scope["method"] == "HEAD" and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await app(scope, receive, send_with_id)

    return identified


def routes_of(gateway: Gateway, drain: Drain, is_hot: IsHot) -> set[tuple[str, str]]:
    """Method and path (as in OpenAPI) of every route of the control plane."""
    reads = make_reads(gateway, drain)
    rules = _quart(gateway, drain, is_hot, reads).url_map.iter_rules()
    written = {(method, path_of(rule.rule)) for rule in rules for method in rule.methods or () if method != "HEAD"}
    return written | reads.routes


def _quart(gateway: Gateway, drain: Drain, is_hot: IsHot, reads: Router) -> QuartTrio:
    app = QuartTrio(__name__, static_folder=None)
    app.url_map.merge_slashes = False
    app.url_map.strict_slashes = False
    app.config["MAX_CONTENT_LENGTH"] = BODY_BYTES
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False  # the fence answers preflights
    app.register_blueprint(managed.blueprint(gateway))
    app.register_blueprint(asking.blueprint(gateway))
    app.register_blueprint(login.blueprint(gateway))
    app.register_blueprint(live_feed.blueprint(gateway, drain))
    _add_errors(app, is_hot, reads)

    @app.before_request
    async def check() -> None:
        """The right first, then the query: who may not ask learns nothing about what may be asked."""
        if request.url_rule is not None:  # an unknown path has no view, and shows nothing
            operation = TABLE.find(request.method, request.url_rule.rule)
            authorize(gateway, right_of(operation), scope(), gateway.clock.now())
            check_query(operation, request.args.items(multi=True))

    return app


def _add_errors(app: QuartTrio, is_hot: IsHot, reads: Router) -> None:
    @app.errorhandler(GwError)
    async def of_gateway(error: GwError) -> Response:
        return _response(error_responses.of_gateway(error, request_id(scope())))

    @app.errorhandler(HTTPException)
    async def of_http(error: HTTPException) -> Response:
        return _response(error_responses.of_http(error, request_id(scope())))

    @app.errorhandler(MethodNotAllowed)
    async def not_allowed(error: MethodNotAllowed) -> Response:
        return _response(error_responses.of_http(_with_others(error, error.valid_methods or ()), request_id(scope())))

    @app.errorhandler(NotFound)
    async def not_found(error: NotFound) -> Response:
        return _response(error_responses.of_http(_with_others(error, ()), request_id(scope())))

    @app.errorhandler(Exception)
    async def of_unexpected(error: Exception) -> Response:
        return _response(error_responses.of_unexpected(error, request_id(scope())))

    def _with_others(error: HTTPException, known: Iterable[str]) -> HTTPException:
        """405 when the path is somebody's: the methods of Quart's routes that are `known`, the reads' and the data plane's."""
        path = _raw_path(scope())
        methods = [method for method in _METHODS if is_hot(method.encode(), path)]
        methods += ["GET", "HEAD"] if reads.rules_on(path) else []
        methods += known
        return MethodNotAllowed(list(dict.fromkeys(methods))) if methods else error


def _response(answer: error_responses.Answer) -> Response:
    status, headers, body = answer
    response = Response(body, status)
    for name, value in headers:
        response.headers[name.decode()] = value.decode("latin-1")
    return response
