"""The dashboard's files, and what `/` says to programs. Everybody may read them: what they show is asked for by `/api/*`."""

from __future__ import annotations

from typing import Literal

from gw.admin.schemas import Schema, extend
from gw.gateway import Gateway
from gw.web import public, static_files
from gw.web.router import Others, Reply, Request, RouteTable, View, shown
from gw.web.static_files import Frontend


class Front(Schema):
    """The health object, and whether the dashboard is built. `ok` is always true: Cartesia's SDK looks for it."""

    ok: bool
    status: Literal["ok", "degraded"]
    uptime_seconds: float
    version: str
    dashboard: str


def views(gateway: Gateway, site: Frontend) -> RouteTable:
    routes = RouteTable()

    @routes.get("/")
    async def index(ask: Request) -> Reply:
        """HTML for who asks for it; voice SDKs use the same path as a sign of life and get a small status."""
        if "text/html" in _sent(ask, b"accept").lower():
            return _file(site.page(_sent(ask, b"accept-encoding"), _sent(ask, b"if-none-match")))
        dashboard_state = "built" if site.built else static_files.NOT_BUILT
        reply = shown(extend(Front, public.state(gateway), ok=True, dashboard=dashboard_state))
        reply.headers += ((b"vary", b"accept"),)
        return reply

    return routes


def others(site: Frontend) -> Others:
    """Files, then the dashboard's page for paths that its own router reads."""

    async def view(ask: Request) -> Reply:
        encoding, known = _sent(ask, b"accept-encoding"), _sent(ask, b"if-none-match")
        return _file(site.file(ask.named, encoding, known) or site.page(encoding, known))

    def find(path: str) -> View | None:
        return view if not path.startswith(static_files.NOT_PAGES) or site.file(path, "", "") is not None else None

    return find


def _sent(ask: Request, name: bytes) -> str:
    return (ask.header(name) or b"").decode("latin-1")


def _file(found: static_files.Reply) -> Reply:
    headers = {name: value.encode() for name, value in found.headers.items()}
    content_type = headers.pop("content-type", b"")
    return Reply(found.body, content_type, tuple((name.encode(), v) for name, v in headers.items()), found.status)
