"""gw.yaml and the entities created through the API, merged into one Catalog.

gw.yaml wins. A database entry with the same name is ignored, with a warning, and so is one that is no longer valid, such
as a model whose provider was deleted. Neither is an error: the gateway must start.
"""

from __future__ import annotations

import colorsys
import re
import zlib
from collections.abc import Callable, Iterable
from functools import cache

import attrs
import msgspec

from gw.config.settings import RateLimit, Settings
from gw.errors import KeyDecryptError
from gw.registry.catalog import Catalog, Model, Provider
from gw.types.address import host_of, split_address
from gw.types.entities import (
    DEFAULT_PROJECT,
    Project,
    Stored,
    StoredChain,
    StoredKey,
    StoredLogin,
    StoredPerson,
    StoredProvider,
    StoredToken,
    name_of,
)
from gw.types.ids import ANY_NAME, Modality, Source, split_model_id
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.secret import Secret
from gw.types.shadow import SHADOW_PROJECT

Decrypt = Callable[[StoredProvider], Secret]
"""Return the API key of a stored provider. Raises KeyDecryptError."""
_DIGEST = re.compile("[0-9a-f]{64}")
_ORDER = (StoredProvider, Model, Project, StoredKey, StoredToken, StoredPerson, StoredLogin, StoredChain)
"""Entities are added in this order, so that each finds what it refers to."""


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    catalog: Catalog
    warnings: tuple[str, ...]
    """The ignored entries, with the reason."""


def _locked(provider: StoredProvider) -> Secret:
    raise KeyDecryptError(provider=provider.id)


def build(settings: Settings) -> Catalog:
    """Return the catalog of `settings` alone. The project `default` exists whether it is configured or not."""
    return merge(settings, ()).catalog


def merge(settings: Settings, stored: Iterable[Stored], decrypt: Decrypt = _locked) -> Merged:
    """Merge `settings` with the database. A provider whose key `decrypt` cannot read is listed but not usable."""
    merging = _Merging(settings, decrypt)
    for entity in sorted(stored, key=lambda entity: _ORDER.index(type(entity))):
        if fault := merging.fault(entity):
            kind, name = name_of(entity)
            merging.warnings.append(f"{kind} {name!r} of the database is ignored: {fault}")
        else:
            merging.add(entity)
    return Merged(catalog=merging.catalog(), warnings=tuple(merging.warnings))


def _of_shadows(settings: Settings) -> dict[str, Project]:
    """Return the project of the calls of second models, if there are any."""
    if (shadow := settings.shadow) is None:
        return {}
    budget, what = shadow.daily_budget_nusd, "calls of second models (`shadow` of gw.yaml)"
    return {SHADOW_PROJECT: Project(id=SHADOW_PROJECT, description=what, daily_budget_nusd=budget, budget_action="block")}


class _Merging:
    def __init__(self, settings: Settings, decrypt: Decrypt) -> None:
        self.warnings: list[str] = []
        self._settings = settings
        self._decrypt = decrypt
        self._providers = {p.id: self._limited(p) for p in settings.providers.values()}
        self._models = dict(settings.models)
        projects = {DEFAULT_PROJECT: Project(id=DEFAULT_PROJECT), **settings.projects, **_of_shadows(settings)}
        self._projects = {name: _completed(project, "yaml") for name, project in projects.items()}
        self._chains = dict(settings.fallbacks)
        self._keys: list[StoredKey] = []
        self._tokens: list[StoredToken] = []
        self._people: list[StoredPerson] = []
        self._logins: list[StoredLogin] = []

    def fault(self, entity: Stored) -> str:
        """Return why an entity must be ignored; "" = it need not."""
        settings = self._settings
        match entity:
            case StoredProvider(id=provider_id):
                return _conflict(provider_id in settings.providers) or _provider_fault(entity)
            case Model():
                return _conflict(name_of(entity)[1] in settings.models) or self._model_fault(entity)
            case Project(id=project_id):
                return _conflict(project_id in settings.projects or project_id in _of_shadows(settings))
            case StoredKey(digest=digest) | StoredToken(digest=digest) | StoredLogin(digest=digest) if not _DIGEST.fullmatch(digest):
                return "its digest is not a SHA-256 digest"
            case StoredKey(project=project) if project not in self._projects:
                return f"its project {project!r} no longer exists"
            case _:
                return ""

    def _model_fault(self, model: Model) -> str:
        provider = self._providers.get(model.provider)
        if provider is None:
            return f"its provider {model.provider!r} no longer exists"
        if model.modality not in PROVIDER_TYPES[provider.type].modalities:
            return f"its provider {model.provider!r} has the type {provider.type!r}, which does not offer {model.modality}"
        return ""

    def add(self, entity: Stored) -> None:
        match entity:
            case StoredProvider():
                self._providers[entity.id] = self._decrypted(entity)
            case Model():
                self._models[name_of(entity)[1]] = msgspec.structs.replace(entity, source="db")
            case Project():
                self._projects[entity.id] = _completed(entity, "db")
            case StoredKey():
                self._keys.append(entity)
            case StoredToken():
                self._tokens.append(entity)
            case StoredPerson():
                self._people.append(entity)
            case StoredLogin():
                self._logins.append(entity)
            case StoredChain(modality=modality, models=models):
                self._chains[modality] = models

    def catalog(self) -> Catalog:
        self._expand_any()
        return Catalog(
            providers=self._providers,
            models=self._models,
            projects=self._projects,
            stacks=dict(self._settings.stacks),
            chains={modality: self._existing(modality, chain) for modality, chain in self._chains.items()},
            routes=dict(self._settings.routes),
            voices=dict(self._settings.voices),
            keys=tuple(self._keys),
            tokens=tuple(self._tokens),
            people=tuple(self._people),
            logins=tuple(self._logins),
            unlisted_models=self._settings.routing.unlisted_models == "vendor",
        )

    def _expand_any(self) -> None:
        """Replace `any` in place of the models of a modality by a wildcard of each provider that offers it."""
        for key, entry in list(self._models.items()):
            if entry.provider != ANY_NAME:
                continue
            del self._models[key]
            for provider in self._providers.values():
                kind = PROVIDER_TYPES[provider.type]
                if kind.own_models and entry.modality in kind.modalities:
                    wildcard = msgspec.structs.replace(entry, id=f"{provider.id}/{ANY_NAME}", provider=provider.id)
                    self._models.setdefault(name_of(wildcard)[1], wildcard)

    def _existing(self, modality: Modality, chain: tuple[str, ...]) -> tuple[str, ...]:
        """Drop the models of a chain that were deleted since."""
        known = {model.id for model in self._models.values() if model.modality == modality}
        any_of = {model.provider for model in self._models.values() if model.modality == modality and model.is_wildcard}
        return tuple(model_id for model_id in chain if model_id in known or split_model_id(model_id)[0] in any_of)

    def _limited(self, provider: Provider) -> Provider:
        limit = self._settings.rate_limiting.get(provider.id, RateLimit())
        requests = limit.requests_per_minute
        return attrs.evolve(provider, requests_per_minute=requests, max_concurrent=limit.max_concurrent)

    def _decrypted(self, entry: StoredProvider) -> Provider:
        key, error = Secret(""), ""
        if entry.key:
            try:
                key = self._decrypt(entry)
            except KeyDecryptError as failure:
                error = failure.message
                self.warnings.append(error)
        location = PROVIDER_TYPES[entry.type].location
        allowed_hosts = {host.lower() for host in self._settings.serve.provider_base_url_hosts}
        allowed = entry.base_url is not None and host_of(entry.base_url, tcp=True) in allowed_hosts
        return self._limited(
            Provider(
                id=entry.id,
                type=entry.type,
                location=location,
                public_only=location == "cloud" and not allowed,
                source="db",
                base_url=entry.base_url,
                api_key=key,
                key_error=error,
            )
        )


def _conflict(in_file: bool) -> str:
    return "gw.yaml has an entry with the same name" if in_file else ""


def _provider_fault(entry: StoredProvider) -> str:
    if entry.type not in PROVIDER_TYPES:
        return f"this version does not know the type {entry.type!r}"
    if entry.base_url is None and PROVIDER_TYPES[entry.type].address:
        return f"a provider of type {entry.type!r} needs base_url"
    if entry.base_url is not None:
        try:
            split_address(entry.base_url, tcp=True)
        except ValueError as error:
            return f"its base_url is not valid: {error}"
    return ""


def _completed(project: Project, source: Source) -> Project:
    name, accent = project.name or project.id, project.accent or accent_of(project.id)
    return msgspec.structs.replace(project, source=source, name=name, accent=accent)


def accent_of(entity_id: str) -> str:
    """Derive a colour from an id: the hue varies, saturation and lightness suit both themes."""
    return _colour(zlib.crc32(entity_id.encode()) % 360)


@cache  # half of the time that a change took with thousands of projects
def _colour(degrees: int) -> str:
    return "#" + "".join(f"{round(part * 255):02x}" for part in colorsys.hls_to_rgb(degrees / 360, 0.5, 0.45))
