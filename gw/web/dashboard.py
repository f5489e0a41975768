"""`/api/*`: the dashboard's reads."""

from __future__ import annotations

import trio
from msgspec import UNSET

from gw.admin import forecast, listings, logs, overview, reliability, reports, series, turn_reports
from gw.gateway import Gateway
from gw.web.public import log_query, read_logs
from gw.web.router import Reply, Request, RouteTable, fresh, shown

LATENCY_PERIODS = ("today", "week")


def views(gateway: Gateway) -> RouteTable:
    routes = RouteTable("/api")
    _add_reads(routes, gateway)
    _add_charts(routes, gateway)
    _add_logs(routes, gateway)
    _add_turns(routes, gateway)
    return routes


def _add_reads(routes: RouteTable, gateway: Gateway) -> None:
    @routes.get("/status")
    async def status(ask: Request) -> Reply:
        return shown(listings.dashboard_status(gateway.live.catalog))

    @routes.get("/costs")
    async def costs(ask: Request) -> Reply:
        await fresh(gateway)
        catalog, now, project = gateway.live.catalog, gateway.clock.now(), ask.query("project")
        period = ask.query_text("period", "today")
        found = await reports.costs(gateway.store, catalog, now, period=period, project=project)
        if project:
            found.by_project = UNSET
        return shown(found)

    @routes.get("/latency")
    async def latency(ask: Request) -> Reply:
        await fresh(gateway)
        found = await reports.latency(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            period=ask.query_text("period", "today"),
            project=ask.query("project"),
            allowed=LATENCY_PERIODS,
        )
        return shown(found)

    @routes.get("/overview")
    async def front(ask: Request) -> Reply:
        await fresh(gateway)
        found = await overview.overview(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            spent=gateway.ledger.spent,
            active=gateway.relay.in_flight.requests,
            project=ask.query("project"),
        )
        return shown(found)

    @routes.get("/projects")
    async def projects(ask: Request) -> Reply:
        await fresh(gateway)
        return shown(await listings.projects(gateway.store, gateway.live.catalog, gateway.clock.now()))


def _add_charts(routes: RouteTable, gateway: Gateway) -> None:
    @routes.get("/series")
    async def lines(ask: Request) -> Reply:
        await fresh(gateway)
        found = await series.series(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            metric=ask.query_text("metric", "requests"),
            period=ask.query_text("period", "today"),
            by=ask.query_text("by", "none"),
            project=ask.query("project"),
            model=ask.query("model"),
        )
        return shown(found)

    @routes.get("/histogram")
    async def spread(ask: Request) -> Reply:
        await fresh(gateway)
        found = await series.histogram(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            model=ask.query("model"),
            period=ask.query_text("period", "today"),
            project=ask.query("project"),
        )
        return shown(found)

    @routes.get("/forecast")
    async def month(ask: Request) -> Reply:
        await fresh(gateway)
        catalog, now = gateway.live.catalog, gateway.clock.now()
        return shown(await forecast.forecast(gateway.store, catalog, now, project=ask.query("project")))

    @routes.get("/reliability")
    async def providers(ask: Request) -> Reply:
        await fresh(gateway)
        found = await reliability.reliability(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            gates=gateway.limits.view(trio.current_time()),
            period=ask.query_text("period", "today"),
        )
        return shown(found)


def _add_logs(routes: RouteTable, gateway: Gateway) -> None:
    @routes.get("/logs")
    async def log(ask: Request) -> Reply:
        return shown(await read_logs(gateway, ask))

    @routes.get("/logs.csv")
    async def export(ask: Request) -> Reply:
        await fresh(gateway)
        body = await logs.export(
            gateway.store,
            gateway.live.catalog,
            log_query(ask),
            limit=ask.query_text("limit", str(logs.DEFAULT_EXPORT)),
            before=ask.query("before"),
        )
        headers = ((b"content-disposition", b'attachment; filename="requests.csv"'), (b"cache-control", b"no-store"))
        return Reply(body, b"text/csv; charset=utf-8; header=present", headers)


def _add_turns(routes: RouteTable, gateway: Gateway) -> None:
    @routes.get("/turns")
    async def newest(ask: Request) -> Reply:
        await fresh(gateway)
        found = await turn_reports.page(
            gateway.store,
            gateway.live.catalog,
            limit=ask.query_text("limit", str(turn_reports.DEFAULT_TURNS)),
            before=ask.query("before"),
            project=ask.query("project"),
        )
        return shown(found)

    @routes.get("/turns/<path:turn_id>")
    async def waterfall(ask: Request) -> Reply:
        await fresh(gateway)
        catalog, project = gateway.live.catalog, ask.query("project")
        return shown(
            await turn_reports.one(gateway.store, catalog, ask.named, project=project, session=ask.query("session"))
        )
