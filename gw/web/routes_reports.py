"""Routes of the reports: costs, latency, logs, turns, the audit log, vendors' bills, and what the dashboard draws."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import trio
from msgspec import UNSET

from gw.admin import first_audio_reports, forecast, listings, logs, overview, pages, reliability, reports
from gw.admin.downloads import FORMATS, RowExport
from gw.admin.fallbacks import RoutePreview, route_preview
from gw.admin.filtered_lists import NEWEST
from gw.admin.pages import SettingsPage, settings_page
from gw.admin.periods import BOUNDED, NAMES, ROLLING, STEPS
from gw.admin.request_models import Body, read
from gw.reconcile.reconciled import THRESHOLD, Reconciled
from gw.store.chunked_body import Encoded
from gw.types.entities import Action, AuditEntry, EntityType
from gw.types.gate_view import GateView
from gw.types.ids import MODALITIES, Modality
from gw.web.authorization import still_may
from gw.web.reply import NOT_CACHED, Reply
from gw.web.route import LOOKUP_LAG_S, READ_LAG_S, QueryField, Raw, Request, Route, Shape
from gw.web.routes_state import fleet_seen

_TEXT = {"type": "string"}
_DASHBOARD_LATENCY_PERIODS = ("today", "week", *ROLLING)


def limit_field(most: int, default: int, description: str) -> QueryField:
    return QueryField("limit", {"type": "integer", "minimum": 1, "maximum": most, "default": default}, description)


_TIME = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}]}
_BETWEEN = (
    QueryField("from", _TIME, "First time, in ISO 8601 (UTC unless it has an offset) or Unix seconds."),
    QueryField("to", _TIME, "The time after the last one; absent = now."),
)


def _period(*periods: str) -> tuple[QueryField, ...]:
    """Return the fields of a period: its name, or two times."""
    described = "UTC days including today (`week` is 7, `month` 30), or the time up to now (`15m` to `30d`). "
    described += "Absent = today, or what `from` and `to` say."
    return (QueryField("period", {"enum": list(periods)}, described), *_BETWEEN)


def _split(default: str) -> QueryField:
    return QueryField("by", {"enum": list(reports.SPLITS), "default": default}, "What each line stands for.")


_ANY_PERIOD, _PERIOD = _period(*NAMES), _period(*BOUNDED)
_STEP = QueryField("step", {"enum": list(STEPS)}, "Seconds between two points; absent = what suits the period.")
PROJECT = QueryField("project", _TEXT, "Only this project.")
_MODEL = QueryField("model", _TEXT, "Only this model id.")
TIMES = (QueryField("period", {"enum": list(NAMES)}, "Only this period, as in the reports; absent = all records."), *_BETWEEN)
_LOG_FILTERS = (
    QueryField("modality", {"enum": list(MODALITIES)}, "Only this modality."),
    PROJECT,
    QueryField("status", {"enum": list(logs.STATUSES)}, "Only this status."),
    _MODEL,
    QueryField("provider", _TEXT, "Only this provider id."),
    QueryField("error_code", _TEXT, "Only this error code."),
    QueryField("session", _TEXT, "Only this session id."),
    QueryField("turn", _TEXT, "Only this turn id."),
    QueryField("q", _TEXT, "Only ids that begin with this; if there are none, those that end with it."),
    QueryField(
        "sort", {"enum": list(logs.SORTS), "default": NEWEST},
        f"A figure, `-` = the largest first; among at most {logs.MOST_SORTED:,} requests.",
    ),
    QueryField("before", _TEXT, "The id of the last record of the previous page."),
    *TIMES,
)  # fmt: skip
FORMAT = QueryField(
    "format", {"enum": list(FORMATS)}, "All records as a file with times in ISO 8601, streamed; `limit` = at most so many.",
    makes_file=True,
)
_NEWEST_RECORDS = "How many records, newest first."
_LOG_QUERY = (limit_field(logs.MAX_RECORDS, logs.DEFAULT_RECORDS, _NEWEST_RECORDS), *_LOG_FILTERS, FORMAT)
_EXPORT_LIMIT = QueryField("limit", {"type": "integer", "minimum": 1}, "At most so many records; absent = all.")


class Bill(Body):
    """A vendor's usage: `rows` of the canonical form, or the `content` of a file, also as the vendor gives it out."""

    provider: str
    """openai, anthropic, groq, deepgram, assemblyai, cartesia or elevenlabs."""
    modality: Modality | None = None
    """Modality to compare, for a vendor that offers several; default: its usual one."""
    rows: list[dict[str, str | float | int | None]] | None = None
    content: str | None = None
    format: Literal["csv", "json"] = "csv"
    """Format of `content`."""
    start: str | None = None
    """First UTC day, as 2026-01-31."""
    end: str | None = None
    """Last UTC day, inclusive."""
    threshold: float = THRESHOLD
    """Percent of difference above which a row is flagged."""


async def reconcile(request: Request) -> Reconciled:
    """Compare what was recorded with a vendor's bill. Raises RequestError, StoreUnavailable."""
    from gw.reconcile.compare import compare  # a fiftieth of the start, for what is done once a month

    bill = read(request.body, Bill)
    suffix, text = ("json", json.dumps(bill.rows or [])) if bill.content is None else (bill.format, bill.content)
    with tempfile.TemporaryDirectory(prefix="gw-bill-") as folder:
        file = Path(folder) / f"usage.{suffix}"
        await trio.to_thread.run_sync(file.write_text, text)
        return await compare(
            request.gateway.store, request.catalog, provider=bill.provider, files=[file], modality=bill.modality,
            start=bill.start, end=bill.end, threshold=bill.threshold,
        )  # fmt: skip


async def log_page(request: Request) -> Encoded | Reply:
    query = request.query
    if (form := query.pop("format")) is not None:
        return await _log_file(request, form, query)
    return await logs.page(*request.records, **query)


async def log_csv(request: Request) -> Reply:
    return await _log_file(request, "csv", request.query)


async def _log_file(request: Request, form: str, query: dict[str, Any]) -> Reply:
    query["limit"] = wanted_rows(request)
    return as_file("requests", form, await logs.export(*request.records, form, **query))


def wanted_rows(request: Request) -> str | None:
    """Return the `limit` of a file; None = all rows, since the default is that of a page."""
    return next((value for name, value in request.fields if name == "limit"), None)


async def audit_log(request: Request) -> Reply | Sequence[AuditEntry]:
    query = request.query
    if (form := query.pop("format")) is not None:
        query["limit"] = wanted_rows(request)
        return as_file("audit-log", form, await logs.audit_export(request.gateway.store, request.gateway.clock.now(), form, **query))
    return await logs.audit_page(request.gateway.store, request.gateway.clock.now(), **query)


def as_file(name: str, form: str, body: RowExport) -> Reply:
    kind = b"application/json" if form == "json" else b"text/csv; charset=utf-8; header=present"
    disposition = f'attachment; filename="{name}.{form}"'.encode()
    return Reply(body, kind, [(b"content-disposition", disposition), NOT_CACHED])


async def dashboard_costs(request: Request) -> reports.Costs:
    costs = await reports.costs(*request.records, **request.query)
    if request.query["project"]:
        costs.by_project = UNSET
    return costs


def _gates(request: Request) -> Mapping[str, GateView]:
    return request.gateway.limits.view(trio.current_time())


async def latency_page(request: Request) -> pages.LatencyPage:
    query = request.query
    models = [name for name in (query.pop("model"), query.pop("other")) if name]
    warning_ms = request.gateway.settings.latency.ttfb_warning_ms
    return await pages.latency(*request.records, **query, models=models, ttfb_warning_ms=warning_ms)


async def settings(request: Request) -> SettingsPage:
    gateway, warnings = request.gateway, request.registrar.warnings
    seen = await fleet_seen(request) if gateway.bank is not None else None
    return await settings_page(
        gateway.settings, version=gateway.version, started_at=gateway.started_at, warnings=warnings, fleet=seen
    )


_ERRORS = (404, 422, 503)
_report = partial(Route, "GET", lag_s=READ_LAG_S, tag="Reports", errors=_ERRORS)
_dashboard = partial(Route, "GET", tag="Dashboard")
_chart = partial(_dashboard, lag_s=READ_LAG_S, errors=_ERRORS)


def _live(request: Request) -> Reply:
    may_look = partial(still_may, request.gateway, request.route.need, request.scope, request.projects)
    return request.plane.feed.reply(request.projects, may_look)


def _page(name: str, summary: str, handler: Any, answer: Shape, **fields: Any) -> Route:
    return _dashboard(f"/api/pages/{name}", f"page_{name}", summary, handler, answers=(answer,), **fields)


_COST_ROUTE: dict[str, Any] = {"query": (*_ANY_PERIOD, PROJECT), "answers": (reports.Costs,)}
_DATED = {"type": "object", "properties": {"timestamp": {"type": "string", "format": "date-time"}}}
FILES = (Raw("application/json", {"type": "array", "items": _DATED}), Raw("text/csv", {"type": "string"}))
"""Shapes of a list as a file."""
_LOG_ROUTE: dict[str, Any] = {"query": _LOG_QUERY, "answers": (list[logs.LogRecord], *FILES)}
_LATENCIES = (dict[str, reports.ModelLatency],)

REPORTS = (
    _report(
        "/v1/costs", "costs", "Costs by provider, model, project and modality.",
        lambda r: reports.costs(*r.records, **r.query), **_COST_ROUTE,
    ),
    _report(
        "/v1/latency", "latency", "Time to first byte and total time per model id; `{}` without requests.",
        lambda r: reports.latency(*r.records, **r.query), query=(*_PERIOD, PROJECT), answers=_LATENCIES,
    ),
    _report(
        "/v1/first-audio", "first_audio", "From the caller's last word to the first sound of the answer, by turns.",
        lambda r: first_audio_reports.report(*r.records, **r.query), query=(*_PERIOD, _STEP, PROJECT),
        answers=(first_audio_reports.FirstAudioReport,), notes="Over time, by the models of the stages, and by project.",
    ),
    _report("/v1/logs", "logs", "Log records, newest first.", log_page, **_LOG_ROUTE),
    Route(
        "GET", "/v1/requests/{record_id}", "request",
        "One log record, with the requested model and both counts of its usage.",
        lambda r: logs.request_detail(r.gateway.store, r.name), tag="Reports", lag_s=LOOKUP_LAG_S,
        answers=(logs.RequestDetail,), errors=(404, 503),
    ),
    Route(
        "GET", "/v1/audit-log", "audit_log", "Changes made through the API, newest first.",
        audit_log, tag="Reports",
        query=(
            limit_field(logs.MAX_ENTRIES, logs.DEFAULT_ENTRIES, "How many entries."),
            QueryField("entity_type", {"enum": list(get_args(EntityType))}, "Only this kind of entity."),
            QueryField("entity_id", _TEXT, "Only the entity with this id."),
            QueryField("action", {"enum": list(get_args(Action))}, "Only this kind of change."),
            QueryField("before", {"type": "integer", "minimum": 0}, "The id of the last entry of the previous page."),
            *TIMES,
            FORMAT,
        ),
        answers=(list[AuditEntry], *FILES), errors=(422, 503),
    ),
)  # fmt: skip

DASHBOARD = (
    _dashboard(
        "/api/status", "dashboard_status", "Providers, models and fallback chains.",
        lambda r: listings.dashboard_status(r.catalog), answers=(listings.DashboardStatus,),
    ),
    _chart(
        "/api/costs", "dashboard_costs", "As `/v1/costs`; `by_project` only without a project.", dashboard_costs, **_COST_ROUTE
    ),
    _chart(
        "/api/latency", "dashboard_latency", "As `/v1/latency`.",
        lambda r: reports.latency(*r.records, **r.query, allowed=_DASHBOARD_LATENCY_PERIODS),
        query=(*_period(*_DASHBOARD_LATENCY_PERIODS), PROJECT), answers=_LATENCIES,
    ),
    _chart("/api/logs", "dashboard_logs", "As `/v1/logs`.", log_page, **_LOG_ROUTE),
    _dashboard(
        "/api/projects", "dashboard_projects", "As `/v1/projects`.", lambda r: listings.projects(*r.records),
        lag_s=READ_LAG_S, answers=(listings.Projects,), errors=(503,),
    ),
    _dashboard(
        "/api/live", "live", "Requests as they run and finish.", _live,
        answers=(Raw("text/event-stream", {}),), errors=(503,),
        notes="Server-sent events. `running` comes first and lists the requests in flight; `started` is one call of a "
              "provider (a fallback is another one, with a higher `attempt`); `finished` is a log record. A client that does "
              "not read in time gets `dropped` with the number of events it has missed, and is disconnected. The stream ends within a "
              "second when the session or the token ends, or its role changes.",
    ),
)  # fmt: skip

CHARTS = (
    _chart(
        "/api/overview", "overview",
        "The first page: a period compared with the one before, today with yesterday at this time, every budget.",
        lambda r: overview.overview(
            *r.records, **r.query, spent=r.gateway.ledger.spent_in_fleet, active=r.gateway.requests_in_flight
        ),
        query=(*_PERIOD, PROJECT), answers=(overview.Overview,),
    ),
    _chart(
        "/api/series", "series",
        "A figure over time, split by provider, model, project or modality.",
        lambda r: reports.series(*r.records, **r.query),
        query=(
            QueryField("metric", {"enum": list(reports.METRICS), "default": "requests"}, "What is drawn."),
            *_PERIOD, _STEP, _split("none"), PROJECT, _MODEL,
        ),
        answers=(reports.CountSeries, reports.TimeSeries),
    ),
    _chart(
        "/api/histogram", "histogram", "Distribution of one model's times; `model` is needed.",
        lambda r: reports.histogram(*r.records, **r.query), query=(_MODEL, *_PERIOD, PROJECT),
        answers=(reports.ModelHistogram,),
    ),
    _chart(
        "/api/forecast", "forecast", "Forecast of the UTC month's cost, per project and in total, with the budgets.",
        lambda r: forecast.forecast(*r.records, **r.query), query=(PROJECT,), answers=(forecast.Forecast,),
        notes="Each coming day is expected to cost the mean of the same weekdays of the last four weeks.",
    ),
    _dashboard(
        "/api/reliability", "reliability",
        "Outcomes of each provider's calls, its breaker and token bucket now, and where requests fell back to.",
        lambda r: reliability.reliability(*r.records, **r.query, gates=_gates(r)),
        lag_s=READ_LAG_S, query=_PERIOD, answers=(reliability.Reliability,), errors=(422, 503),
        notes="One bar per UTC hour, for `month` per day.",
    ),
    _chart(
        "/api/logs.csv", "logs_csv",
        "As `/v1/logs?format=csv`, for spreadsheets; text that they would run as a formula has a leading quote.",
        log_csv, query=(_EXPORT_LIMIT, *_LOG_FILTERS), answers=(Raw("text/csv", {"type": "string"}),),
    ),
    _page(
        "providers", "Providers, and the provider types.", lambda r: pages.providers(r.registrar), pages.ProvidersPage
    ),
    _page(
        "models", "Models with their prices, and the fallback chains.",
        lambda r: pages.models(r.registrar, r.gateway.book, r.gateway.clock.now()), pages.ModelsPage,
    ),
    _page(
        "projects", "Projects with today's costs, and the stacks.",
        lambda r: pages.projects(r.registrar, r.catalog, r.gateway.clock.now(), spent_in=r.gateway.ledger.spent_in), pages.ProjectsPage,
        lag_s=READ_LAG_S, errors=(503,),
    ),
    _page(
        "keys", "Keys, and the projects a new one can be for.",
        lambda r: pages.access_keys(r.registrar, r.catalog, spent_in=r.gateway.ledger.key_spent), pages.KeysPage,
    ),
    _page("playground", "What can be tried.", lambda r: pages.playground(r.gateway.settings, r.catalog), pages.PlaygroundPage),
    _page(
        "settings", "The configuration in force, each value with its origin (secrets are masked), and the fleet.", settings,
        SettingsPage,
    ),
    _page(
        "costs", "Costs in groups and over time, and the forecast of the month.",
        lambda r: pages.costs(*r.records, **r.query), pages.CostsPage,
        lag_s=READ_LAG_S, query=(*_PERIOD, _STEP, _split("model"), PROJECT), errors=_ERRORS,
    ),
    _page(
        "latency", "Percentiles of every model, and lines and histograms of one or two.", latency_page, pages.LatencyPage,
        lag_s=READ_LAG_S,
        query=(
            QueryField("metric", {"enum": list(reports.TIMES), "default": "ttfb"}, "What is drawn."),
            *_PERIOD,
            _STEP,
            PROJECT,
            QueryField("model", _TEXT, "The model to draw; absent = the one with the most requests."),
            QueryField("other", _TEXT, "A second model, for comparison."),
        ),
        errors=_ERRORS,
    ),
    _dashboard(
        "/api/route", "route", "Which candidates would be tried for a request now, and why others would be skipped.",
        lambda r: route_preview(r.catalog, _gates(r), r.gateway.relay.resolve, **r.query),
        query=(
            QueryField("modality", {"enum": list(MODALITIES), "default": "llm"}, "Modality of the request."),
            QueryField("model", _TEXT, "As a caller would write it; empty is the project's default."),
            QueryField("project", {"type": "string", "default": "default"}, "The project that would send it."),
        ),
        answers=(RoutePreview,), errors=(404, 422),
    ),
)  # fmt: skip

RECONCILE = Route(
    "POST", "/v1/reconcile", "reconcile", "Compare what was recorded with a vendor's usage export, model by model.",
    reconcile, tag="Reports", lag_s=READ_LAG_S, body=Bill, large_body=True, answers=(Reconciled,), errors=(422, 503),
    notes="`rows` in the vendor's canonical form (docs/reconcile.md), or the `content` of such a file.",
)  # fmt: skip
