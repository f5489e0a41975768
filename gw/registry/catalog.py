"""The catalog: frozen providers, models, stacks, projects and chains, with the look-ups of the relay."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import msgspec

from gw.errors import UnknownModelError, UnknownProjectError, UnknownProviderError
from gw.types.entities import Model as Model
from gw.types.entities import Project, StoredKey, StoredLogin, StoredPerson, StoredToken
from gw.types.entities import Provider as Provider
from gw.types.entities import Stack as Stack
from gw.types.ids import ANY_NAME, LONGEST_NAME, MODALITIES, Modality, split_model_id
from gw.types.model_routes import ModelRoute, RouteMember
from gw.types.provider_types import PROVIDER_TYPES

_UNNAMED = frozenset({"", "default"})
_SHARED_DIALECTS = frozenset({"openai"})
_RESELLER = "livekit"  # its inference has models of many vendors, by the names `<vendor>/<model>`


@attrs.frozen(kw_only=True)
class Catalog:
    providers: Mapping[str, Provider]
    models: Mapping[str, Model]
    projects: Mapping[str, Project]
    stacks: Mapping[str, Stack] = attrs.field(factory=dict)
    chains: Mapping[Modality, tuple[str, ...]] = attrs.field(factory=dict)
    routes: Mapping[Modality, Mapping[str, ModelRoute]] = attrs.field(factory=dict)
    voices: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    """Voice alias → provider id (or type) → that provider's voice."""
    keys: tuple[StoredKey, ...] = ()
    tokens: tuple[StoredToken, ...] = ()
    people: tuple[StoredPerson, ...] = ()
    logins: tuple[StoredLogin, ...] = ()
    unlisted_models: bool = True
    """Whether a bare name that is not listed goes to the vendor whose protocol is spoken (`routing.unlisted_models`)."""
    by_modality: Mapping[Modality, Mapping[str, Model]] = attrs.field(init=False, repr=False, eq=False)
    """Modality → model id → model, in the order of the configuration, without wildcards. One id may serve two modalities."""
    wildcards: Mapping[Modality, Mapping[str, Model]] = attrs.field(init=False, repr=False, eq=False)
    """Modality → provider id → the entry `<provider>/*`, which stands for any name of the provider."""
    voices_by_member: Mapping[tuple[str, str], Mapping[str, str]] = attrs.field(init=False, repr=False, eq=False)
    """Provider id (or type) and its voice → the entry of `voices` that has it."""
    route_members: Mapping[tuple[Modality, str], tuple[tuple[RouteMember, Model], ...]] = attrs.field(init=False, repr=False, eq=False)
    """Modality and name of a route → its members, each with its model."""
    _by_alias: Mapping[tuple[Modality, str], Model] = attrs.field(init=False, repr=False, eq=False)
    _by_name: Mapping[tuple[Modality, str], tuple[Model, ...]] = attrs.field(init=False, repr=False, eq=False)

    @by_modality.default
    def _index(self) -> Mapping[Modality, Mapping[str, Model]]:
        return {
            modality: {model.id: model for model in self.models.values() if model.modality == modality and not model.is_wildcard}
            for modality in MODALITIES
        }

    @wildcards.default
    def _wildcard_index(self) -> Mapping[Modality, Mapping[str, Model]]:
        return {
            modality: {model.provider: model for model in self.models.values() if model.modality == modality and model.is_wildcard}
            for modality in MODALITIES
        }

    @voices_by_member.default
    def _member_index(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        entries = reversed(list(self.voices.values()))  # the first entry that has a voice counts
        return {(name, voice): entry for entry in entries for name, voice in entry.items()}

    @_by_alias.default
    def _alias_index(self) -> Mapping[tuple[Modality, str], Model]:
        return {(model.modality, alias): model for model in self.models.values() for alias in model.aliases}

    @_by_name.default
    def _name_index(self) -> Mapping[tuple[Modality, str], tuple[Model, ...]]:
        index: dict[tuple[Modality, str], tuple[Model, ...]] = {}
        for model in self.models.values():
            if model.is_wildcard:
                continue
            key = (model.modality, model.name)
            index[key] = (*index.get(key, ()), model)
        return index

    @route_members.default
    def _route_index(self) -> Mapping[tuple[Modality, str], tuple[tuple[RouteMember, Model], ...]]:
        return {
            (modality, name): tuple([(m, model) for m in route.models if (model := self.find(m.model, modality)) is not None])
            for modality, routes in self.routes.items()
            for name, route in routes.items()
        }

    def of_projects(self, projects: frozenset[str]) -> Catalog:
        """Return the catalog without the projects, keys and service tokens of others, and without people."""
        return attrs.evolve(
            self,
            projects={name: project for name, project in self.projects.items() if name in projects},
            keys=tuple(key for key in self.keys if key.project in projects),
            tokens=tuple(token for token in self.tokens if token.access.projects is not None and token.access.projects <= projects),
            people=(),
            logins=(),
        )

    def provider(self, provider_id: str) -> Provider:
        provider = self.providers.get(provider_id)
        if provider is None:
            raise UnknownProviderError(name=provider_id, available=tuple(self.providers))
        return provider

    def project(self, project_id: str) -> Project:
        project = self.projects.get(project_id)
        if project is None:
            raise UnknownProjectError(name=project_id, available=tuple(self.projects))
        return project

    def find(self, model_id: str, modality: Modality) -> Model | None:
        """Return the model of an id: a listed one, or any name of a provider that has a wildcard for the modality."""
        model = self.by_modality[modality].get(model_id)
        return self._by_wildcard(*split_model_id(model_id), modality) if model is None else model

    def _named(self, name: str, modality: Modality) -> Model | None:
        """Return the first model of a route, or the model of an id."""
        if members := self.route_members.get((modality, name)):
            return members[0][1]
        return self.find(name, modality)

    def route(self, name: str, modality: Modality, project: Project) -> ModelRoute | None:
        """Return the route that a caller means by its name, or by that of a stack that has it for the modality."""
        routes = self.routes.get(modality)
        if not routes:
            return None
        if name in routes or self.find(name, modality) is not None:
            return routes.get(name)
        stack = self.stacks.get(project.default_stack if name in _UNNAMED else name)
        return None if stack is None else routes.get(stack.model(modality) or "")

    def _by_wildcard(self, provider: str, name: str, modality: Modality) -> Model | None:
        entry = self.wildcards[modality].get(provider)
        if entry is None or not _may_be_a_name(name) or ANY_NAME in name:
            return None
        return msgspec.structs.replace(entry, id=f"{provider}/{name}", name=name)

    def resolve(self, name: str, modality: Modality, project: Project, *, dialect_provider: str = "") -> Model:
        """Return the model that a caller means by `name`.

        Order: route name, which means its first model here; model id, listed or of a wildcard; stack name; alias; "" or
        "default" = the project's stack, else the vendor's documented default where no model of the dialect's vendor is in the
        chain, else the head of the chain, else the only model, else for a client of LiveKit's inference the documented default
        of the first provider that has one, else that of the only wildcard's vendor; a bare vendor name = the dialect's own
        provider (an id or a type), else the one model of that name whose provider is configured, else a model that is not
        listed, of the dialect's vendor, else, where that vendor is not configured at all, the default model, else a model of
        the wildcard of the dialect's vendor, or of the only one.
        Raises UnknownModelError (listing this modality's ids) or UnknownProviderError (an id whose provider is not configured).
        """
        models = self.by_modality[modality]
        model = self._named(name, modality) or self._in_stack(name, modality) or self._by_alias.get((modality, name))
        if model is None and name not in _UNNAMED:
            model = self._by_vendor_name(name, modality, dialect_provider)
            if model is None and (modality, name) not in self._by_name:
                model = self._unlisted(name, modality, project, dialect_provider)
        if model is None and (name in _UNNAMED or self._is_foreign(name, dialect_provider)):
            model = self._default(modality, project, dialect_provider)
        if model is None and (modality, name) not in self._by_name:
            model = self._by_only_wildcard(name, modality, dialect_provider)
        if model is not None:
            return model
        provider, _ = split_model_id(name)
        if provider and provider not in self.providers:
            raise UnknownProviderError(name=provider, available=tuple(self.providers))
        wildcards = (entry.id for entry in self.wildcards[modality].values())
        raise UnknownModelError(name=name, available=(*models, *wildcards))

    def _by_only_wildcard(self, name: str, modality: Modality, dialect: str) -> Model | None:
        """Return the model of a vendor's name, without the provider: that of the dialect's vendor, else of the only wildcard."""
        entries = list(self.wildcards[modality])
        own = [id_ for id_ in entries if dialect in (id_, self.provider(id_).type)]
        chosen = own[:1] or entries
        if len(chosen) != 1:
            return None
        kind, maker = PROVIDER_TYPES.get(self.provider(chosen[0]).type), split_model_id(name)[0]
        if maker and (maker in self.providers or kind is None or not kind.names_with_slash):
            return None
        return self._by_wildcard(chosen[0], name, modality)

    def _is_foreign(self, name: str, dialect: str) -> bool:
        """Return whether `name` is a bare name of a vendor that is not configured, from an app that moved here from it.

        OpenAI's protocol is spoken by many vendors, so an unknown name in it is a mistake.
        """
        if not dialect or dialect in _SHARED_DIALECTS or "/" in name:
            return False
        return all(dialect not in (provider.id, provider.type) for provider in self.providers.values())

    def is_listed(self, model: Model) -> bool:
        """Return whether `model` is one of the catalog, and not a name that a caller wrote."""
        return model.id in self.by_modality[model.modality]

    def _unlisted(self, name: str, modality: Modality, project: Project, dialect: str) -> Model | None:
        """Return the model of that name at the vendor whose protocol the caller speaks; None where it is not configured."""
        if dialect == _RESELLER:
            dialect, name = split_model_id(name)
        if not self.unlisted_models or not _may_be_a_name(name):
            return None
        if "/" in name and not self._is_vendor_name(name, dialect):
            return None
        vendors = [p for p in self.providers.values() if p.type == dialect and self._is_usable(p, modality, project)]
        vendors.sort(key=lambda provider: provider.id != dialect)  # stable: else the first of the configuration
        return Model(modality=modality, provider=vendors[0].id, name=name) if vendors else None

    def _is_vendor_name(self, name: str, dialect: str) -> bool:
        """Return whether a name with a slash may be one of the dialect's vendor: its maker goes first, as in `openai/gpt-oss-20b`.

        What begins with the id of a provider is an id of this gateway, unless that id is a vendor's own name.
        """
        kind, maker = PROVIDER_TYPES.get(dialect), split_model_id(name)[0]
        if kind is None or not kind.names_with_slash or not all(name.split("/")):
            return False
        provider = self.providers.get(maker)
        return provider is None or (provider.type == maker and maker != dialect)

    @staticmethod
    def _is_usable(provider: Provider, modality: Modality, project: Project) -> bool:
        kind = PROVIDER_TYPES.get(provider.type)
        has_key = provider.configured or (provider.enabled and provider.id in project.provider_keys)
        return has_key and kind is not None and kind.own_models and modality in kind.modalities

    def _in_stack(self, name: str, modality: Modality) -> Model | None:
        stack = self.stacks.get(name)
        return None if stack is None else self._named(stack.model(modality) or "", modality)

    def _default(self, modality: Modality, project: Project, dialect: str) -> Model | None:
        """Return the model of a request that names none, or one of a vendor that is not configured."""
        models = self.by_modality[modality]
        model = self._in_stack(project.default_stack, modality)
        if model is not None:
            return model
        chain = [model for id_ in self._chain(modality, project) if (model := self.find(id_, modality)) is not None]
        own = (m for m in chain if (p := self.providers.get(m.provider)) is not None and dialect in (p.id, p.type))
        kind = PROVIDER_TYPES.get(dialect)
        if dialect not in _SHARED_DIALECTS and (model := next(own, None)) is not None:
            return model
        if kind is not None and (name := kind.default_models.get(modality)):
            model = self._by_vendor_name(name, modality, dialect) or self._unlisted(name, modality, project, dialect)
            if model is not None:
                return model
        if chain:
            return chain[0]
        if dialect == _RESELLER and not models:
            return self._first_vendors_default(modality, project)
        if not models and len(wildcards := self.wildcards[modality]) == 1:
            return self._vendors_default(next(iter(wildcards)), modality)
        return next(iter(models.values())) if len(models) == 1 else None

    def _vendors_default(self, provider_id: str, modality: Modality) -> Model | None:
        """Return the model that the vendor of a wildcard takes for a request without one, where its documentation names it."""
        kind = PROVIDER_TYPES.get(self.provider(provider_id).type)
        name = kind.default_models.get(modality) if kind is not None else None
        return self._by_wildcard(provider_id, name, modality) if name else None

    def _first_vendors_default(self, modality: Modality, project: Project) -> Model | None:
        """Return the documented default of the first provider that has one: a reseller chooses for its clients."""
        for provider in self.providers.values():
            kind = PROVIDER_TYPES.get(provider.type)
            if kind is not None and (name := kind.default_models.get(modality)) and self._is_usable(provider, modality, project):
                return self._unlisted(f"{provider.type}/{name}", modality, project, _RESELLER)
        return None

    def _by_vendor_name(self, name: str, modality: Modality, dialect_provider: str) -> Model | None:
        matches = self._by_name.get((modality, name), ())
        if dialect_provider:
            for model in matches:
                if model.provider == dialect_provider:
                    return model
            for model in matches:
                provider = self.providers.get(model.provider)
                if provider is not None and provider.type == dialect_provider:
                    return model
        if len(matches) > 1:
            matches = tuple(m for m in matches if (p := self.providers.get(m.provider)) is not None and p.configured)
        return matches[0] if len(matches) == 1 else None

    def _chain(self, modality: Modality, project: Project) -> tuple[str, ...]:
        own = project.fallbacks.get(modality)
        return self.chains.get(modality, ()) if own is None else own

    def candidates(self, model: Model, project: Project, *, fallback: bool = True) -> tuple[Model, ...]:
        """Return `model`, then the other models of the project's or the global chain of its modality, in order."""
        if not fallback:
            return (model,)
        ids = (id_ for id_ in self._chain(model.modality, project) if id_ != model.id)
        others = (other for id_ in ids if (other := self.find(id_, model.modality)) is not None)
        return (model, *others)


def _may_be_a_name(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME and name.isprintable()



@attrs.define(eq=False)
class CurrentCatalog:
    """The catalog of requests that begin from now on. A running request keeps the catalog it began with."""

    catalog: Catalog
