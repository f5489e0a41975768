"""The configuration, and what was made through the API, as one Catalog.

The configuration comes first: an entity of the database with the same name is set aside with a warning, and so is one
that does not fit any more (a model whose provider is gone, or of another type now). Neither is an error: the gateway
must start.
"""

from __future__ import annotations

import colorsys
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

import attrs

from gw.config.cross_checks import DEFAULT_PROJECT
from gw.config.settings import ModelSettings, ProjectSettings, ProviderSettings, RateLimit, Settings
from gw.errors import KeyDecryptError
from gw.registry.catalog import AccessKey, Catalog, Model, Provider, Stack
from gw.types.address import host_of, split_address
from gw.types.entities import Stored, StoredChain, StoredKey, StoredModel, StoredProject, StoredProvider, name_of
from gw.types.ids import MODALITIES
from gw.types.project import Project
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.secret import Secret
from gw.types.usage import NANO

Decrypt = Callable[[StoredProvider], Secret]
"""The API key of a stored provider. Raises KeyDecryptError."""
K = TypeVar("K", bound=Stored)
_DIGEST = re.compile("[0-9a-f]{64}")


@attrs.frozen(kw_only=True)
class Merged:
    catalog: Catalog
    warnings: tuple[str, ...]
    """What was set aside, and why."""


def _locked(provider: StoredProvider) -> Secret:
    raise KeyDecryptError(provider=provider.id)


def build(settings: Settings) -> Catalog:
    """`settings` as the relay needs them. The project `default` is there whether it is configured or not."""
    return merge(settings, ()).catalog


def merge(settings: Settings, stored: Iterable[Stored], decrypt: Decrypt = _locked) -> Merged:
    """`settings` and what the database holds. A key that `decrypt` cannot read leaves its provider unusable, and says so."""
    stored = tuple(stored)
    warnings: list[str] = []
    limits = settings.rate_limiting
    providers = {p.id: _provider(p, limits.get(p.id, RateLimit())) for p in settings.providers.values()}
    for entry in _of(stored, StoredProvider):
        if _is_free(entry, entry.id in providers, warnings) and _is_usable(entry, warnings):
            limit, allowed = limits.get(entry.id, RateLimit()), settings.serve.provider_base_url_hosts
            providers[entry.id] = _stored_provider(entry, limit, decrypt, allowed, warnings)
    models = {key: _model(model) for key, model in settings.models.items()}
    for model in _of(stored, StoredModel):
        key = name_of(model)[1]
        if _is_free(model, key in models, warnings) and _has_provider(model, providers, warnings):
            models[key] = _stored_model(model)
    given = {DEFAULT_PROJECT: ProjectSettings(id=DEFAULT_PROJECT, name=DEFAULT_PROJECT), **settings.projects}
    projects = {name: _project(project) for name, project in given.items()}
    for project in _of(stored, StoredProject):
        if _is_free(project, project.id in settings.projects, warnings):
            projects[project.id] = _stored_project(project)
    stacks = {s.name: Stack(name=s.name, stt=s.stt, llm=s.llm, tts=s.tts) for s in settings.stacks.values()}
    catalog = Catalog(
        providers=providers,
        models=models,
        projects=projects,
        stacks=stacks,
        chains={**settings.fallbacks, **{chain.modality: chain.models for chain in _of(stored, StoredChain)}},
        voices=dict(settings.voices),
        keys=tuple(_access(key) for key in _of(stored, StoredKey) if _opens(key, projects, warnings)),
    )
    return Merged(catalog=_without_dangling(catalog), warnings=tuple(warnings))


def _of(stored: Iterable[Stored], kind: type[K]) -> Iterator[K]:
    return (entity for entity in stored if isinstance(entity, kind))


def _fits(entity: Stored, fault: str, warnings: list[str]) -> bool:
    """`fault`: why it must be set aside; "" = it need not."""
    if fault:
        kind, name = name_of(entity)
        warnings.append(f"{kind} {name!r} of the database is set aside: {fault}")
    return not fault


def _is_free(entity: Stored, taken: bool, warnings: list[str]) -> bool:
    return _fits(entity, "the configuration has one of that name" if taken else "", warnings)


def _is_usable(entry: StoredProvider, warnings: list[str]) -> bool:
    fault = "" if entry.type in PROVIDER_TYPES else f"this version has no type {entry.type!r}"
    if not fault and entry.base_url is not None:
        try:
            split_address(entry.base_url)
        except ValueError as error:
            fault = f"its base_url is none: {error}"
    return _fits(entry, fault, warnings)


def _has_provider(model: StoredModel, providers: Mapping[str, Provider], warnings: list[str]) -> bool:
    provider, fault = providers.get(model.provider), ""
    if provider is None:
        fault = f"its provider {model.provider!r} is gone"
    elif model.modality not in PROVIDER_TYPES[provider.type].modalities:
        fault = f"its provider {model.provider!r} is of the type {provider.type!r}, which offers no {model.modality}"
    return _fits(model, fault, warnings)


def _opens(key: StoredKey, projects: Mapping[str, Project], warnings: list[str]) -> bool:
    fault = "" if key.project in projects else f"its project {key.project!r} is gone"
    if not _DIGEST.fullmatch(key.digest):
        fault = "its digest is none"
    return _fits(key, fault, warnings)


def _without_dangling(catalog: Catalog) -> Catalog:
    """Chains name only models there are: one of them may have been deleted since."""
    chains = {m: tuple(x for x in chain if x in catalog.by_modality[m]) for m, chain in catalog.chains.items()}
    if chains == dict(catalog.chains):
        return catalog
    return attrs.evolve(catalog, chains=chains)


def accent_of(entity_id: str) -> str:
    """A colour for an id, always the same: its hue from the id, saturation and lightness fit for both themes."""
    hue = zlib.crc32(entity_id.encode()) % 360 / 360
    return "#" + "".join(f"{round(part * 255):02x}" for part in colorsys.hls_to_rgb(hue, 0.5, 0.45))


def _provider(entry: ProviderSettings, limit: RateLimit) -> Provider:
    return Provider(
        id=entry.id,
        type=entry.type,
        location=PROVIDER_TYPES[entry.type].location,
        base_url=entry.base_url,
        api_key=entry.api_key,
        enabled=entry.enabled,
        options=entry.options,
        requests_per_minute=limit.requests_per_minute,
        max_concurrent=limit.max_concurrent,
    )


def _stored_provider(
    entry: StoredProvider, limit: RateLimit, decrypt: Decrypt, allowed_hosts: Collection[str], warnings: list[str]
) -> Provider:
    key, error = Secret(""), ""
    if entry.key:
        try:
            key = decrypt(entry)
        except KeyDecryptError as failure:
            error = failure.message
            warnings.append(error)
    location = PROVIDER_TYPES[entry.type].location
    listed = entry.base_url is not None and host_of(entry.base_url) in {h.lower() for h in allowed_hosts}
    return Provider(
        id=entry.id,
        type=entry.type,
        location=location,
        public_only=location == "cloud" and not listed,
        source="db",
        base_url=entry.base_url,
        api_key=key,
        key_error=error,
        requests_per_minute=limit.requests_per_minute,
        max_concurrent=limit.max_concurrent,
    )


def _model(entry: ModelSettings) -> Model:
    return Model(
        id=entry.id,
        modality=entry.modality,
        provider=entry.provider,
        name=entry.model,
        display_name=entry.display_name,
        default_language=entry.default_language,
        default_voice=entry.default_voice,
        price=entry.price,
        aliases=entry.aliases,
    )


def _stored_model(entry: StoredModel) -> Model:
    return Model(
        id=entry.id,
        modality=entry.modality,
        provider=entry.provider,
        name=entry.name,
        source="db",
        display_name=entry.display_name,
        default_language=entry.default_language,
        default_voice=entry.default_voice,
    )


def _project(entry: ProjectSettings) -> Project:
    return Project(
        id=entry.id,
        name=entry.name or entry.id,
        description=entry.description,
        daily_budget_nusd=max(round(entry.daily_budget * NANO), 1) if entry.daily_budget else 0,
        budget_action=entry.budget_action,
        max_concurrent=entry.max_concurrent,
        default_stack=entry.default_stack,
        tags=entry.tags,
        accent=entry.accent or accent_of(entry.id),
        fallbacks=entry.fallbacks,
        provider_keys=entry.providers,
    )


def _stored_project(entry: StoredProject) -> Project:
    return Project(
        id=entry.id,
        name=entry.name or entry.id,
        description=entry.description,
        daily_budget_nusd=entry.daily_budget_nusd,
        budget_action=entry.budget_action,
        default_stack=entry.default_stack,
        tags=entry.tags,
        accent=entry.accent or accent_of(entry.id),
        source="db",
        fallbacks={m: entry.fallbacks[m] for m in MODALITIES if m in entry.fallbacks},
    )


def _access(key: StoredKey) -> AccessKey:
    return AccessKey(id=key.id, digest=bytes.fromhex(key.digest), project=key.project, expires_at=key.expires_at)
