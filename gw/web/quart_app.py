"""The Quart-Trio app of the control plane's changes. Imported at its first request (`gw.web.app`)."""

from __future__ import annotations

from typing import cast

from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.routing import BaseConverter

from gw.types.asgi import ASGIApp, Scope
from gw.web.router import Router


class EveryPath(BaseConverter):
    """Matches whatever a path may contain, line ends included; Werkzeug's own `path` does not."""

    regex = r"[\s\S]*"
    part_isolating = False


def make_quart(router: Router) -> ASGIApp:
    """Return the app, one view for all changes: `router` knows their routes. It has no hooks and no background tasks."""
    app = QuartTrio(__name__, static_folder=None)
    app.url_map.merge_slashes = False
    app.url_map.strict_slashes = False
    app.url_map.converters["every"] = EveryPath
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False  # the fence answers preflights
    app.config["MAX_CONTENT_LENGTH"] = None  # the host limits bodies
    app.config["BODY_TIMEOUT"] = None  # the host refuses slow bodies

    @app.route("/<every:path>", methods=["POST", "PUT", "PATCH", "DELETE"])
    async def change(path: str) -> Response:
        scope = cast("Scope", request.scope)
        reply = await router.reply(scope, lambda: request.body)
        response = Response(cast("bytes", reply.body), reply.status, content_type=reply.content_type.decode())
        for name, value in [*reply.headers, *router.common_headers(scope)]:
            response.headers.add(name.decode(), value.decode("latin-1"))
        return response

    return cast("ASGIApp", app)  # its annotations name every ASGI message; ours do not
