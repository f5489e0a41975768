"""The shapes of the control plane's answers, as msgspec structs: for the OpenAPI document, never made at run time.

The use cases make plain dicts; a contract test holds every one of them to its shape here. A class docstring becomes the
schema's description.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gw.types.entities import Action, ActorSource, EntityType
from gw.types.ids import Modality, Source
from gw.types.project import BudgetAction, BudgetStatus
from gw.types.usage import Status, Unit, Usage

Usd = Annotated[float, Meta(description="USD")]
Ms = Annotated[float, Meta(description="Milliseconds")]
When = Annotated[float, Meta(description="Unix seconds")]
Location = Literal["cloud", "local"]


class Schema(msgspec.Struct, kw_only=True):
    """What all shapes are."""


class ErrorDetail(Schema):
    """Further members carry the facts of the error, such as `provider`, `retry_after_s` or `available`."""

    type: str
    code: str
    message: str
    param: str | None
    request_id: str


class Error(Schema):
    """The one error body everywhere outside vendors' dialects."""

    error: ErrorDetail


class Health(Schema):
    status: Literal["ok", "degraded"]
    uptime_seconds: float
    version: str


class Front(Health):
    """The health object, and whether there is a dashboard to show. `ok` is always true: Cartesia's SDK looks for it."""

    ok: bool
    dashboard: str


class ReadyChecks(Schema):
    records: Literal["ok", "degraded"]
    draining: bool


class Ready(Schema):
    status: Literal["ready", "not_ready", "draining"]
    checks: ReadyChecks


class ProviderState(Schema):
    configured: bool
    type: Location


class GatewayStatus(Schema):
    providers: dict[str, ProviderState]
    model_count: int
    project_count: int


class ModelEntry(Schema):
    """`modality` is the first that the id serves, `modalities` are all."""

    modality: Modality
    provider: str
    model: str
    modalities: list[Modality]


class ListedModel(Schema):
    """As OpenAI's, Groq's and Anthropic's SDKs read it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["model"]
    display_name: str
    created_at: str


class SpeechModel(Schema):
    """As Deepgram's SDK reads it."""

    name: str
    canonical_name: str
    architecture: str
    languages: list[str]


class ModelList(Schema):
    """One body for many readers: `models` is the gateway's own map, `data` is for OpenAI's, Groq's and Anthropic's SDKs,
    `stt` and `tts` for Deepgram's. A request with an `xi-api-key` header gets a bare array, as ElevenLabs' SDK wants it."""

    object: Literal["list"]
    data: list[ListedModel]
    has_more: bool
    first_id: str | None
    last_id: str | None
    models: dict[str, ModelEntry]
    project: str | None
    stt: list[SpeechModel]
    tts: list[SpeechModel]


class OneModel(ListedModel):
    """For SDKs and the gateway's own clients alike."""

    modality: Modality
    provider: str
    model: str
    modalities: list[Modality]
    source: Source


class CostGroup(Schema):
    cost: Usd
    requests: int


class Costs(Schema):
    """Groups are ordered by cost, the dearest first. `unpriced_requests` have no known price and count 0 in `total`;
    `wasted` is the part of `total` that was paid and reached nobody."""

    period: Literal["today", "week", "month", "all"]
    project: str | None
    total: Usd
    requests: int
    unpriced_requests: int
    wasted: Usd
    by_provider: dict[str, CostGroup]
    by_model: dict[str, CostGroup]
    by_modality: dict[str, CostGroup]
    by_project: dict[str, CostGroup] | msgspec.UnsetType = msgspec.UNSET
    """Left out of the dashboard's answer when it is about one project."""


class Percentiles(Schema):
    p50: Ms | None
    p95: Ms | None
    p99: Ms | None


class ModelLatency(Schema):
    avg_ttfb_ms: float | None
    avg_latency_ms: float | None
    request_count: int
    ttfb_percentiles: Percentiles
    latency_percentiles: Percentiles


class ProjectEntry(Schema):
    id: str
    project_id: str
    name: str
    description: str
    daily_budget: Usd
    budget_action: BudgetAction
    default_stack: str
    tags: list[str]
    accent: Annotated[str, Meta(pattern="^#[0-9a-fA-F]{6}$")]
    source: Source


class ProjectStats(Schema):
    cost_today: Usd
    requests_today: int


class Projects(Schema):
    projects: list[ProjectEntry]
    stats: dict[str, ProjectStats]


class ProjectCosts(Schema):
    total: Usd
    by_provider: dict[str, CostGroup]
    by_model: dict[str, CostGroup]


class ProjectDetail(ProjectEntry):
    today_spend: Usd
    budget_status: BudgetStatus
    today: ProjectStats
    costs_today: ProjectCosts


class ProviderEntry(Schema):
    """`key_error` says why the stored key cannot be used."""

    provider_id: str
    source: Source
    api_key_masked: str
    base_url: str | None
    provider_type: str
    type: Location
    configured: bool
    enabled: bool
    key_error: str | None


class Providers(Schema):
    providers: list[ProviderEntry]


class TestResult(Schema):
    """A provider that cannot be reached or refuses the key is `failed`, and the answer still a 200."""

    status: Literal["ok", "failed"]
    latency_ms: int
    message: str


class Attempt(Schema):
    """One upstream call, or a candidate that was passed over. Times count from the request's start. `cost_usd` is its part of
    the request's cost, where more than one may have had a part."""

    model_id: str
    outcome: str
    started_ms: float
    duration_ms: float
    ttfb_ms: float | None
    error_code: str | None
    upstream_status: int | None
    cost_usd: float | None


class LogRecord(Schema):
    """`cost_usd` is null where no price is known. `wasted_units` of the `unit` and `wasted_usd` of the cost reached nobody."""

    id: str
    timestamp: When
    project: str
    modality: Modality
    model_id: str
    provider: str
    cost_usd: float | None
    total_latency_ms: float
    ttfb_ms: float | None
    gateway_ms: float | None
    status: Status
    input_units: float
    output_units: float
    cached_input_units: float
    unit: Unit
    wasted_units: float
    wasted_usd: float | None
    pricing_source: str
    fallback_from: str | None
    attempts: list[Attempt]
    error_code: str | None
    stream: bool
    session_id: str | None
    turn_id: str | None
    key_id: str | None


class RequestDetail(LogRecord):
    """`usage` counts; `measured_usage` is the gateway's own count where `usage` is the vendor's."""

    requested_model: str
    endpoint: str
    usage: Usage
    measured_usage: Usage | None


class AuditItem(Schema):
    """`changes`: field → value, or for an update `{"from": …, "to": …}`; keys are redacted."""

    id: int
    timestamp: When
    entity_type: EntityType
    entity_id: str
    action: Action
    changes: dict[str, Any]
    source: ActorSource
    actor: str


class DashboardModel(Schema):
    modality: Modality
    provider: str


class DashboardStatus(Schema):
    providers: dict[str, ProviderState]
    models: dict[str, DashboardModel]
    fallbacks: dict[Modality, list[str]]
