"""`/health`, `/ready` and the reading half of `/v1/*`."""

from __future__ import annotations

import attrs
import trio

from gw.admin import listings, logs, reports
from gw.gateway import Gateway
from gw.store.chunked_body import Encoded
from gw.telemetry.metrics import MetricFacts
from gw.web.drain import Drain
from gw.web.router import LOOKUP_LAG_S, Reply, Request, RouteTable, fresh, shown


def views(gateway: Gateway, drain: Drain) -> RouteTable:
    routes = RouteTable()
    _add_state(routes, gateway, drain)
    _add_listings(routes, gateway)
    _add_reports(routes, gateway)
    return routes


def _add_state(routes: RouteTable, gateway: Gateway, drain: Drain) -> None:
    @routes.get("/health")
    async def health(ask: Request) -> Reply:
        return shown(state(gateway))

    @routes.get("/ready")
    async def ready(ask: Request) -> Reply:
        store = gateway.store
        body = reports.ready(draining=drain.draining, accepting=store.accepting, degraded=store.degraded)
        return shown(body, 200 if body.status == "ready" else 503)

    @routes.get("/v1/openapi.json")
    async def described(ask: Request) -> Reply:
        from gw.web import openapi  # which reads the table of routes, as this module is read for it

        return Reply(openapi.document_bytes())

    @routes.get("/v1/metrics")
    async def metrics(ask: Request) -> Reply:
        announce(gateway)
        text = gateway.metrics.render(_metric_facts(gateway))
        return Reply(text, b"text/plain; version=0.0.4; charset=utf-8")


def state(gateway: Gateway) -> reports.GatewayHealth:
    """The health object."""
    return reports.health(
        now=gateway.clock.now(),
        started_at=gateway.started_at,
        version=gateway.version,
        degraded=gateway.store.degraded,
    )


def announce(gateway: Gateway) -> None:
    """Let the names of the catalog in force be label values."""
    catalog = gateway.live.catalog
    gateway.metrics.know(models=[m.id for m in catalog.models.values()], providers=list(catalog.providers))


def _metric_facts(gateway: Gateway) -> MetricFacts:
    catalog = gateway.live.catalog
    gates = gateway.limits.view(trio.current_time())
    closed = {name for name, gate in gates.items() if gate.breaker == "open"}
    return MetricFacts(
        uptime_s=round(gateway.clock.now() - gateway.started_at, 3),
        version=gateway.version,
        providers_configured=sum(p.configured for p in catalog.providers.values()),
        cost_today_nusd=sum(gateway.ledger.spent(project) for project in catalog.projects),
        provider_up={p.id: p.configured and p.id not in closed for p in catalog.providers.values()},
        in_flight=gateway.relay.in_flight.requests,
        write_queue_depth=gateway.store.queue_depth,
        records_set_aside=gateway.store.counters.set_aside,
        records_dropped=gateway.store.counters.dropped,
        store_degraded=bool(gateway.store.degraded),
    )


def _add_listings(routes: RouteTable, gateway: Gateway) -> None:
    @routes.get("/v1/status")
    async def status(ask: Request) -> Reply:
        return shown(listings.status(gateway.live.catalog))

    @routes.get("/v1/models")
    @routes.get("/openai/v1/models")
    async def models(ask: Request) -> Reply:
        catalog, project = gateway.live.catalog, ask.query("project")
        if ask.header(b"xi-api-key") is not None:
            return shown(listings.models_bare(catalog, project=project))
        return shown(listings.models(catalog, gateway.started_at, project=project))

    @routes.get("/v1/models/<path:model_id>")
    @routes.get("/openai/v1/models/<path:model_id>")
    async def model(ask: Request) -> Reply:
        return shown(listings.model(gateway.live.catalog, ask.named, gateway.started_at))

    @routes.get("/v1/providers")
    async def providers(ask: Request) -> Reply:
        return shown(listings.providers(gateway.live.catalog))

    @routes.get("/v1/providers/<provider_id>")
    async def provider(ask: Request) -> Reply:
        return shown(listings.provider(gateway.live.catalog.provider(ask.named)))

    @routes.get("/v1/projects")
    async def projects(ask: Request) -> Reply:
        await fresh(gateway)
        return shown(await listings.projects(gateway.store, gateway.live.catalog, gateway.clock.now()))

    @routes.get("/v1/projects/<project_id>")
    async def project(ask: Request) -> Reply:
        await fresh(gateway)
        now, catalog = gateway.clock.now(), gateway.live.catalog
        found = await listings.project(gateway.store, catalog, now, ask.named, spent=gateway.ledger.spent)
        return shown(found)


def _add_reports(routes: RouteTable, gateway: Gateway) -> None:
    @routes.get("/v1/costs")
    async def costs(ask: Request) -> Reply:
        await fresh(gateway)
        found = await reports.costs(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            period=ask.query_text("period", "today"),
            project=ask.query("project"),
        )
        return shown(found)

    @routes.get("/v1/latency")
    async def latency(ask: Request) -> Reply:
        await fresh(gateway)
        found = await reports.latency(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            period=ask.query_text("period", "today"),
            project=ask.query("project"),
        )
        return shown(found)

    @routes.get("/v1/logs")
    async def log(ask: Request) -> Reply:
        return shown(await read_logs(gateway, ask))

    @routes.get("/v1/requests/<record_id>")
    async def request_detail(ask: Request) -> Reply:
        await fresh(gateway, LOOKUP_LAG_S)
        return shown(await logs.request_detail(gateway.store, ask.named))


async def read_logs(gateway: Gateway, ask: Request) -> Encoded:
    """The log as the request's query filters it."""
    await fresh(gateway)
    return await logs.page(
        gateway.store,
        gateway.live.catalog,
        log_query(ask),
        limit=ask.query_text("limit", str(logs.DEFAULT_RECORDS)),
        before=ask.query("before"),
    )


def log_query(ask: Request) -> logs.LogQuery:
    return logs.LogQuery(**{field.name: ask.query(field.name) for field in attrs.fields(logs.LogQuery)})
