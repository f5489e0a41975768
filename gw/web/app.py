"""The control plane as one ASGI app: Quart-Trio behind the fence, with the data plane's functions mounted beside it.

The data plane is mounted for connections that went to Hypercorn first (TLS aside, any keep-alive connection whose first
request was a cold one): its requests never enter Quart, which would hold their answers in its own response machinery.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from gw.dialects.caller import request_id
from gw.errors import GwError
from gw.gateway import Gateway
from gw.types.asgi import ASGIApp, Message, Receive, Scope, Send
from gw.web import access, asking, dashboard, errors, frontend, live, managed, pages, public
from gw.web.drain import Drain
from gw.web.guard import authorize, fenced
from gw.web.operations import check_query, path_of, right_of
from gw.web.table import TABLE
from gw.web.views import BODY_BYTES, json_reply, scope

IsHot = Callable[[bytes, bytes], bool]

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def make_app(
    gateway: Gateway, hot: ASGIApp, is_hot: IsHot, drain: Drain, site: frontend.Frontend | None = None
) -> ASGIApp:
    """`is_hot(method, raw path without query)` says what belongs to `hot`, which comes with its own fence.

    `site`: the dashboard's files; None = look for them.
    """
    public.announce(gateway)
    quart = _quart(gateway, drain, site or frontend.load(), is_hot)
    cold = fenced(_identified(cast("ASGIApp", quart)), gateway)  # its annotations name every ASGI message; ours do not

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and is_hot(_method(scope), _raw_path(scope)):
            await hot(scope, receive, send)
        elif scope["type"] == "websocket":
            await _no_such_socket(scope, send)
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
    status, headers, body = errors.of_http(NotFound(), ident)
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


def routes_of(gateway: Gateway, drain: Drain, site: frontend.Frontend, is_hot: IsHot) -> set[tuple[str, str]]:
    """Method and path (as in OpenAPI) of every route of the control plane."""
    rules = _quart(gateway, drain, site, is_hot).url_map.iter_rules()
    return {(method, path_of(rule.rule)) for rule in rules for method in rule.methods or () if method != "HEAD"}


def _quart(gateway: Gateway, drain: Drain, site: frontend.Frontend, is_hot: IsHot) -> QuartTrio:
    app = QuartTrio(__name__, static_folder=None)
    app.url_map.merge_slashes = False
    app.url_map.strict_slashes = False
    app.config["MAX_CONTENT_LENGTH"] = BODY_BYTES
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False  # the fence answers preflights
    app.register_blueprint(public.blueprint(gateway, drain))
    app.register_blueprint(managed.blueprint(gateway))
    app.register_blueprint(asking.blueprint(gateway))
    app.register_blueprint(dashboard.blueprint(gateway))
    app.register_blueprint(pages.blueprint(gateway))
    app.register_blueprint(access.blueprint(gateway))
    app.register_blueprint(live.blueprint(gateway, drain))
    _add_site(app, gateway, site)
    _add_errors(app, site, is_hot)

    @app.before_request
    async def check() -> None:
        """The right first, then the query: who may not ask learns nothing about what may be asked."""
        if request.url_rule is not None:  # an unknown path has no view, and shows nothing
            operation = TABLE.find(request.method, request.url_rule.rule)
            authorize(gateway, right_of(operation), scope(), gateway.clock.now())
            check_query(operation, request.args.items(multi=True))

    return app


def _add_site(app: QuartTrio, gateway: Gateway, site: frontend.Frontend) -> None:
    @app.get("/")
    async def index() -> Response:
        """HTML for who asks for it; voice SDKs use the same path as a sign of life and get a small status."""
        if "text/html" in (request.headers.get("accept") or "").lower():
            return _file(site.page(_header("accept-encoding"), _header("if-none-match")))
        dashboard_state = "built" if site.built else frontend.NOT_BUILT
        told = {"ok": True, **public.state(gateway), "dashboard": dashboard_state}
        return json_reply(told, headers={"vary": "accept"})


def _file(reply: frontend.Reply) -> Response:
    return Response(reply.body, reply.status, headers=dict(reply.headers))


def _header(name: str) -> str:
    return request.headers.get(name) or ""


def _add_errors(app: QuartTrio, site: frontend.Frontend, is_hot: IsHot) -> None:
    @app.errorhandler(GwError)
    async def of_gateway(error: GwError) -> Response:
        return _response(errors.of_gateway(error, request_id(scope())))

    @app.errorhandler(HTTPException)
    async def of_http(error: HTTPException) -> Response:
        return _response(errors.of_http(error, request_id(scope())))

    @app.errorhandler(NotFound)
    async def not_found(error: NotFound) -> Response:
        """Files of the dashboard, then its page for paths that its own router reads."""
        if request.method in ("GET", "HEAD"):
            found = site.file(request.path, _header("accept-encoding"), _header("if-none-match"))
            if found is None and not request.path.startswith(frontend.NOT_PAGES):
                found = site.page(_header("accept-encoding"), _header("if-none-match"))
            if found is not None:
                return _file(found)
        path = _raw_path(scope())
        hot = [method for method in _METHODS if is_hot(method.encode(), path)]
        return _response(errors.of_http(MethodNotAllowed(hot) if hot else error, request_id(scope())))

    @app.errorhandler(Exception)
    async def of_unexpected(error: Exception) -> Response:
        return _response(errors.of_unexpected(error, request_id(scope())))


def _response(answer: errors.Answer) -> Response:
    status, headers, body = answer
    response = Response(body, status)
    for name, value in headers:
        response.headers[name.decode()] = value.decode("latin-1")
    return response
