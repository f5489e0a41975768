"""The catalog in force: frozen providers, models, stacks, projects and chains, with the look-ups the relay needs."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gw.errors import UnknownModelError, UnknownProjectError, UnknownProviderError
from gw.types.entities import Model as Model
from gw.types.entities import Provider as Provider
from gw.types.entities import Stack as Stack
from gw.types.ids import MODALITIES, Modality, split_model_id
from gw.types.project import Project

_UNNAMED = frozenset({"", "default"})
_SHARED_DIALECTS = frozenset({"openai"})


@attrs.frozen(kw_only=True)
class AccessKey:
    """A credential of this gateway, made through the API. `digest` is the SHA-256 of the key; `expires_at` Unix seconds."""

    id: str
    digest: bytes
    project: str
    expires_at: float | None = None


@attrs.frozen(kw_only=True)
class Catalog:
    providers: Mapping[str, Provider]
    models: Mapping[str, Model]
    projects: Mapping[str, Project]
    stacks: Mapping[str, Stack] = attrs.field(factory=dict)
    chains: Mapping[Modality, tuple[str, ...]] = attrs.field(factory=dict)
    voices: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    """Voice alias → provider id (or type) → that provider's voice."""
    keys: tuple[AccessKey, ...] = ()
    by_modality: Mapping[Modality, Mapping[str, Model]] = attrs.field(init=False, repr=False, eq=False)
    """Modality → model id → model, in the order of the configuration. One id may serve two modalities."""
    _by_alias: Mapping[tuple[Modality, str], Model] = attrs.field(init=False, repr=False, eq=False)
    _by_name: Mapping[tuple[Modality, str], tuple[Model, ...]] = attrs.field(init=False, repr=False, eq=False)

    @by_modality.default
    def _index(self) -> Mapping[Modality, Mapping[str, Model]]:
        return {m: {model.id: model for model in self.models.values() if model.modality == m} for m in MODALITIES}

    @_by_alias.default
    def _alias_index(self) -> Mapping[tuple[Modality, str], Model]:
        return {(model.modality, alias): model for model in self.models.values() for alias in model.aliases}

    @_by_name.default
    def _name_index(self) -> Mapping[tuple[Modality, str], tuple[Model, ...]]:
        index: dict[tuple[Modality, str], tuple[Model, ...]] = {}
        for model in self.models.values():
            key = (model.modality, model.name)
            index[key] = (*index.get(key, ()), model)
        return index

    def provider(self, provider_id: str) -> Provider:
        found = self.providers.get(provider_id)
        if found is None:
            raise UnknownProviderError(name=provider_id, available=tuple(self.providers))
        return found

    def project(self, project_id: str) -> Project:
        found = self.projects.get(project_id)
        if found is None:
            raise UnknownProjectError(name=project_id, available=tuple(self.projects))
        return found

    def resolve(self, name: str, modality: Modality, project: Project, *, dialect_provider: str = "") -> Model:
        """The model a caller means by `name`.

        Order: model id; stack name; alias; "" or "default" = the project's stack, else the head of the chain, else the
        only model; a bare vendor name = the dialect's own provider (an id or a type), else the one model of that name
        whose provider is configured, else, where that vendor is not configured at all, what a request without a name
        gets. Raises UnknownModelError (listing this modality's ids) or UnknownProviderError (an id whose provider is not
        configured).
        """
        models = self.by_modality[modality]
        found = models.get(name) or self._of_stack(name, modality) or self._by_alias.get((modality, name))
        if found is None:
            unnamed = name in _UNNAMED
            found = (
                self._usual(modality, project) if unnamed else self._by_vendor_name(name, modality, dialect_provider)
            )
        if found is None and self._is_strange(name, dialect_provider):
            found = self._usual(modality, project)
        if found is not None:
            return found
        provider, _ = split_model_id(name)
        if provider and provider not in self.providers:
            raise UnknownProviderError(name=provider, available=tuple(self.providers))
        raise UnknownModelError(name=name, available=tuple(models))

    def _is_strange(self, name: str, dialect: str) -> bool:
        """A bare name that only a vendor knows who is not configured: its app has moved here and still says it.

        OpenAI's protocol is everybody's, so there a name that nobody has is a mistake.
        """
        if not dialect or dialect in _SHARED_DIALECTS or "/" in name:
            return False
        return all(dialect not in (provider.id, provider.type) for provider in self.providers.values())

    def _of_stack(self, name: str, modality: Modality) -> Model | None:
        stack = self.stacks.get(name)
        return None if stack is None else self.by_modality[modality].get(stack.model(modality) or "")

    def _usual(self, modality: Modality, project: Project) -> Model | None:
        """What a request without a model gets."""
        models = self.by_modality[modality]
        found = self._of_stack(project.default_stack, modality)
        if found is None:
            found = next((models[m] for m in self._chain(modality, project) if m in models), None)
        if found is None and len(models) == 1:
            (found,) = models.values()
        return found

    def _by_vendor_name(self, name: str, modality: Modality, dialect_provider: str) -> Model | None:
        named = self._by_name.get((modality, name), ())
        if dialect_provider:
            for model in named:
                if model.provider == dialect_provider:
                    return model
            for model in named:
                provider = self.providers.get(model.provider)
                if provider is not None and provider.type == dialect_provider:
                    return model
        if len(named) > 1:
            named = tuple(m for m in named if (p := self.providers.get(m.provider)) is not None and p.configured)
        return named[0] if len(named) == 1 else None

    def _chain(self, modality: Modality, project: Project) -> tuple[str, ...]:
        own = project.fallbacks.get(modality)
        return self.chains.get(modality, ()) if own is None else own

    def candidates(self, model: Model, project: Project, *, fallback: bool = True) -> tuple[Model, ...]:
        """`model`, then the project's or the global chain of its modality without it, in order."""
        if not fallback:
            return (model,)
        models = self.by_modality[model.modality]
        others = (models[m] for m in self._chain(model.modality, project) if m != model.id and m in models)
        return (model, *others)

    def voice(self, alias: str, provider: Provider) -> str:
        """`alias` as that provider's voice; unchanged when it is no alias.

        An entry for the provider's id goes before one for its type.
        """
        voices = self.voices.get(alias)
        if voices is None:
            return alias
        return voices.get(provider.id) or voices.get(provider.type) or alias
