"""Routes about the gateway's state: the front page, health, readiness, metrics, status and the OpenAPI document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Literal

import attrs
import trio

from gw.admin import first_audio_reports, gateway_status
from gw.admin.config_check import ConfigCheck, check_config
from gw.admin.fleet_status import FleetPage, fleet_page
from gw.admin.request_models import Body, read
from gw.admin.schemas import Schema, from_attributes
from gw.errors import NoFleet, RequestError
from gw.gateway import Gateway, HealthProblem
from gw.relay.relay import Relay
from gw.telemetry.clock import utc_day
from gw.telemetry.exposition import text_of
from gw.telemetry.histogram import Histogram
from gw.telemetry.metric_facts import MetricFacts
from gw.types.bank import MEMBER_DEAD_S
from gw.types.compiled import Edition, edition_of
from gw.web import static_files
from gw.web.reply import Reply, json_reply
from gw.web.route import Raw, Request, Route

HealthState = Literal["ok", "degraded"]
ReadyState = Literal["ready", "not_ready", "draining"]


class GatewayHealth(Schema):
    """`problems` says what is degraded; the log has the reasons."""

    status: HealthState
    problems: list[HealthProblem]
    uptime_seconds: float
    version: str
    edition: Edition
    """Whether the modules of the hot path are compiled."""


class ReadyChecks(Schema):
    records: HealthState
    draining: bool
    fleet: HealthState = "ok"


class Ready(Schema):
    status: ReadyState
    checks: ReadyChecks


class Front(Schema):
    """Most of the health object, and whether the dashboard is built. `ok` is always true: Cartesia's SDK looks for it."""

    ok: bool
    status: HealthState
    uptime_seconds: float
    version: str
    dashboard: str


def front(request: Request) -> Reply:
    """Answer with HTML if it is accepted; voice SDKs use the same path as a health check and get a small object."""
    files = request.plane.files
    if "text/html" in request.header(b"accept").lower():
        return files.page(request.header(b"accept-encoding"), request.header(b"if-none-match"))
    dashboard = "built" if files.built else static_files.NOT_BUILT
    answer = from_attributes(Front, health(request), ok=True, dashboard=dashboard)
    return json_reply(answer, headers=[(b"vary", b"accept")])


def health(request: Request) -> GatewayHealth:
    gateway = request.gateway
    problems = gateway.problems
    return GatewayHealth(
        status="degraded" if problems else "ok", problems=problems, uptime_seconds=gateway.uptime_s,
        version=gateway.version, edition=edition_of(Relay),
    )  # fmt: skip


def ready(request: Request) -> Reply:
    """Say whether new work should be sent here, and if not, why.

    While the database is away, records wait in the journal, and work may come. Once one could be lost, it should go elsewhere.
    """
    gateway, draining = request.gateway, request.plane.drain.leaving
    store, leases = gateway.store, gateway.leases
    alone = leases is not None and leases.is_alone
    keeps_records = gateway.journals.keeps_records
    records: HealthState = "ok" if keeps_records and not store.degraded else "degraded"
    checks = ReadyChecks(records=records, draining=draining, fleet="degraded" if alone else "ok")
    works = keeps_records and not (leases is not None and leases.seconds_alone_now() > MEMBER_DEAD_S)
    status: ReadyState = "draining" if draining else "ready" if works else "not_ready"
    return json_reply(Ready(status=status, checks=checks), 200 if status == "ready" else 503)


async def openapi_document(request: Request) -> Reply:
    return Reply(await trio.to_thread.run_sync(_openapi_document))


def _openapi_document() -> bytes:
    """Make the document at the first call, which takes 40 ms."""
    from gw.web import openapi  # it is made from the table of all routes, which includes this one

    return openapi.document_bytes()


async def metrics(request: Request) -> Reply:
    gateway = request.gateway
    waits = await first_audio_reports.of_today(gateway.store, gateway.clock.now())
    text = await text_of(gateway.metrics.families(_metric_facts(gateway, waits)))
    return Reply(text, b"text/plain; version=0.0.4; charset=utf-8")


def _metric_facts(gateway: Gateway, first_audio: Mapping[str, Histogram]) -> MetricFacts:
    catalog, captures = gateway.current.catalog, gateway.captures
    gates = gateway.limits.view(trio.current_time())
    broken = {name for name, gate in gates.items() if gate.breaker == "open"}
    return MetricFacts(
        uptime_s=gateway.uptime_s,
        version=gateway.version,
        providers_configured=sum(p.configured for p in catalog.providers.values()),
        cost_today_nusd=sum(gateway.ledger.cost(project) for project in catalog.projects),
        provider_up={p.id: p.configured and p.id not in broken for p in catalog.providers.values()},
        in_flight=gateway.requests_in_flight,
        workers=gateway.workers(),
        write_queue_depth=gateway.store.queue_depth,
        journal_bytes=gateway.journals.bytes,
        journal_limit_bytes=gateway.journals.limit_bytes,
        records_set_aside=gateway.store.counters.set_aside,
        records_dropped=gateway.store.counters.dropped,
        store_degraded=bool(gateway.store.degraded),
        reload_failed=bool(gateway.failed_reload),
        log_lines_dropped=gateway.log_lines.dropped if gateway.log_lines is not None else 0,
        retention_held=bool(gateway.store.retention_held),
        capture_pieces={} if captures is None else attrs.asdict(captures.counters),
        capture_bytes=0 if captures is None else captures.bytes,
        spans=None if gateway.telemetry is None else gateway.telemetry.counts,
        capture_queue_depth=0 if captures is None else captures.depth,
        first_audio=first_audio,
        fleet_members=gateway.leases.members if gateway.leases is not None and gateway.settings.fleet.valkey else 1,
        fleet_alone_s=0.0 if gateway.leases is None else gateway.leases.seconds_alone(),
        fleet_phrases=_fleet_phrases(gateway),
    )


def _fleet_phrases(gateway: Gateway) -> Mapping[str, int]:
    """Return what became of phrases in the fleet, over all processes of this gateway."""
    counts = Counter() if gateway.shared_phrases is None else Counter(attrs.asdict(gateway.shared_phrases.counters))
    for worker in gateway.workers():
        counts.update(worker.figures.fleet_phrases)
    return counts


_HTML = Raw("text/html", {"type": "string"})
_get = partial(Route, "GET", tag="State")

async def fleet_seen(request: Request) -> FleetPage:
    """Return the fleet. Raise NoFleet for a gateway that runs alone."""
    gateway = request.gateway
    if gateway.bank is None or gateway.leases is None:
        raise NoFleet
    return await fleet_page(
        gateway.bank, utc_day(gateway.clock.now()), name=gateway.settings.fleet.name, instance=gateway.leases.member,
        alone_s=gateway.leases.seconds_alone_now(), why_alone=gateway.leases.why_alone,
    )  # fmt: skip


class ConfigText(Body):
    content: str | None = None
    """Text of a gw.yaml; absent = the file of this gateway as it is now, which the next reload takes."""


async def config_check(request: Request) -> ConfigCheck:
    """Check a configuration. Raises RequestError, also for a gateway without a file."""
    text, file = read(request.body, ConfigText).content, request.gateway.settings.path
    if text is None and file is None:
        raise RequestError(what="this gateway runs without a file (demo): send `content`", param="content")
    return await trio.to_thread.run_sync(check_config, text, file)


STATE = (
    _get(
        "/", "front", "The dashboard for a client that accepts `text/html`, else the health object.", front,
        answers=(Front, _HTML), errors=(503,), unavailable=(_HTML,),
    ),
    _get("/health", "health", "Whether the gateway runs.", health, answers=(GatewayHealth,)),
    _get(
        "/ready", "ready", "Whether new work should be sent here; 503 while draining, or while records could be lost.",
        ready, answers=(Ready,), errors=(503,), unavailable=(Ready,), notes="503 has the same body.",
    ),
    _get(
        "/v1/openapi.json", "openapi", "This document.", openapi_document,
        answers=(Raw("application/json", {"type": "object"}),),
    ),
    _get(
        "/v1/metrics", "metrics", "Prometheus text exposition.", metrics,
        answers=(Raw("text/plain", {"type": "string"}),),
        notes="Needs no credential from this machine when the gateway is bound to loopback.",
    ),
    Route(
        "POST", "/v1/config/check", "check_config", "Whether a configuration is valid, and what is suspicious in it.", config_check,
        tag="State", body=ConfigText, large_body=True, answers=(ConfigCheck,), errors=(422,),
        notes="Nothing is changed. Values that come from environment variables are not shown.",
    ),
    _get(
        "/v1/fleet", "fleet", "The gateways that share limits with this one, and what each has used or leased.", fleet_seen,
        answers=(FleetPage,), errors=(404,), notes="404 for a gateway without `fleet.valkey`, which runs alone.",
    ),
    _get(
        "/v1/status", "status", "Providers, and the number of models and projects.",
        lambda r: gateway_status.status(
            r.catalog, r.gateway.journals, r.gateway.workers(), r.gateway.limits.view(trio.current_time())
        ),
        answers=(gateway_status.GatewayStatus,),
    ),
)  # fmt: skip
