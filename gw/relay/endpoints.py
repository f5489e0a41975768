"""Catalog entries made callable: the spec of a provider's type, and an Account for a model and project."""

from __future__ import annotations

from contextlib import suppress

from gw.errors import CandidateSkipped, KeyDecryptError, PluginMissing, UnknownProviderError
from gw.net.http1 import Pool
from gw.providers.spec import Account, ProviderSpec, spec_of
from gw.registry.catalog import Catalog, Model, Provider
from gw.types.project import Project
from gw.types.secret import Secret


class Endpoints:
    """Builds each Account once per catalog; a swapped catalog begins anew."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._catalog: Catalog | None = None
        self._made: dict[tuple[str, str, str], Account] = {}
        self._found: dict[tuple[str, str], tuple[Provider, ProviderSpec, Account]] = {}

    @staticmethod
    def warm(catalog: Catalog) -> None:
        """Import the providers in use now, so that no request waits for it. A type we cannot serve fails when it is called."""
        for provider in catalog.providers.values():
            with suppress(UnknownProviderError, PluginMissing):
                spec_of(provider.type)

    def get(self, catalog: Catalog, model: Model, project: Project) -> tuple[Provider, ProviderSpec, Account]:
        """Raises CandidateSkipped when the provider is switched off or has no key."""
        if catalog is not self._catalog:
            self._catalog = catalog
            self._made, self._found = {}, {}
        key = (model.id, project.id)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._find(catalog, model, project)
        return found

    def _find(self, catalog: Catalog, model: Model, project: Project) -> tuple[Provider, ProviderSpec, Account]:
        provider = catalog.provider(model.provider)
        own_key = project.provider_keys.get(provider.id)
        if not provider.enabled:
            raise CandidateSkipped(provider=provider.id, reason="disabled", detail="switched off in the configuration")
        if provider.key_error and not own_key:
            raise KeyDecryptError(provider=provider.id)
        if not (provider.configured or own_key):
            raise CandidateSkipped(
                provider=provider.id, reason="not_configured", detail="no API key"
            )
        try:
            spec = spec_of(provider.type)
        except UnknownProviderError as error:
            what = f"this version has no provider of type {provider.type!r}"
            raise CandidateSkipped(provider=provider.id, reason="not_configured", detail=what) from error
        key = (provider.id, model.name, project.id if own_key else "")
        account = self._made.get(key)
        if account is None:
            account = self._made[key] = self._build(provider, spec, model, own_key or provider.api_key)
        return provider, spec, account

    def _build(self, provider: Provider, spec: ProviderSpec, model: Model, api_key: Secret) -> Account:
        return Account(
            provider_id=provider.id,
            model=model.name,
            origin=spec.origin(provider.id, provider.base_url, provider.options, public_only=provider.public_only),
            api_key=api_key,
            pool=self._pool,
            options=provider.options,
        )
