"""`/health`, `/ready` and the reading half of `/v1/*`."""

from __future__ import annotations

import attrs
import msgspec
import trio
from quart import Blueprint, Response, request

from gw.admin import listings, logs, reports
from gw.gateway import Gateway
from gw.telemetry.metrics import MetricFacts
from gw.web import openapi
from gw.web.drain import Drain
from gw.web.views import LOOKUP_LAG_S, fresh, json_reply, query, query_text


def blueprint(gateway: Gateway, drain: Drain) -> Blueprint:
    routes = Blueprint("public", __name__)
    _add_state(routes, gateway, drain)
    _add_listings(routes, gateway)
    _add_reports(routes, gateway)
    return routes


def _add_state(routes: Blueprint, gateway: Gateway, drain: Drain) -> None:
    @routes.get("/health")
    async def health() -> Response:
        return json_reply(state(gateway))

    @routes.get("/ready")
    async def ready() -> Response:
        store = gateway.store
        good, body = reports.ready(draining=drain.draining, accepting=store.accepting, degraded=store.degraded)
        return json_reply(body, 200 if good else 503)

    @routes.get("/v1/openapi.json")
    async def described() -> Response:
        return Response(openapi.document_bytes(), content_type="application/json")

    @routes.get("/v1/metrics")
    async def metrics() -> Response:
        announce(gateway)
        text = gateway.metrics.render(_metric_facts(gateway))
        return Response(text, content_type="text/plain; version=0.0.4; charset=utf-8")


def state(gateway: Gateway) -> reports.Json:
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
        in_flight=gateway.relay.in_flight,
        write_queue_depth=gateway.store.queue_depth,
        records_set_aside=gateway.store.counters.set_aside,
        records_dropped=gateway.store.counters.dropped,
        store_degraded=bool(gateway.store.degraded),
    )


def _add_listings(routes: Blueprint, gateway: Gateway) -> None:
    @routes.get("/v1/status")
    async def status() -> Response:
        return json_reply(listings.status(gateway.live.catalog))

    @routes.get("/v1/models")
    @routes.get("/openai/v1/models")
    async def models() -> Response:
        catalog, project = gateway.live.catalog, query("project")
        if "xi-api-key" in request.headers:
            return json_reply(listings.models_bare(catalog, project=project))
        return json_reply(listings.models(catalog, gateway.started_at, project=project))

    @routes.get("/v1/models/<path:model_id>")
    @routes.get("/openai/v1/models/<path:model_id>")
    async def model(model_id: str) -> Response:
        return json_reply(listings.model(gateway.live.catalog, model_id, gateway.started_at))

    @routes.get("/v1/providers")
    async def providers() -> Response:
        return json_reply(listings.providers(gateway.live.catalog))

    @routes.get("/v1/providers/<provider_id>")
    async def provider(provider_id: str) -> Response:
        return json_reply(listings.provider(gateway.live.catalog.provider(provider_id)))

    @routes.get("/v1/projects")
    async def projects() -> Response:
        await fresh(gateway)
        return json_reply(await listings.projects(gateway.store, gateway.live.catalog, gateway.clock.now()))

    @routes.get("/v1/projects/<project_id>")
    async def project(project_id: str) -> Response:
        await fresh(gateway)
        now, catalog = gateway.clock.now(), gateway.live.catalog
        found = await listings.project(gateway.store, catalog, now, project_id, spent=gateway.ledger.spent)
        return json_reply(found)


def _add_reports(routes: Blueprint, gateway: Gateway) -> None:
    @routes.get("/v1/costs")
    async def costs() -> Response:
        await fresh(gateway)
        found = await reports.costs(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            period=query_text("period", "today"),
            project=query("project"),
        )
        return json_reply(found)

    @routes.get("/v1/latency")
    async def latency() -> Response:
        await fresh(gateway)
        found = await reports.latency(
            gateway.store,
            gateway.live.catalog,
            gateway.clock.now(),
            period=query_text("period", "today"),
            project=query("project"),
        )
        return json_reply(found)

    @routes.get("/v1/logs")
    async def log() -> Response:
        return json_reply(await read_logs(gateway))

    @routes.get("/v1/requests/<record_id>")
    async def request_detail(record_id: str) -> Response:
        await fresh(gateway, LOOKUP_LAG_S)
        return json_reply(await reports.request_detail(gateway.store, record_id))


async def read_logs(gateway: Gateway) -> msgspec.Raw:
    """The log as the query of the current request filters it, encoded."""
    await fresh(gateway)
    return await logs.page_json(
        gateway.store,
        gateway.live.catalog,
        log_query(),
        limit=query_text("limit", str(reports.LOGS_DEFAULT)),
        before=query("before"),
    )


def log_query() -> logs.Query:
    return logs.Query(**{field.name: query(field.name) for field in attrs.fields(logs.Query)})
