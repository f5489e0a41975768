"""The routes of the control plane: specification sections 4.1 and 4.2, and what the gateway has beyond them."""

from __future__ import annotations

from typing import Any, get_args

from gw.admin import audit, fallbacks, keys, listings, logs, models, projects, providers, reports
from gw.admin.arguments import PERIODS, SHORT_PERIODS
from gw.admin.provider_check import ProviderHealth
from gw.admin.registrar import Deleted
from gw.types.entities import Action, AuditEntry, EntityType
from gw.web import schemas_entities
from gw.web.asking import ASKING
from gw.web.operations import Field, Operation, Raw, Table
from gw.web.routes_data_plane import DATA_PLANE
from gw.web.routes_pages import PAGES
from gw.web.routes_reports import DASHBOARD_REPORTS, LOG_FIELDS
from gw.web.site import Front

_PROJECT = Field("project", {"type": "string"}, "Only what belongs to this project.")
_CONFIRM = Field(
    "confirm",
    {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|0|1)$", "default": "false"},
    "true, false, 1 or 0 in any case. Without it nothing is deleted and the answer says what would be.",
)
_CASCADE = Field(
    "cascade",
    {**_CONFIRM.schema},
    "As `confirm`: let the provider's models go too. Without it a provider that has models is refused.",
)

def _period(*periods: str) -> Field:
    what = "UTC days including today: `week` is 7, `month` 30."
    return Field("period", {"enum": list(periods), "default": "today"}, what)


_LOGS: dict[str, Any] = {"query": LOG_FIELDS, "answers": (list[logs.LogRecord],), "errors": (404, 422, 503)}
_COSTS: dict[str, Any] = {
    "query": (_period(*PERIODS), _PROJECT),
    "answers": (reports.Costs,),
    "errors": (404, 422, 503),
}
_LATENCY: dict[str, Any] = {"answers": (dict[str, reports.ModelLatency],), "errors": (404, 422, 503)}

STATE = (
    Operation(
        id="front", method="GET", path="/", tag="State", right="public",
        what="The dashboard for who accepts `text/html`, else the health object.",
        answers=(Front, Raw("text/html", {"type": "string"})), errors=(503,),
    ),
    Operation(
        id="health", method="GET", path="/health", tag="State", right="public",
        what="Whether the gateway runs.", answers=(reports.GatewayHealth,),
    ),
    Operation(
        id="ready", method="GET", path="/ready", tag="State", right="public",
        what="Whether new work should be sent here; 503 while draining, or while records could be lost.",
        answers=(reports.Ready,), errors=(503,), more="503 has the same body.",
    ),
    Operation(
        id="openapi", method="GET", path="/v1/openapi.json", tag="State", right="public",
        what="This document.", answers=(Raw("application/json", {"type": "object"}),),
    ),
    Operation(
        id="metrics", method="GET", path="/v1/metrics", tag="State", right="metrics",
        what="Prometheus text exposition.", answers=(Raw("text/plain", {"type": "string"}),),
        more="Open to this machine when the gateway is bound to loopback.",
    ),
    Operation(
        id="status", method="GET", path="/v1/status", tag="State",
        what="Providers, and how many models and projects there are.", answers=(listings.GatewayStatus,),
    ),
)  # fmt: skip

REPORTS = (
    Operation(id="costs", method="GET", path="/v1/costs", tag="Reports", what="What was spent, by provider, model, "
              "project and modality.", **_COSTS),
    Operation(id="latency", method="GET", path="/v1/latency", tag="Reports", what="Time to first byte and total time "
              "per model id; `{}` when nothing was asked.", query=(_period(*SHORT_PERIODS), _PROJECT),
              **_LATENCY),
    Operation(id="logs", method="GET", path="/v1/logs", tag="Reports", what="Log records, the newest first.", **_LOGS),
    Operation(id="request", method="GET", path="/v1/requests/{record_id}", tag="Reports",
              what="One log record with what was asked for and both counts of its usage.",
              answers=(logs.RequestDetail,), errors=(404, 503)),
    Operation(
        id="audit_log", method="GET", path="/v1/audit-log", tag="Reports",
        what="Changes made through the API, the newest first.",
        query=(
            Field("limit", {"type": "integer", "minimum": 1, "maximum": audit.MAX_ENTRIES, "default": audit.DEFAULT_ENTRIES},
                  "How many entries."),
            Field("entity_type", {"enum": list(get_args(EntityType))}, "Only this kind of entity."),
            Field("entity_id", {"type": "string"}, "Only the entity of this id."),
            Field("action", {"enum": list(get_args(Action))}, "Only this kind of change."),
            Field("before", {"type": "integer", "minimum": 0}, "The id of the last entry of the page read before."),
        ),
        answers=(list[AuditEntry],), errors=(422, 503),
    ),
)  # fmt: skip

MANAGED = (
    Operation(
        id="list_models", method="GET", path="/v1/models", tag="Models", right="data", also=("/openai/v1/models",),
        what="All models.", query=(Field("project", {"type": "string"}, "Only those of this project's default stack."),),
        answers=(listings.ModelList, Raw("application/json", {"type": "array", "items": {"type": "object"}})),
        errors=(404,),
    ),
    Operation(id="create_model", method="POST", path="/v1/models", tag="Models", what="Add a model.",
              body=models.CreateModel, answers=(models.ModelCreated,), errors=(404, 409, 422, 503)),
    Operation(id="get_model", method="GET", path="/v1/models/{model_id}", tag="Models", right="data",
              also=("/openai/v1/models/{model_id}",), what="One model, by its id or an alias.",
              answers=(listings.OneModel,), errors=(404,)),
    Operation(id="update_model", method="PATCH", path="/v1/models/{model_id}", tag="Models", what="Change a model.",
              body=models.UpdateModel, answers=(models.ModelUpdated,), errors=(404, 422, 503)),
    Operation(id="delete_model", method="DELETE", path="/v1/models/{model_id}", tag="Models", what="Delete a model.",
              query=(_CONFIRM,), answers=(models.ModelPreview, Deleted), errors=(404, 422, 503)),
    Operation(id="list_projects", method="GET", path="/v1/projects", tag="Projects", what="All projects and their day.",
              answers=(listings.Projects,), errors=(503,)),
    Operation(id="create_project", method="POST", path="/v1/projects", tag="Projects", what="Add a project.",
              body=projects.CreateProject, answers=(projects.ProjectCreated,), errors=(409, 422, 503)),
    Operation(id="get_project", method="GET", path="/v1/projects/{project_id}", tag="Projects",
              what="One project with its day so far.", answers=(listings.ProjectDetail,), errors=(404, 503)),
    Operation(id="update_project", method="PATCH", path="/v1/projects/{project_id}", tag="Projects",
              what="Change a project.", body=projects.UpdateProject, answers=(projects.ProjectUpdated,),
              errors=(404, 422, 503)),
    Operation(id="delete_project", method="DELETE", path="/v1/projects/{project_id}", tag="Projects",
              what="Delete a project, and its keys with it.", query=(_CONFIRM,),
              answers=(projects.ProjectPreview, Deleted), errors=(404, 422, 503)),
    Operation(id="list_providers", method="GET", path="/v1/providers", tag="Providers", what="All providers.",
              answers=(listings.Providers,)),
    Operation(id="create_provider", method="POST", path="/v1/providers", tag="Providers", what="Add a provider.",
              body=providers.CreateProvider, answers=(providers.ProviderCreated,), errors=(409, 422, 503)),
    Operation(id="get_provider", method="GET", path="/v1/providers/{provider_id}", tag="Providers",
              what="One provider.", answers=(listings.ProviderEntry,), errors=(404,)),
    Operation(id="update_provider", method="PATCH", path="/v1/providers/{provider_id}", tag="Providers",
              what="Change a provider.", body=providers.UpdateProvider, answers=(providers.ProviderUpdated,),
              errors=(400, 404, 422, 500, 503),
              more="A stored key goes to another host only with a new `api_key`, or where "
                   "`serve.provider_base_url_hosts` lists the host: else 400."),
    Operation(id="delete_provider", method="DELETE", path="/v1/providers/{provider_id}", tag="Providers",
              what="Delete a provider.", query=(_CONFIRM, _CASCADE),
              answers=(providers.ProviderPreview, Deleted), errors=(404, 409, 422, 503)),
    Operation(id="test_provider", method="POST", path="/v1/providers/{provider_id}/test", tag="Providers",
              what="Ask the provider one cheap thing, within 10 s.", answers=(ProviderHealth,), errors=(404, 422)),
    Operation(id="list_keys", method="GET", path="/v1/keys", tag="Keys", what="All project keys, masked.",
              answers=(keys.Keys,)),
    Operation(id="create_key", method="POST", path="/v1/keys", tag="Keys", what="Make a key for a project.",
              body=keys.CreateKey, answers=(keys.MadeKey,), errors=(404, 422, 503),
              more="The key stands in this answer and nowhere else."),
    Operation(id="revoke_key", method="DELETE", path="/v1/keys/{key_id}", tag="Keys", what="Revoke a key.",
              query=(_CONFIRM,), answers=(keys.KeyPreview, Deleted), errors=(404, 422, 503)),
    Operation(id="list_fallbacks", method="GET", path="/v1/fallbacks", tag="Fallbacks",
              what="The fallback chain of each modality.", answers=(fallbacks.Chains,)),
    Operation(id="set_fallbacks", method="PUT", path="/v1/fallbacks/{modality}", tag="Fallbacks",
              what="Set a chain; it goes before the one of gw.yaml.", body=fallbacks.SetChain,
              answers=(fallbacks.SetChainAnswer,), errors=(422, 503)),
    Operation(id="reset_fallbacks", method="DELETE", path="/v1/fallbacks/{modality}", tag="Fallbacks",
              what="Put the chain of gw.yaml in force again.", answers=(fallbacks.SetChainAnswer,),
              errors=(422, 503)),
)  # fmt: skip

DASHBOARD = (
    Operation(id="dashboard_status", method="GET", path="/api/status", tag="Dashboard",
              what="Providers, models and fallback chains.", answers=(listings.DashboardStatus,)),
    Operation(id="dashboard_costs", method="GET", path="/api/costs", tag="Dashboard",
              what="As `/v1/costs`; `by_project` only without a project.", **_COSTS),
    Operation(id="dashboard_latency", method="GET", path="/api/latency", tag="Dashboard", what="As `/v1/latency`.",
              query=(_period("today", "week"), _PROJECT), **_LATENCY),
    Operation(id="dashboard_logs", method="GET", path="/api/logs", tag="Dashboard", what="As `/v1/logs`.", **_LOGS),
    Operation(id="dashboard_projects", method="GET", path="/api/projects", tag="Dashboard", what="As `/v1/projects`.",
              answers=(listings.Projects,), errors=(503,)),
    Operation(
        id="live", method="GET", path="/api/live", tag="Dashboard", what="Running and finished requests as they happen.",
        answers=(Raw("text/event-stream", {}),), errors=(503,),
        more="Server-sent events. `running` comes first and lists what runs; `started` is one call of a provider (a "
             "fallback brings another, with a higher `attempt`); `finished` is a log record. A client that does not "
             "read in time gets `dropped` with the number of events it has missed, and is disconnected.",
    ),
    Operation(id="login", method="POST", path="/api/login", tag="Dashboard", right="public",
              what="Exchange the admin token for a session cookie.", body=schemas_entities.Login,
              answers=(schemas_entities.LoginAnswer,), errors=(401, 403, 422, 429),
              more="The cookie lasts 7 days. After ten failed attempts from one address in a minute: 429."),
    Operation(id="logout", method="POST", path="/api/logout", tag="Dashboard", right="public", what="End the session.",
              answers=(schemas_entities.LogoutAnswer,), errors=(422,)),
    Operation(id="session", method="GET", path="/api/session", tag="Dashboard", right="public",
              what="Who asks, and whether a credential is needed.", answers=(schemas_entities.SessionState,)),
)  # fmt: skip

TABLE = Table((*STATE, *MANAGED, *REPORTS, *DASHBOARD, *DASHBOARD_REPORTS, *PAGES, *ASKING, *DATA_PLANE))
