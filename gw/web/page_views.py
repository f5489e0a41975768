"""`/api/pages/*`: what one page of the dashboard shows, in one answer."""

from __future__ import annotations

from gw.admin import pages
from gw.admin.setting_sources import settings_page
from gw.gateway import Gateway
from gw.web.router import Reply, Request, RouteTable, fresh, shown


def views(gateway: Gateway) -> RouteTable:
    routes = RouteTable("/api/pages")
    _add_configured(routes, gateway)
    _add_reports(routes, gateway)
    return routes


def _add_configured(routes: RouteTable, gateway: Gateway) -> None:
    registrar = gateway.registrar

    @routes.get("/providers")
    async def providers(ask: Request) -> Reply:
        return shown(pages.providers(registrar))

    @routes.get("/models")
    async def models(ask: Request) -> Reply:
        return shown(pages.models(registrar, gateway.book, gateway.clock.now()))

    @routes.get("/projects")
    async def projects(ask: Request) -> Reply:
        await fresh(gateway)
        return shown(await pages.projects(registrar, gateway.clock.now(), spent=gateway.ledger.spent))

    @routes.get("/keys")
    async def keys(ask: Request) -> Reply:
        return shown(pages.access_keys(registrar))

    @routes.get("/playground")
    async def playground(ask: Request) -> Reply:
        return shown(pages.playground(registrar))

    @routes.get("/settings")
    async def settings(ask: Request) -> Reply:
        found = settings_page(
            gateway.settings, version=gateway.version, started_at=gateway.started_at, warnings=registrar.warnings
        )
        return shown(found)


def _add_reports(routes: RouteTable, gateway: Gateway) -> None:
    @routes.get("/costs")
    async def costs(ask: Request) -> Reply:
        await fresh(gateway)
        found = await pages.costs(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            period=ask.query_text("period", "today"),
            by=ask.query_text("by", "model"),
            project=ask.query("project"),
        )
        return shown(found)

    @routes.get("/latency")
    async def latency(ask: Request) -> Reply:
        await fresh(gateway)
        found = await pages.latency(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            ttfb_warning_ms=gateway.settings.latency.ttfb_warning_ms,
            metric=ask.query_text("metric", "ttfb"),
            period=ask.query_text("period", "today"),
            project=ask.query("project"),
            models=[name for name in (ask.query("model"), ask.query("other")) if name],
        )
        return shown(found)
