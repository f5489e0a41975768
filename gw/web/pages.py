"""`/api/pages/*`: what one page of the dashboard shows, in one answer."""

from __future__ import annotations

from quart import Blueprint, Response

from gw.admin import pages
from gw.admin.origin import settings_page
from gw.gateway import Gateway
from gw.web.views import fresh, json_reply, query, query_text


def blueprint(gateway: Gateway) -> Blueprint:
    routes = Blueprint("pages", __name__, url_prefix="/api/pages")
    _add_configured(routes, gateway)
    _add_reports(routes, gateway)
    return routes


def _add_configured(routes: Blueprint, gateway: Gateway) -> None:
    registrar = gateway.registrar

    @routes.get("/providers")
    async def providers() -> Response:
        return json_reply(pages.providers(registrar))

    @routes.get("/models")
    async def models() -> Response:
        return json_reply(pages.models(registrar, gateway.book, gateway.clock.now()))

    @routes.get("/projects")
    async def projects() -> Response:
        await fresh(gateway)
        return json_reply(await pages.projects(registrar, gateway.clock.now(), spent=gateway.ledger.spent))

    @routes.get("/keys")
    async def keys() -> Response:
        return json_reply(pages.access_keys(registrar))

    @routes.get("/playground")
    async def playground() -> Response:
        return json_reply(pages.playground(registrar))

    @routes.get("/settings")
    async def settings() -> Response:
        found = settings_page(
            gateway.settings, version=gateway.version, started_at=gateway.started_at, warnings=registrar.warnings
        )
        return json_reply(found)


def _add_reports(routes: Blueprint, gateway: Gateway) -> None:
    @routes.get("/costs")
    async def costs() -> Response:
        await fresh(gateway)
        found = await pages.costs(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            period=query_text("period", "today"),
            by=query_text("by", "model"),
            project=query("project"),
        )
        return json_reply(found)

    @routes.get("/latency")
    async def latency() -> Response:
        await fresh(gateway)
        found = await pages.latency(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            metric=query_text("metric", "ttfb"),
            period=query_text("period", "today"),
            project=query("project"),
            models=[name for name in (query("model"), query("other")) if name],
        )
        return json_reply({**found, "ttfb_warning_ms": gateway.settings.latency.ttfb_warning_ms})
