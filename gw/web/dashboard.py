"""`/api/*`: the dashboard's reads."""

from __future__ import annotations

import trio
from quart import Blueprint, Response

from gw.admin import forecast, listings, logs, overview, reliability, reports, series, turns
from gw.errors import RequestError
from gw.gateway import Gateway
from gw.web.public import log_query, read_logs
from gw.web.views import fresh, json_reply, query, query_text

LATENCY_PERIODS = ("today", "week")


def blueprint(gateway: Gateway) -> Blueprint:
    routes = Blueprint("dashboard", __name__, url_prefix="/api")
    _add_reads(routes, gateway)
    _add_charts(routes, gateway)
    _add_logs(routes, gateway)
    _add_turns(routes, gateway)
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

    @routes.get("/overview")
    async def front() -> Response:
        await fresh(gateway)
        found = await overview.overview(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            spent=gateway.ledger.spent,
            active=gateway.relay.in_flight,
            project=query("project"),
        )
        return json_reply(found)

    @routes.get("/projects")
    async def projects() -> Response:
        await fresh(gateway)
        return json_reply(await listings.projects(gateway.store, gateway.live.catalog, gateway.clock.now()))


def _add_charts(routes: Blueprint, gateway: Gateway) -> None:
    @routes.get("/series")
    async def lines() -> Response:
        await fresh(gateway)
        found = await series.series(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            metric=query_text("metric", "requests"),
            period=query_text("period", "today"),
            by=query_text("by", "none"),
            project=query("project"),
            model=query("model"),
        )
        return json_reply(found)

    @routes.get("/histogram")
    async def spread() -> Response:
        await fresh(gateway)
        if not (model := query("model")):
            raise RequestError(what="model is needed", param="model")
        found = await series.histogram(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            model=model,
            period=query_text("period", "today"),
            project=query("project"),
        )
        return json_reply(found)

    @routes.get("/forecast")
    async def month() -> Response:
        await fresh(gateway)
        catalog, now = gateway.live.catalog, gateway.clock.now()
        return json_reply(await forecast.forecast(gateway.store, catalog, now, project=query("project")))

    @routes.get("/reliability")
    async def providers() -> Response:
        await fresh(gateway)
        found = await reliability.reliability(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            gates=gateway.limits.view(trio.current_time()),
            period=query_text("period", "today"),
        )
        return json_reply(found)


def _add_logs(routes: Blueprint, gateway: Gateway) -> None:
    @routes.get("/logs")
    async def log() -> Response:
        return json_reply(await read_logs(gateway))

    @routes.get("/logs.csv")
    async def export() -> Response:
        await fresh(gateway)
        body = await logs.export(
            gateway.store,
            gateway.live.catalog,
            log_query(),
            limit=query_text("limit", str(logs.EXPORT_DEFAULT)),
            before=query("before"),
        )
        headers = {"content-disposition": 'attachment; filename="requests.csv"', "cache-control": "no-store"}
        return Response(body, content_type="text/csv; charset=utf-8; header=present", headers=headers)


def _add_turns(routes: Blueprint, gateway: Gateway) -> None:
    @routes.get("/turns")
    async def newest() -> Response:
        await fresh(gateway)
        found = await turns.page(
            gateway.store,
            gateway.live.catalog,
            limit=query_text("limit", str(turns.TURNS_DEFAULT)),
            before=query("before"),
            project=query("project"),
        )
        return json_reply(found)

    @routes.get("/turns/<path:turn_id>")
    async def waterfall(turn_id: str) -> Response:
        await fresh(gateway)
        catalog, project = gateway.live.catalog, query("project")
        return json_reply(
            await turns.one(gateway.store, catalog, turn_id, project=project, session=query("session"))
        )
