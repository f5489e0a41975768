"""Endpoints: where the models of a project are called, with which key and how."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gw.errors import CandidateSkipped, KeyDecryptError, PluginMissing, UnknownProviderError
from gw.net.http1 import Pool
from gw.policy.learnt_slots import LearntSlots
from gw.providers.spec import Account, ProviderSpec, spec_of
from gw.registry.catalog import Catalog, Model, Provider
from gw.types.entities import Project
from gw.types.ids import Modality

_MOST_ENDPOINTS = 4_000


class Endpoints:
    """Builds each Account once per catalog; a swapped catalog starts over."""

    def __init__(self, pool: Pool, slots_of: Callable[[Provider, Model, str], LearntSlots]) -> None:
        """`slots_of` returns what is learnt of the vendor's slots for a model and the project whose own key is used, if one is."""
        self._pool, self._slots_of = pool, slots_of
        self._catalog: Catalog | None = None
        self._accounts: dict[tuple[str, str, Modality, str], Account] = {}
        self._call_state: dict[str, dict[str, Any]] = {}  # by provider id, kept when the catalog is swapped
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
            if len(self._by_model) >= _MOST_ENDPOINTS:  # names of callers that are not listed
                self._accounts, self._by_model = {}, {}
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
        owner = project.id if own_key else ""
        key = (provider.id, model.id, model.modality, owner)
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = Account(
                provider_id=provider.id,
                model=model.name,
                origin=spec.origin(provider.id, provider.base_url, provider.options, public_only=provider.public_only),
                api_key=own_key or provider.api_key,
                pool=self._pool,
                options=provider.options,
                call_state=self._call_state.setdefault(provider.id, {}),
                slots=self._slots_of(provider, model, owner),
            )
        return provider, spec, account
