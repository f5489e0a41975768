"""Creating, changing and deleting projects through the API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gw.admin.budget_use import BUDGETS, checked_budget, in_nusd
from gw.admin.fallbacks import checked_chain
from gw.admin.registrar import Deleted, Registrar, differences
from gw.admin.request_models import (
    Body,
    Checks,
    checked,
    checked_id,
    checked_names,
    checked_text,
    read,
    unchecked,
    update_body,
)
from gw.admin.schemas import Schema, Usd, from_attributes
from gw.config.capture_rules import missing_for
from gw.config.settings import Settings
from gw.errors import ConflictError, ReadOnlyError, RequestError
from gw.registry.catalog import Catalog
from gw.types.entities import Actor, BudgetAction, Capture, PhraseRules, Project, StoredKey, name_of
from gw.types.ids import Modality, Source
from gw.types.secret import Secret

_DESCRIPTION_CHARACTERS = 2_000
_MOST_NAMES = 1_000
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


class CaptureBody(Body):
    """Words and sound of a project to keep, encrypted. It needs GW_SECRET, and `audio` needs the extra capture."""

    text: bool = False
    audio: bool = False
    share: Annotated[float, Meta(ge=0, le=1)] = 0.05
    """Share of sessions of which something is kept."""
    keep_days: Annotated[int, Meta(ge=1, le=3_650)] = 14
    names: tuple[str, ...] = ()
    """Words that are replaced before anything is kept, beside card numbers, phone numbers and mail addresses."""
    presidio: Annotated[str, Meta(max_length=200)] = ""
    """Name or folder of the spaCy model with which Presidio replaces names and places too. It needs the extra presidio."""


class PhraseCacheBody(Body):
    """Speech of texts that are said again, kept so that no vendor is paid twice. All members have defaults, so `{}` will do."""

    takes: Annotated[int, Meta(ge=1, le=16)] = 1
    """Recordings of each text, made before one is repeated and then used in turn."""
    longest: Annotated[int, Meta(ge=1, le=5_000)] = 300
    """Characters of the longest text whose speech is kept."""
    sentences: bool = True
    """Sentences within longer live speech come from the cache, too."""


class CreateProject(Body):
    project_id: str
    name: str | None = None
    """Default: the id."""
    description: str | None = None
    daily_budget: float | None = None
    """USD a day; 0 or null = none."""
    weekly_budget: float | None = None
    """USD a week from Monday, UTC; 0 or null = none."""
    monthly_budget: float | None = None
    """USD a calendar month, UTC; 0 or null = none."""
    total_budget: float | None = None
    """USD in all; 0 or null = none."""
    budget_action: BudgetAction = "warn"
    default_stack: str | None = None
    tags: list[str] | None = None
    regions: list[str] | None = None
    """Regions whose providers may answer; `local` is for local providers that name none. Empty or null = all."""
    accent: str | None = None
    """`#rrggbb`."""
    fallbacks: dict[Modality, list[str]] | None = None
    phrase_cache: PhraseCacheBody | None = None
    """Null = every text is spoken by a vendor."""
    capture: CaptureBody | None = None
    """Null = nothing is kept."""


UpdateProject = update_body("UpdateProject", CreateProject)


class ProjectEntry(Schema):
    """`project_id` and `name` are also what Deepgram's SDK reads in a list of projects."""

    id: str
    project_id: str
    name: str
    description: str
    daily_budget: Usd
    weekly_budget: Usd
    monthly_budget: Usd
    total_budget: Usd
    budget_action: BudgetAction
    default_stack: str
    tags: Sequence[str]
    regions: Sequence[str]
    accent: Annotated[str, Meta(pattern="^#[0-9a-fA-F]{6}$")]
    phrase_cache: PhraseRules | None
    capture: Capture | None
    source: Source


class ProjectCreated(Schema):
    project_id: str
    source: Source
    created: bool


class ProjectUpdated(Schema):
    project_id: str
    updated: bool


class ProjectPreviewed(Schema):
    project_id: str


class ProjectPreview(Schema):
    would_delete: ProjectPreviewed


def project_entry(project: Project) -> ProjectEntry:
    """Return a project as the lists show it."""
    return from_attributes(ProjectEntry, project, project_id=project.id)


async def create(registrar: Registrar, body: Mapping[str, object], by: Actor) -> ProjectCreated:
    """Raises RequestError, ConflictError."""
    request = read(body, CreateProject)
    project_id = checked_id(request.project_id, "project_id")
    values = _values(registrar, request)
    project = Project(id=project_id, source="db", **values | {"name": values.get("name") or project_id})
    async with registrar.change(by) as draft:
        if project_id in registrar.catalog.projects or ("project", project_id) in draft.stored:
            raise ConflictError(what=f"the project {project_id!r} exists already")
        draft.put(project, "create", _audited(project))
    return ProjectCreated(project_id=project_id, source="db", created=True)


async def update(registrar: Registrar, project_id: str, body: Mapping[str, object], by: Actor) -> ProjectUpdated:
    """Raises RequestError, ReadOnlyError, UnknownProjectError."""
    changed = _values(registrar, read(body, UpdateProject))
    async with registrar.change(by) as draft:
        before = _editable(registrar, project_id)
        after = msgspec.structs.replace(before, **changed)
        if changes := differences(_audited(before), _audited(after)):
            draft.put(after, "update", changes)
    return ProjectUpdated(project_id=project_id, updated=True)


async def delete(registrar: Registrar, project_id: str, *, confirm: bool, by: Actor) -> ProjectPreview | Deleted:
    """Delete a project with its keys, or without `confirm` only return what would be deleted.

    Raises ReadOnlyError, UnknownProjectError.
    """
    if not confirm:
        _editable(registrar, project_id)
        return ProjectPreview(would_delete=ProjectPreviewed(project_id=project_id))
    async with registrar.change(by) as draft:
        project = _editable(registrar, project_id)
        for entity in list(draft.stored.values()):
            if isinstance(entity, StoredKey) and entity.project == project_id:
                draft.remove(name_of(entity), {"project": project_id})
        draft.remove(name_of(project), _audited(project))
    return Deleted(deleted=project_id)


def _editable(registrar: Registrar, project_id: str) -> Project:
    entry = registrar.catalog.project(project_id)
    stored = registrar.stored.get(("project", project_id))
    if entry.source == "yaml" or not isinstance(stored, Project):
        raise ReadOnlyError(entity="project", id=project_id)
    return stored


def _values(registrar: Registrar, body: Body) -> dict[str, Any]:
    """Return the fields to store. Raises RequestError."""
    catalog = registrar.catalog
    checks: Checks = {
        "name": checked_text,
        "description": partial(checked_text, longest=_DESCRIPTION_CHARACTERS),
        **{name: checked_budget for _, name in BUDGETS},
        "budget_action": unchecked,
        "default_stack": partial(_checked_stack, catalog),
        "tags": checked_names,
        "regions": checked_names,
        "accent": _checked_accent,
        "fallbacks": partial(_checked_chains, catalog),
        "phrase_cache": partial(_phrase_rules, registrar.settings),
        "capture": partial(_checked_capture, registrar.settings.secret),
    }
    return in_nusd(checked(body, checks))


def _checked_accent(value: str | None, param: str) -> str:
    if value and not _COLOUR.fullmatch(value):
        raise RequestError(what=f"{param} must be a colour such as #5b7fa6", param=param)
    return (value or "").lower()


def _checked_stack(catalog: Catalog, value: str | None, param: str) -> str:
    if value and value not in catalog.stacks:
        known = ", ".join(catalog.stacks) or "none; define them under 'stacks' in gw.yaml"
        raise RequestError(what=f"unknown stack {value!r}; known stacks: {known}", param=param)
    return value or ""


def _checked_chains(
    catalog: Catalog, value: Mapping[Modality, list[str]] | None, param: str
) -> dict[Modality, tuple[str, ...]]:
    return {modality: checked_chain(catalog, modality, chain, param) for modality, chain in (value or {}).items()}


def _phrase_rules(settings: Settings, value: PhraseCacheBody | None, param: str) -> PhraseRules | None:
    if value is None:
        return None
    if not settings.routing.phrase_cache_mb:
        what = f"{param} would keep nothing: routing.phrase_cache_mb is 0; set it to the memory for phrases in gw.yaml"
        raise RequestError(what=what, param=param)
    return PhraseRules(takes=value.takes, longest=value.longest, sentences=value.sentences)


def _checked_capture(secret: Secret, value: CaptureBody | None, param: str) -> Capture | None:
    if value is None:
        return None
    names = tuple(checked_text(name, f"{param}.names", longest=64) for name in value.names)
    if len(names) > _MOST_NAMES:
        raise RequestError(what=f"{param}.names may have at most {_MOST_NAMES} entries", param=param)
    presidio = checked_text(value.presidio, f"{param}.presidio", longest=200) if value.presidio else ""
    capture = Capture(
        text=value.text, audio=value.audio, share=value.share, keep_days=value.keep_days, names=names, presidio=presidio
    )
    if (missing := missing_for(capture, secret)) is not None:
        raise RequestError(what=": ".join(missing), param=param)
    return capture


def _audited(project: Project) -> dict[str, object]:
    """Return what the audit log has of a project."""
    return {name: getattr(project, name) for name in UpdateProject.__struct_fields__}
