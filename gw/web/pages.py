"""`/api/pages/*`: what one page of the dashboard shows, in one answer."""

from __future__ import annotations

from gw.admin import pages
from gw.admin.origin import settings_page
from gw.gateway import Gateway
from gw.web.reads import Ask, Reply, Views, fresh, shown


def views(gateway: Gateway) -> Views:
    routes = Views("/api/pages")
    _add_configured(routes, gateway)
    _add_reports(routes, gateway)
    return routes


def _add_configured(routes: Views, gateway: Gateway) -> None:
    registrar = gateway.registrar

    @routes.get("/providers")
    async def providers(ask: Ask) -> Reply:
        return shown(pages.providers(registrar))

    @routes.get("/models")
    async def models(ask: Ask) -> Reply:
        return shown(pages.models(registrar, gateway.book, gateway.clock.now()))

    @routes.get("/projects")
    async def projects(ask: Ask) -> Reply:
        await fresh(gateway)
        return shown(await pages.projects(registrar, gateway.clock.now(), spent=gateway.ledger.spent))

    @routes.get("/keys")
    async def keys(ask: Ask) -> Reply:
        return shown(pages.access_keys(registrar))

    @routes.get("/playground")
    async def playground(ask: Ask) -> Reply:
        return shown(pages.playground(registrar))

    @routes.get("/settings")
    async def settings(ask: Ask) -> Reply:
        found = settings_page(
            gateway.settings, version=gateway.version, started_at=gateway.started_at, warnings=registrar.warnings
        )
        return shown(found)


def _add_reports(routes: Views, gateway: Gateway) -> None:
    @routes.get("/costs")
    async def costs(ask: Ask) -> Reply:
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
    async def latency(ask: Ask) -> Reply:
        await fresh(gateway)
        found = await pages.latency(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            metric=ask.query_text("metric", "ttfb"),
            period=ask.query_text("period", "today"),
            project=ask.query("project"),
            models=[name for name in (ask.query("model"), ask.query("other")) if name],
        )
        return shown({**found, "ttfb_warning_ms": gateway.settings.latency.ttfb_warning_ms})
