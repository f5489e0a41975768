"""Providers, models and projects as the API shows them.

The list of models is one body for many readers: a map for the gateway's own clients, `data` for the SDKs of OpenAI,
Groq and Anthropic, `stt` and `tts` for Deepgram's. Each ignores the fields it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec

from gw.admin.budget_use import BudgetUse, SpentIn, budgets_in_use
from gw.admin.models import own_prices
from gw.admin.projects import ProjectEntry, project_entry
from gw.admin.reports import CostGroups, cost_groups
from gw.admin.request_models import one_of, project_filter, whole_number
from gw.admin.schemas import Schema, Usd, from_attributes, in_turns, usd
from gw.errors import UnknownModelError, UnknownProviderError
from gw.policy import budget
from gw.registry.catalog import Catalog, Model, Provider
from gw.store import queries
from gw.store.store import Reader
from gw.telemetry.clock import utc_day
from gw.types.entities import DEFAULT_PROJECT, BudgetStatus, Project
from gw.types.ids import MODALITIES, KeyLimits, Location, Modality, Source, split_model_id

Spent = Callable[[str], int]
"""Project id → nano-USD spent today, as the budget counts it."""


class ProviderState(Schema):
    configured: bool
    type: Location


class DashboardModel(Schema):
    modality: Modality
    provider: str


class DashboardStatus(Schema):
    providers: dict[str, ProviderState]
    models: dict[str, DashboardModel]
    fallbacks: dict[Modality, list[str]]


class ProviderEntry(Schema):
    """`api_key_masked` is empty without a key. `key_error` says why the stored key cannot be used."""

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


class ModelEntry(Schema):
    """`modality` is the first one the id serves, `modalities` are all of them."""

    modality: Modality
    provider: str
    model: str
    modalities: list[Modality]


class ListedModel(Schema):
    """The fields that OpenAI's, Groq's and Anthropic's SDKs read."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["model"]
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    """Required by Anthropic's SDK 2.12."""


class SpeechModel(Schema):
    """The fields that Deepgram's SDK reads."""

    name: str
    canonical_name: str
    architecture: str
    languages: list[str]


class ModelList(Schema):
    """One body for many readers: `models` is the gateway's own map, `data` is for OpenAI's, Groq's and Anthropic's SDKs,
    `stt` and `tts` for Deepgram's. A request with an `xi-api-key` header gets a bare array, for ElevenLabs' SDK."""

    object: Literal["list"]
    data: list[ListedModel]
    has_more: bool
    first_id: str | None
    last_id: str | None
    models: dict[str, ModelEntry]
    project: str | None
    stt: list[SpeechModel]
    tts: list[SpeechModel]


class ElevenLabsModel(Schema):
    """The fields that ElevenLabs' SDK reads."""

    model_id: str
    name: str
    can_do_text_to_speech: bool
    can_do_voice_conversion: bool
    languages: list[str]
    token_cost_factor: float


class OneModel(ListedModel):
    """For SDKs and the gateway's own clients alike. `prices`: those set for this model, which override the price tables."""

    modality: Modality
    provider: str
    model: str
    modalities: list[Modality]
    source: Source | Literal["vendor"]
    """`vendor`: not listed, but requests with this name go to that vendor, which has such a model."""
    prices: list[str]


class ProjectStats(Schema):
    cost_today: Usd
    requests_today: int


class Projects(Schema):
    projects: list[ProjectEntry]
    stats: dict[str, ProjectStats]


class ProjectCosts(Schema):
    total: Usd
    by_provider: CostGroups
    by_model: CostGroups


class ProjectDetail(ProjectEntry):
    today_spend: Usd
    budget_status: BudgetStatus
    """Status of the daily budget; `budgets` has that of each."""
    budgets: list[BudgetUse]
    today: ProjectStats
    costs_today: ProjectCosts


def dashboard_status(catalog: Catalog) -> DashboardStatus:
    return DashboardStatus(
        providers=provider_states(catalog),
        models={key: from_attributes(DashboardModel, same[0]) for key, same in _by_id(catalog.models.values()).items()},
        fallbacks={modality: list(catalog.chains.get(modality, ())) for modality in MODALITIES},
    )


def provider_states(catalog: Catalog) -> dict[str, ProviderState]:
    return {p.id: ProviderState(configured=p.configured, type=p.location) for p in catalog.providers.values()}


def providers(catalog: Catalog) -> Providers:
    return Providers(providers=[provider(p) for p in catalog.providers.values()])


def provider(entry: Provider) -> ProviderEntry:
    return from_attributes(
        ProviderEntry,
        entry,
        provider_id=entry.id,
        api_key_masked=entry.api_key.masked,
        provider_type=entry.type,
        type=entry.location,
        key_error=entry.key_error or None,
    )


MOST_LISTED = 1_000
"""Entries of a page of models at most, as in Anthropic's API."""


class KeyView(NamedTuple):
    """Part of the catalog that a key sees: the models that its own limits and the regions of its project allow."""

    catalog: Catalog
    project: Project
    limits: KeyLimits

    def has(self, model: Model) -> bool:
        """Return whether the key may use a model, or with a wildcard some of those that it stands for."""
        limits, region = self.limits, self.catalog.provider(model.provider).residency
        if limits.modalities and model.modality not in limits.modalities:
            return False
        if any(regions and region not in map(str.lower, regions) for regions in (self.project.regions, limits.regions)):
            return False
        if model.is_wildcard and any(split_model_id(pattern)[0] == model.provider for pattern in limits.models):
            return True
        return limits.includes(model.provider, model.id)


def view_of(catalog: Catalog, project: str, limits: KeyLimits | None) -> KeyView | None:
    """Return what a key of a project sees; None where it may use all models. Raises UnknownProjectError."""
    owner = catalog.project(project)
    return None if limits is None and not owner.regions else KeyView(catalog, owner, limits or KeyLimits())


def models_of(catalog: Catalog, project: str | None, view: KeyView | None = None) -> list[Model]:
    """Return the models of the project's default stack; without a project or a default stack, all models. `view`: only those in it."""
    models = [model for model in catalog.models.values() if view is None or view.has(model)]
    stack = catalog.stacks.get(catalog.project(project).default_stack) if project else None
    if stack is None:
        return models
    return [model for model in models if stack.model(model.modality) == model.id]


def models(
    catalog: Catalog, created_at: float, *, project: str | None = None, modality: str | None = None, limit: str | int | None = None,
    after_id: str | None = None, before_id: str | None = None, view: KeyView | None = None,
) -> ModelList:
    """List all models, or those of the project's default stack; with `view` only those in it.

    `created_at`: Unix seconds shown as their creation. An id that serves two modalities is one entry, with the modalities in the order
    stt, llm, tts. Wildcards are in the map only, since nobody can request `<provider>/*`. `limit`, `after_id` and `before_id` choose a
    page of `data`, as in Anthropic's API (anthropic 2.12.0, `model_list_params.py`): the first entries after an id, or the last ones
    before it. An unknown id is before all and after all. Raises RequestError.
    """
    if modality is not None:
        one_of("modality", modality, MODALITIES)
    only = project_filter(catalog, project)
    by_id = _by_id(model for model in models_of(catalog, only, view) if modality in (None, model.modality))
    ids = [model_id for model_id, entries in by_id.items() if not entries[0].is_wildcard]
    if after_id in by_id:
        ids = ids[ids.index(after_id) + 1 :]
    if before_id in by_id:
        ids = ids[: ids.index(before_id)] if before_id in ids else []
    most = len(ids) if limit is None else whole_number(limit, "limit", 1, MOST_LISTED)
    page = ids[-most:] if before_id and not after_id else ids[:most]
    return ModelList(
        object="list",
        data=[_listed(by_id[model_id], created_at) for model_id in page],
        has_more=len(page) < len(ids),
        first_id=page[0] if page else None,
        last_id=page[-1] if page else None,
        models={model_id: _entry(entries) for model_id, entries in by_id.items()},
        project=only,
        stt=_speech_models(by_id, "stt"),
        tts=_speech_models(by_id, "tts"),
    )


def models_bare(catalog: Catalog, *, project: str | None = None, view: KeyView | None = None) -> list[ElevenLabsModel]:
    by_id = _by_id(models_of(catalog, project_filter(catalog, project), view))
    return [
        ElevenLabsModel(
            model_id=model_id,
            name=entries[0].display_name or model_id,
            can_do_text_to_speech=any(model.modality == "tts" for model in entries),
            can_do_voice_conversion=False,
            languages=[],
            token_cost_factor=1.0,
        )
        for model_id, entries in by_id.items()
        if not entries[0].is_wildcard
    ]


def model(catalog: Catalog, model_id: str, created_at: float, view: KeyView | None = None) -> OneModel:
    """Return one model, by any name under which a chat request would find it; with `view` only one in it.

    Raises UnknownModelError with all ids.
    """
    by_id = _by_id(models_of(catalog, None, view))
    entries = by_id.get(model_id) or [m for m in catalog.models.values() if model_id in m.aliases] or _named(catalog, model_id)
    entries = [entry for entry in entries if view is None or view.has(entry)]
    if not entries:
        raise UnknownModelError(name=model_id, available=tuple(by_id))
    return _one(entries, created_at, entries[0].source)


def unlisted(model: Model, created_at: float) -> OneModel:
    """Return a vendor's model that no entry of the configuration names, by the vendor's name for it."""
    return msgspec.structs.replace(_one([model], created_at, "vendor"), id=model.name)


def _one(entries: list[Model], created_at: float, source: Source | Literal["vendor"]) -> OneModel:
    fields = msgspec.structs.asdict(_listed(entries, created_at)) | msgspec.structs.asdict(_entry(entries))
    return OneModel(**fields, source=source, prices=[text for entry in entries for text in own_prices(entry)])


def _named(catalog: Catalog, name: str) -> list[Model]:
    """Return the listed model that a request would mean by a bare name or a stack, of the first modality that has one."""
    project = catalog.projects.get(DEFAULT_PROJECT) or Project(id=DEFAULT_PROJECT)
    for modality in ("llm", "stt", "tts"):
        try:
            model = catalog.resolve(name, modality, project, dialect_provider="openai")
        except (UnknownModelError, UnknownProviderError):
            continue
        if catalog.is_listed(model):
            return _by_id(catalog.models.values())[model.id]
    return []


def _by_id(entries: Iterable[Model]) -> dict[str, list[Model]]:
    """Group models by id, each group in the order of the modalities."""
    groups: dict[str, list[Model]] = {}
    for entry in entries:
        groups.setdefault(entry.id, []).append(entry)
    for group in groups.values():
        group.sort(key=lambda m: MODALITIES.index(m.modality))
    return groups


def _listed(entries: list[Model], created_at: float) -> ListedModel:
    first = entries[0]
    return ListedModel(
        id=first.id,
        object="model",
        created=int(created_at),
        owned_by=first.provider,
        type="model",
        display_name=first.display_name or first.name,
        created_at=datetime.fromtimestamp(int(created_at), UTC).isoformat().replace("+00:00", "Z"),
        lifecycle="active",
    )


def _entry(entries: list[Model]) -> ModelEntry:
    first, modalities = entries[0], [entry.modality for entry in entries]
    return ModelEntry(modality=first.modality, provider=first.provider, model=first.name, modalities=modalities)


def _speech_models(by_id: dict[str, list[Model]], modality: Modality) -> list[SpeechModel]:
    return [
        SpeechModel(
            name=entry.id,
            canonical_name=entry.id,
            architecture=entry.provider,
            languages=[entry.default_language] if entry.default_language else [],
        )
        for entries in by_id.values()
        for entry in entries
        if entry.modality == modality and not entry.is_wildcard
    ]


async def projects(store: Reader, catalog: Catalog, now: float) -> Projects:
    stats = {project_id: ProjectStats(cost_today=0.0, requests_today=0) for project_id in catalog.projects}
    today = utc_day(now)
    for point in await store.read(queries.points, "day", today, today, by="project", project=None, model_id=None):
        if point.name in stats:  # a deleted project may have spent today
            stats[point.name] = ProjectStats(cost_today=usd(point.cost_nusd), requests_today=point.requests)
    return Projects(projects=await in_turns(project_entry(entry) for entry in catalog.projects.values()), stats=stats)


async def project(store: Reader, catalog: Catalog, now: float, *, project_id: str, spent_in: SpentIn) -> ProjectDetail:
    """Return one project with today's costs. Raises UnknownProjectError."""
    entry = catalog.project(project_id)
    today = await store.read_as(cost_groups, queries.costs, utc_day(now), entry.id)
    spent_nusd = spent_in(entry.id, "day")
    return from_attributes(
        ProjectDetail,
        project_entry(entry),
        today_spend=usd(spent_nusd),
        budget_status=budget.status(spent_nusd, entry.daily_budget_nusd),
        budgets=budgets_in_use(entry, entry.id, spent_in),
        today=ProjectStats(cost_today=today.total, requests_today=today.requests),
        costs_today=from_attributes(ProjectCosts, today),
    )
