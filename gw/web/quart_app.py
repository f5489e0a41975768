"""The Quart-Trio app of the control plane's changes and of the live feed. Imported at its first request (`gw.web.app`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from gw.dialects.auth import request_id
from gw.dialects.request_io import raw_path
from gw.errors import GwError
from gw.gateway import Gateway
from gw.types.asgi import ASGIApp
from gw.web import asking, error_responses, live_feed, login, managed
from gw.web.authorization import authorize
from gw.web.drain import Drain
from gw.web.operations import check_query, path_of, right_of
from gw.web.request_body import scope
from gw.web.router import Router
from gw.web.routes import TABLE

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
Serves = Callable[[bytes, bytes], bool]


def make_quart(gateway: Gateway, drain: Drain, serves: Serves, reads: Router) -> ASGIApp:
    """Return the app. It needs no lifespan: no hooks and no background tasks."""
    return cast("ASGIApp", _quart(gateway, drain, serves, reads))  # its annotations name every ASGI message; ours do not


def routes_of(gateway: Gateway, drain: Drain, serves: Serves, reads: Router) -> set[tuple[str, str]]:
    """Return method and path (as in OpenAPI) of every route of the control plane."""
    rules = _quart(gateway, drain, serves, reads).url_map.iter_rules()
    written = {(method, path_of(rule.rule)) for rule in rules for method in rule.methods or () if method != "HEAD"}
    return written | reads.routes


def _quart(gateway: Gateway, drain: Drain, serves: Serves, reads: Router) -> QuartTrio:
    app = QuartTrio(__name__, static_folder=None)
    app.url_map.merge_slashes = False
    app.url_map.strict_slashes = False
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False  # the fence answers preflights
    app.register_blueprint(managed.blueprint(gateway))
    app.register_blueprint(asking.blueprint(gateway))
    app.register_blueprint(login.blueprint(gateway))
    app.register_blueprint(live_feed.blueprint(gateway, drain))
    _add_errors(app, gateway, serves, reads)

    @app.before_request
    async def check() -> None:
        """Check the right first, then the query: without the right nothing about the query is revealed."""
        if request.url_rule is not None:  # an unknown path has no view, and shows nothing
            operation = TABLE.find(request.method, request.url_rule.rule)
            authorize(gateway, right_of(operation), scope(), gateway.clock.now())
            check_query(operation, request.args.items(multi=True))

    return app


def _add_errors(app: QuartTrio, gateway: Gateway, serves: Serves, reads: Router) -> None:
    @app.errorhandler(GwError)
    async def of_gateway(error: GwError) -> Response:
        return _response(error_responses.of_gateway(error, request_id(gateway, scope())))

    @app.errorhandler(HTTPException)
    async def of_http(error: HTTPException) -> Response:
        return _response(error_responses.of_http(error, request_id(gateway, scope())))

    @app.errorhandler(MethodNotAllowed)
    async def not_allowed(error: MethodNotAllowed) -> Response:
        return _response(error_responses.of_http(_with_methods(error, error.valid_methods or ()), request_id(gateway, scope())))

    @app.errorhandler(NotFound)
    async def not_found(error: NotFound) -> Response:
        return _response(error_responses.of_http(_with_methods(error, ()), request_id(gateway, scope())))

    @app.errorhandler(Exception)
    async def of_unexpected(error: Exception) -> Response:
        return _response(error_responses.of_unexpected(error, request_id(gateway, scope())))

    def _with_methods(error: HTTPException, quart_methods: Iterable[str]) -> HTTPException:
        """Return 405 with all methods of the path (the data plane's, the router's and Quart's), else `error`."""
        path = raw_path(scope())
        methods = [method for method in _METHODS if serves(method.encode(), path)]
        methods += ["GET", "HEAD"] if reads.rules_on(path) else []
        methods += quart_methods
        return MethodNotAllowed(list(dict.fromkeys(methods))) if methods else error


def _response(answer: error_responses.Answer) -> Response:
    status, headers, body = answer
    response = Response(body, status)
    for name, value in headers:
        response.headers[name.decode()] = value.decode("latin-1")
    return response
