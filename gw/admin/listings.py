"""Providers, models and projects as the API shows them: JSON-ready dicts.

The list of models is one body for many readers: a map for the gateway's own clients, `data` for the SDKs of OpenAI,
Groq and Anthropic, `stt` and `tts` for Deepgram's. Each ignores the members it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from gw.admin.reports import Json, cost_groups, known_project, models_of, usd
from gw.errors import UnknownModelError
from gw.policy import budget
from gw.registry.catalog import Catalog, Model, Provider
from gw.store import queries
from gw.store.store import Reader
from gw.telemetry.clock import utc_day
from gw.types.ids import MODALITIES, Modality
from gw.types.project import Project

Spent = Callable[[str], int]
"""Project id → nano-USD spent today, as the budget counts it."""


def status(catalog: Catalog) -> Json:
    return {
        "providers": _provider_states(catalog),
        "model_count": len({model.id for model in catalog.models.values()}),
        "project_count": len(catalog.projects),
    }


def dashboard_status(catalog: Catalog) -> Json:
    return {
        "providers": _provider_states(catalog),
        "models": {
            model_id: {"modality": entries[0].modality, "provider": entries[0].provider}
            for model_id, entries in _by_id(catalog.models.values()).items()
        },
        "fallbacks": {modality: list(catalog.chains.get(modality, ())) for modality in MODALITIES},
    }


def _provider_states(catalog: Catalog) -> Json:
    return {p.id: {"configured": p.configured, "type": p.location} for p in catalog.providers.values()}


def providers(catalog: Catalog) -> Json:
    return {"providers": [provider(p) for p in catalog.providers.values()]}


def provider(entry: Provider) -> Json:
    """`api_key_masked` is "" without a key; the key itself is never shown."""
    return {
        "provider_id": entry.id,
        "source": entry.source,
        "api_key_masked": entry.api_key.masked,
        "base_url": entry.base_url,
        "provider_type": entry.type,
        "type": entry.location,
        "configured": entry.configured,
        "enabled": entry.enabled,
        "key_error": entry.key_error or None,
    }


def models(catalog: Catalog, made_at: float, *, project: str | None = None) -> Json:
    """All models, or those that the project's default stack uses. `made_at`: Unix seconds given as their creation.

    An id that serves two modalities is one entry: `modality` is the first in the order stt, llm, tts, `modalities` all.
    """
    only = known_project(catalog, project)
    by_id = _by_id(models_of(catalog, only))
    return {
        "object": "list",
        "data": [_list_entry(entries, made_at) for entries in by_id.values()],
        "has_more": False,
        "first_id": next(iter(by_id), None),
        "last_id": next(reversed(by_id), None),
        "models": {model_id: _map_entry(entries) for model_id, entries in by_id.items()},
        "project": only,
        "stt": _deepgram_entries(by_id, "stt"),
        "tts": _deepgram_entries(by_id, "tts"),
    }


def models_bare(catalog: Catalog, *, project: str | None = None) -> list[Json]:
    """The list as ElevenLabs' SDK reads it: a bare array."""
    by_id = _by_id(models_of(catalog, known_project(catalog, project)))
    return [
        {
            "model_id": model_id,
            "name": entries[0].display_name or model_id,
            "can_do_text_to_speech": any(model.modality == "tts" for model in entries),
            "can_do_voice_conversion": False,
            "languages": [],
            "token_cost_factor": 1.0,
        }
        for model_id, entries in by_id.items()
    ]


def model(catalog: Catalog, model_id: str, made_at: float) -> Json:
    """One model, by its id or an alias. Raises UnknownModelError listing all."""
    by_id = _by_id(catalog.models.values())
    found = by_id.get(model_id) or [m for m in catalog.models.values() if model_id in m.aliases]
    if not found:
        raise UnknownModelError(name=model_id, available=tuple(by_id))
    return {**_list_entry(found, made_at), **_map_entry(found), "source": found[0].source}


def _by_id(entries: Iterable[Model]) -> dict[str, list[Model]]:
    """The models of each id, in the order of the modalities."""
    found: dict[str, list[Model]] = {}
    for entry in entries:
        found.setdefault(entry.id, []).append(entry)
    for same in found.values():
        same.sort(key=lambda m: MODALITIES.index(m.modality))
    return found


def _list_entry(entries: list[Model], made_at: float) -> Json:
    first = entries[0]
    return {
        "id": first.id,
        "object": "model",
        "created": int(made_at),
        "owned_by": first.provider,
        "type": "model",
        "display_name": first.display_name or first.name,
        "created_at": datetime.fromtimestamp(int(made_at), UTC).isoformat().replace("+00:00", "Z"),
    }


def _map_entry(entries: list[Model]) -> Json:
    first = entries[0]
    return {
        "modality": first.modality,
        "provider": first.provider,
        "model": first.name,
        "modalities": [entry.modality for entry in entries],
    }


def _deepgram_entries(by_id: dict[str, list[Model]], modality: Modality) -> list[Json]:
    return [
        {"name": entry.id, "canonical_name": entry.id, "architecture": entry.provider, "languages": _languages(entry)}
        for entries in by_id.values()
        for entry in entries
        if entry.modality == modality
    ]


def _languages(entry: Model) -> list[str]:
    return [entry.default_language] if entry.default_language else []


async def projects(store: Reader, catalog: Catalog, now: float) -> Json:
    costs: dict[str, list[int]] = {project_id: [0, 0] for project_id in catalog.projects}
    today = utc_day(now)
    for point in await store.read(queries.points, "day", today, today, by="project", project=None, model_id=None):
        if point.name in costs:  # one that is gone may have spent today
            costs[point.name] = [point.cost_nusd, point.requests]
    return {
        "projects": [_project(entry) for entry in catalog.projects.values()],
        "stats": {
            project_id: {"cost_today": usd(nusd), "requests_today": requests}
            for project_id, (nusd, requests) in costs.items()
        },
    }


async def project(store: Reader, catalog: Catalog, now: float, project_id: str, *, spent: Spent) -> Json:
    """One project with its day so far. Raises UnknownProjectError."""
    entry = catalog.project(project_id)
    today = await store.show(cost_groups, queries.costs, utc_day(now), entry.id)
    spent_nusd = spent(entry.id)
    return {
        **_project(entry),
        "today_spend": usd(spent_nusd),
        "budget_status": budget.status(spent_nusd, entry.daily_budget_nusd),
        "today": {"cost_today": today["total"], "requests_today": today["requests"]},
        "costs_today": {name: today[name] for name in ("total", "by_provider", "by_model")},
    }


def _project(entry: Project) -> Json:
    """`project_id` and `name` are also what Deepgram's SDK reads in a list of projects."""
    return {
        "id": entry.id,
        "project_id": entry.id,
        "name": entry.name or entry.id,
        "description": entry.description,
        "daily_budget": usd(entry.daily_budget_nusd),
        "budget_action": entry.budget_action,
        "default_stack": entry.default_stack,
        "tags": list(entry.tags),
        "accent": entry.accent,
        "source": entry.source,
    }
