"""Creating, changing and deleting projects through the API."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from gw.admin.fallbacks import checked_chain
from gw.admin.registrar import Registrar
from gw.admin.reports import Json, usd
from gw.admin.request_models import (
    CreateProject,
    UpdateProject,
    checked_accent,
    checked_budget,
    checked_description,
    checked_id,
    checked_tags,
    checked_text,
    read,
)
from gw.errors import ConflictError, ReadOnlyError, RequestError
from gw.registry.catalog import Catalog
from gw.types.entities import Actor, StoredKey, StoredProject, name_of
from gw.types.ids import Modality


async def create(registrar: Registrar, body: Mapping[str, object], by: Actor) -> Json:
    """Raises RequestError, ConflictError."""
    given = read(body, CreateProject)
    project_id = checked_id(given.project_id, "project_id")
    made = StoredProject(
        id=project_id,
        name=checked_text(given.name, "name") or project_id,
        description=checked_description(given.description),
        daily_budget_nusd=checked_budget(given.daily_budget),
        budget_action=given.budget_action,
        default_stack=_stack(registrar.catalog, given.default_stack),
        tags=checked_tags(given.tags),
        accent=checked_accent(given.accent),
        fallbacks=_chains(registrar.catalog, given.fallbacks),
    )
    async with registrar.change(by) as draft:
        if project_id in registrar.catalog.projects or ("project", project_id) in draft.stored:
            raise ConflictError(what=f"there is a project {project_id!r} already")
        draft.put(made, "create", _shown(made))
    return {"project_id": project_id, "source": "db", "created": True}


async def update(registrar: Registrar, project_id: str, body: Mapping[str, object], by: Actor) -> Json:
    """Raises RequestError, ReadOnlyError, UnknownProjectError."""
    given = read(body, UpdateProject)
    changed = _changed(registrar.catalog, given)
    async with registrar.change(by) as draft:
        before = _own(registrar, project_id)
        after = msgspec.structs.replace(before, **changed)
        old, new = _shown(before), _shown(after)
        changes = {k: {"from": old[k], "to": new[k]} for k in old if old[k] != new[k]}
        if changes:
            draft.put(after, "update", changes)
    return {"project_id": project_id, "updated": True}


def _changed(catalog: Catalog, given: UpdateProject) -> dict[str, object]:
    changed: dict[str, object] = {}
    if given.name is not UNSET:
        changed["name"] = checked_text(given.name, "name")
    if given.description is not UNSET:
        changed["description"] = checked_description(given.description)
    if given.daily_budget is not UNSET:
        changed["daily_budget_nusd"] = checked_budget(given.daily_budget)
    if given.budget_action is not UNSET:
        changed["budget_action"] = given.budget_action
    if given.default_stack is not UNSET:
        changed["default_stack"] = _stack(catalog, given.default_stack)
    if given.tags is not UNSET:
        changed["tags"] = checked_tags(given.tags)
    if given.accent is not UNSET:
        changed["accent"] = checked_accent(given.accent)
    if given.fallbacks is not UNSET:
        changed["fallbacks"] = _chains(catalog, given.fallbacks)
    return changed


async def delete(registrar: Registrar, project_id: str, *, confirm: bool, by: Actor) -> Json:
    """Without `confirm` nothing is deleted and the answer says what would be. Its keys go with it.

    Raises ReadOnlyError, UnknownProjectError.
    """
    if not confirm:
        _own(registrar, project_id)
        return {"would_delete": {"project_id": project_id}}
    async with registrar.change(by) as draft:
        before = _own(registrar, project_id)
        for entity in list(draft.stored.values()):
            if isinstance(entity, StoredKey) and entity.project == project_id:
                draft.remove(name_of(entity), {"project": project_id})
        draft.remove(name_of(before), _shown(before))
    return {"deleted": project_id}


def _own(registrar: Registrar, project_id: str) -> StoredProject:
    entry = registrar.catalog.project(project_id)
    stored = registrar.stored.get(("project", project_id))
    if entry.source == "yaml" or not isinstance(stored, StoredProject):
        raise ReadOnlyError(entity="project", id=project_id)
    return stored


def _stack(catalog: Catalog, name: str | None) -> str:
    if name and name not in catalog.stacks:
        known = ", ".join(catalog.stacks) or "none; define them under 'stacks' in gw.yaml"
        raise RequestError(what=f"unknown stack {name!r}; there are: {known}", param="default_stack")
    return name or ""


def _chains(catalog: Catalog, given: Mapping[Modality, list[str]] | None) -> dict[Modality, tuple[str, ...]]:
    chains = (given or {}).items()
    return {modality: checked_chain(catalog, modality, models, "fallbacks") for modality, models in chains}


def _shown(project: StoredProject) -> dict[str, object]:
    return {
        "name": project.name,
        "description": project.description,
        "daily_budget": usd(project.daily_budget_nusd),
        "budget_action": project.budget_action,
        "default_stack": project.default_stack,
        "tags": list(project.tags),
        "accent": project.accent,
        "fallbacks": {modality: list(models) for modality, models in project.fallbacks.items()},
    }
