"""Routes of providers, models, projects, keys and fallback chains. The use cases in `gw.admin` check the bodies."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from gw.admin import fallbacks, keys, listings, models, projects, pronunciations, providers, voice_list
from gw.admin.providers import ProviderHealth, check_provider
from gw.admin.registrar import Deleted
from gw.dialects import model_lookup
from gw.errors import ForbiddenError
from gw.types.ids import MODALITIES
from gw.web.route import READ_LAG_S, QueryField, Raw, Request, Route

_PAGE = {"type": "integer", "minimum": 1, "maximum": listings.MOST_LISTED}
_BOOLEAN = {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|0|1)$", "default": "false"}
_CONFIRM = QueryField(
    "confirm", _BOOLEAN, "true, false, 1 or 0 in any case. Without it nothing is deleted; the answer says what would be."
)
_CASCADE = QueryField(
    "cascade", _BOOLEAN, "As `confirm`: delete the provider's models too. Without it a provider with models is refused."
)
_VERSION = QueryField("api-version", {"type": "string"}, "Sent by Azure's clients; changes nothing.")


def _view_of(request: Request) -> listings.KeyView | None:
    """Return what the caller's key sees of the models; None for a caller without a key, and for a key that may use all."""
    holder = request.principal
    return None if holder is None or holder.project is None else listings.view_of(request.catalog, holder.project, holder.limits)


def list_models(request: Request) -> object:
    project, view = request.query["project"], _view_of(request)
    if request.header(b"xi-api-key"):
        return listings.models_bare(request.catalog, project=project, view=view)
    chosen = {name: request.query[name] for name in ("modality", "limit", "after_id", "before_id")}
    return listings.models(request.catalog, request.gateway.started_at, project=project, view=view, **chosen)


def update_project(request: Request) -> Awaitable[projects.ProjectUpdated]:
    """Change a project. What is captured is decided by those who may read it. Raises ForbiddenError."""
    access = request.principal.access if request.principal is not None else None
    if "capture" in request.body and access is not None and not access.capture:
        raise ForbiddenError(what="to change what is captured needs the right to read captured content")
    return projects.update(request.registrar, request.name, request.body, request.actor)


_models, _projects, _providers, _keys, _fallbacks = (
    partial(Route, tag=tag) for tag in ("Models", "Projects", "Providers", "Keys", "Fallbacks")
)

ENTITIES = (
    _models(
        "GET", "/v1/models", "list_models", "All models.", list_models,
        aliases=("/openai/v1/models", "/openai/models"), notes="A key gets those that it may use.",
        query=(
            QueryField("project", {"type": "string"}, "Only those of this project's default stack."),
            QueryField("modality", {"enum": list(MODALITIES)}, "Only this modality."),
            QueryField("limit", _PAGE, "Entries of `data` at most; absent = all."),
            QueryField("after_id", {"type": "string"}, "Only entries of `data` after this id."),
            QueryField("before_id", {"type": "string"}, "Only entries of `data` before this id, the last ones of them."),
            _VERSION,
        ),
        answers=(listings.ModelList, Raw("application/json", {"type": "array", "items": {"type": "object"}})), errors=(404, 422),
    ),
    _models(
        "POST", "/v1/models", "create_model", "Add a model.", lambda r: models.create(r.registrar, r.body, r.actor),
        body=models.CreateModel, answers=(models.ModelCreated,), errors=(404, 409, 422, 503),
    ),
    _models(
        "GET", "/v1/models/{model_id}", "get_model", "One model, by any name that requests may have.",
        lambda r: model_lookup.find(r.gateway, model_lookup.reader(r.gateway, r.scope), r.name, _view_of(r)),
        notes="A name that is not listed is found where the price tables know it at the vendor that a request with it would go to.",
        aliases=("/openai/v1/models/{model_id}", "/openai/models/{model_id}"), query=(_VERSION,),
        answers=(listings.OneModel,), errors=(404,),
    ),
    _models(
        "PATCH", "/v1/models/{model_id}", "update_model", "Change a model.",
        lambda r: models.update(r.registrar, r.name, r.body, r.actor),
        body=models.UpdateModel, answers=(models.ModelUpdated,), errors=(404, 422, 503),
    ),
    _models(
        "DELETE", "/v1/models/{model_id}", "delete_model", "Delete a model.",
        lambda r: models.delete(r.registrar, r.name, confirm=r.flag("confirm"), by=r.actor),
        query=(_CONFIRM,), answers=(models.ModelPreview, Deleted), errors=(404, 422, 503),
    ),
    _models(
        "GET", "/v1/tts/voices", "list_voices", "The voices of every model that speaks, and the gaps in fallback chains.",
        lambda r: voice_list.voices(r.catalog), answers=(voice_list.Voices,),
        notes="`/v1/voices` lists the same aliases in the protocol of ElevenLabs.",
    ),
    _projects(
        "GET", "/v1/projects", "list_projects", "All projects, with today's cost and requests.",
        lambda r: listings.projects(*r.records), lag_s=READ_LAG_S, answers=(listings.Projects,), errors=(503,),
    ),
    _projects(
        "POST", "/v1/projects", "create_project", "Add a project.",
        lambda r: projects.create(r.registrar, r.body, r.actor),
        body=projects.CreateProject, answers=(projects.ProjectCreated,), errors=(409, 422, 503),
    ),
    _projects(
        "GET", "/v1/projects/{project_id}", "get_project", "One project, with today's costs.",
        lambda r: listings.project(*r.records, project_id=r.name, spent_in=r.gateway.ledger.spent_in),
        lag_s=READ_LAG_S, answers=(listings.ProjectDetail,), errors=(404, 503),
    ),
    _projects(
        "PATCH", "/v1/projects/{project_id}", "update_project", "Change a project.",
        update_project,
        body=projects.UpdateProject, answers=(projects.ProjectUpdated,), errors=(404, 422, 503),
    ),
    _projects(
        "DELETE", "/v1/projects/{project_id}", "delete_project", "Delete a project and its keys.",
        lambda r: projects.delete(r.registrar, r.name, confirm=r.flag("confirm"), by=r.actor),
        query=(_CONFIRM,), answers=(projects.ProjectPreview, Deleted), errors=(404, 422, 503),
    ),
    _projects(
        "GET", "/v1/projects/{project_id}/pronunciations", "list_pronunciations", "How a project's words are spoken.",
        lambda r: pronunciations.pronunciations_of(r.catalog, r.name), answers=(pronunciations.ProjectPronunciations,), errors=(404,),
    ),
    _projects(
        "PUT", "/v1/projects/{project_id}/pronunciations", "replace_pronunciations",
        "Put another table of pronunciations in place of a project's.",
        lambda r: pronunciations.replace(r.registrar, r.name, r.body, r.actor),
        body=pronunciations.ReplacePronunciations, answers=(pronunciations.ProjectPronunciations,), errors=(404, 422, 503),
    ),
    _providers(
        "GET", "/v1/providers", "list_providers", "All providers.", lambda r: listings.providers(r.catalog),
        answers=(listings.Providers,),
    ),
    _providers(
        "POST", "/v1/providers", "create_provider", "Add a provider.",
        lambda r: providers.create(r.registrar, r.body, r.actor),
        body=providers.CreateProvider, answers=(providers.ProviderCreated,), errors=(409, 422, 503),
    ),
    _providers(
        "GET", "/v1/providers/{provider_id}", "get_provider", "One provider.",
        lambda r: listings.provider(r.catalog.provider(r.name)), answers=(listings.ProviderEntry,), errors=(404,),
    ),
    _providers(
        "PATCH", "/v1/providers/{provider_id}", "update_provider", "Change a provider.",
        lambda r: providers.update(r.registrar, r.name, r.body, r.actor),
        body=providers.UpdateProvider, answers=(providers.ProviderUpdated,), errors=(400, 404, 422, 500, 503),
        notes="A stored key is sent to another host only with a new `api_key`, or where "
              "`serve.provider_base_url_hosts` lists the host: else 400.",
    ),
    _providers(
        "DELETE", "/v1/providers/{provider_id}", "delete_provider", "Delete a provider.",
        lambda r: providers.delete(
            r.registrar, r.name, confirm=r.flag("confirm"), cascade=r.flag("cascade"), by=r.actor
        ),
        query=(_CONFIRM, _CASCADE), answers=(providers.ProviderPreview, Deleted), errors=(404, 409, 422, 503),
    ),
    _providers(
        "POST", "/v1/providers/{provider_id}/test", "test_provider", "Send the provider one cheap request, within 10 s.",
        lambda r: check_provider(r.catalog.provider(r.name), r.gateway.pool), answers=(ProviderHealth,), errors=(404, 422),
    ),
    _keys(
        "GET", "/v1/keys", "list_keys", "All project keys, masked.",
        lambda r: keys.listing(r.registrar, r.gateway.ledger.key_spent, r.projects),
        answers=(keys.Keys,),
    ),
    _keys(
        "POST", "/v1/keys", "create_key", "Make a key for a project.", lambda r: keys.create(r.registrar, r.body, r.actor),
        body=keys.CreateKey, answers=(keys.MadeKey,), errors=(404, 422, 503),
        notes="Only this answer contains the key.",
    ),
    _keys(
        "GET", "/v1/keys/{key_id}", "get_key", "One key, masked, with its limits and what it has spent.",
        lambda r: keys.one(r.registrar, r.name, r.gateway.ledger.key_spent), answers=(keys.KeyEntry,), errors=(404,),
    ),
    _keys(
        "PATCH", "/v1/keys/{key_id}", "update_key", "Change the name, the expiry or the limits of a key.",
        lambda r: keys.update(r.registrar, r.name, r.body, r.actor),
        body=keys.UpdateKey, answers=(keys.KeyUpdated,), errors=(404, 422, 503),
    ),
    _keys(
        "DELETE", "/v1/keys/{key_id}", "revoke_key", "Revoke a key.",
        lambda r: keys.revoke(r.registrar, r.name, confirm=r.flag("confirm"), by=r.actor),
        query=(_CONFIRM,), answers=(keys.KeyPreview, Deleted), errors=(404, 422, 503),
    ),
    _fallbacks(
        "GET", "/v1/fallbacks", "list_fallbacks", "The fallback chain of each modality.",
        lambda r: fallbacks.listing(r.registrar), answers=(fallbacks.Chains,),
    ),
    _fallbacks(
        "PUT", "/v1/fallbacks/{modality}", "set_fallbacks", "Set a chain; it replaces the one of gw.yaml.",
        lambda r: fallbacks.put(r.registrar, r.name, r.body, r.actor),
        body=fallbacks.SetChain, answers=(fallbacks.SetChainAnswer,), errors=(422, 503),
    ),
    _fallbacks(
        "DELETE", "/v1/fallbacks/{modality}", "reset_fallbacks", "Put the chain of gw.yaml in force again.",
        lambda r: fallbacks.reset(r.registrar, r.name, r.actor), answers=(fallbacks.SetChainAnswer,), errors=(422, 503),
    ),
)  # fmt: skip
