"""`/api/*`: the dashboard's reads, and its login."""

from __future__ import annotations

import msgspec
from quart import Blueprint, Response, request

from gw.admin import listings, reports
from gw.dialects.caller import principal
from gw.errors import ForbiddenError
from gw.gateway import Gateway
from gw.web import session
from gw.web.public import read_logs
from gw.web.views import fresh, json_reply, needs, query, query_text, read_json

LATENCY_PERIODS = ("today", "week")


class Login(msgspec.Struct, forbid_unknown_fields=True):
    token: str


def blueprint(gateway: Gateway) -> Blueprint:
    routes = Blueprint("dashboard", __name__, url_prefix="/api")
    _add_reads(routes, gateway)
    _add_login(routes, gateway)
    return routes


def _add_reads(routes: Blueprint, gateway: Gateway) -> None:
    @routes.get("/status")
    async def status() -> Response:
        return json_reply(listings.dashboard_status(gateway.live.catalog))

    @routes.get("/costs")
    async def costs() -> Response:
        await fresh(gateway)
        catalog, now, project = gateway.live.catalog, gateway.clock.now(), query("project")
        period = query_text("period", "today")
        found = await reports.costs(gateway.store, catalog, now, period=period, project=project)
        if project:
            del found["by_project"]
        return json_reply(found)

    @routes.get("/latency")
    async def latency() -> Response:
        await fresh(gateway)
        found = await reports.latency(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            period=query_text("period", "today"),
            project=query("project"),
            allowed=LATENCY_PERIODS,
        )
        return json_reply(found)

    @routes.get("/logs")
    async def logs() -> Response:
        return json_reply(await read_logs(gateway))

    @routes.get("/overview")
    async def overview() -> Response:
        await fresh(gateway)
        found = await reports.overview(
            gateway.store, gateway.live.catalog, gateway.clock.now(), project=query("project")
        )
        return json_reply(found)

    @routes.get("/projects")
    async def projects() -> Response:
        await fresh(gateway)
        return json_reply(await listings.projects(gateway.store, gateway.live.catalog, gateway.clock.now()))


def _add_login(routes: Blueprint, gateway: Gateway) -> None:
    @routes.post("/login")
    @needs("public")
    async def login() -> Response:
        body = await read_json(Login)
        auth = gateway.settings.auth
        if not principal(gateway, body.token.encode("utf-8", "surrogatepass")).is_admin:
            raise ForbiddenError(what="the dashboard needs the admin token; a project key is not enough")
        if not auth.admin_token:
            return json_reply({"status": "open"})
        return _with_session(session.issue(auth.admin_token, gateway.clock.now()), "logged_in")

    @routes.post("/logout")
    @needs("public")
    async def logout() -> Response:
        return _with_session("", "logged_out")


def _with_session(value: str, status: str) -> Response:
    cookie = session.set_cookie(value, secure=request.scheme == "https")
    return json_reply({"status": status}, headers={"set-cookie": cookie})
