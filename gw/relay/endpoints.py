"""Catalog entries made callable: the spec of a provider's type, and an Account for a model and project."""

from __future__ import annotations

from contextlib import suppress

from gw.errors import CandidateSkipped, KeyDecryptError, PluginMissing, UnknownProviderError
from gw.net.http1 import Pool
from gw.providers.spec import Account, ProviderSpec, spec_of
from gw.registry.catalog import Catalog, Model, Provider
from gw.types.entities import Project


class Endpoints:
    """Builds each Account once per catalog; a swapped catalog starts over."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._catalog: Catalog | None = None
        self._accounts: dict[tuple[str, str, str], Account] = {}
        self._by_model: dict[tuple[str, str], tuple[Provider, ProviderSpec, Account]] = {}

    @staticmethod
    def warm(catalog: Catalog) -> None:
        """Import the providers in use, so that no request waits for it. An unavailable type fails when it is called."""
        for provider in catalog.providers.values():
            with suppress(UnknownProviderError, PluginMissing):
                spec_of(provider.type)

    def get(self, catalog: Catalog, model: Model, project: Project) -> tuple[Provider, ProviderSpec, Account]:
        """Raise CandidateSkipped when the provider is switched off or has no key."""
        if catalog is not self._catalog:
            self._catalog = catalog
            self._accounts, self._by_model = {}, {}
        key = (model.id, project.id)
        endpoint = self._by_model.get(key)
        if endpoint is None:
            endpoint = self._by_model[key] = self._build(catalog, model, project)
        return endpoint

    def _build(self, catalog: Catalog, model: Model, project: Project) -> tuple[Provider, ProviderSpec, Account]:
        provider = catalog.provider(model.provider)
        own_key = project.provider_keys.get(provider.id)
        if not provider.enabled:
            raise CandidateSkipped(provider=provider.id, reason="disabled", detail="switched off in the configuration")
        if provider.key_error and not own_key:
            raise KeyDecryptError(provider=provider.id)
        if not (provider.configured or own_key):
            raise CandidateSkipped(provider=provider.id, reason="not_configured", detail="no API key")
        try:
            spec = spec_of(provider.type)
        except UnknownProviderError as error:
            detail = f"this version has no provider of type {provider.type!r}"
            raise CandidateSkipped(provider=provider.id, reason="not_configured", detail=detail) from error
        key = (provider.id, model.name, project.id if own_key else "")
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = Account(
                provider_id=provider.id,
                model=model.name,
                origin=spec.origin(provider.id, provider.base_url, provider.options, public_only=provider.public_only),
                api_key=own_key or provider.api_key,
                pool=self._pool,
                options=provider.options,
            )
        return provider, spec, account
