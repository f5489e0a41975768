"""Creating, changing and deleting providers through the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET

from gw.admin.addresses import checked_base_url
from gw.admin.registrar import Registrar, address_of
from gw.admin.reports import Json
from gw.admin.request_models import CreateProvider, UpdateProvider, checked_api_key, checked_id, read
from gw.errors import ClientProtocolError, ConflictError, ReadOnlyError, RequestError
from gw.types.address import host_of
from gw.types.entities import Actor, StoredModel, StoredProvider, name_of
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.secret import Secret

_REDACTED = "(redacted)"


async def create(registrar: Registrar, body: Mapping[str, object], by: Actor) -> Json:
    """Raises RequestError, ConflictError."""
    given = read(body, CreateProvider)
    provider_id = checked_id(given.provider_id, "provider_id")
    kind = _checked_type(given.provider_type or provider_id, explicit=given.provider_type is not None)
    key = Secret(checked_api_key(given.api_key))
    async with registrar.change(by) as draft:
        if provider_id in registrar.catalog.providers or ("provider", provider_id) in draft.stored:
            raise ConflictError(what=f"there is a provider {provider_id!r} already")
        made = StoredProvider(
            id=provider_id, type=kind, base_url=_address(registrar, kind, given.base_url), masked=key.masked
        )
        made = msgspec.structs.replace(made, key=await registrar.encrypt(made, key, draft))
        draft.put(made, "create", _shown(made))
    return {"provider_id": provider_id, "source": "db", "api_key_masked": key.masked}


async def update(registrar: Registrar, provider_id: str, body: Mapping[str, object], by: Actor) -> Json:
    """Raises RequestError (400 when the stored key would go to another host), ReadOnlyError, UnknownProviderError.

    And ConflictError for a type that does not offer what the provider's models need.
    """
    given = read(body, UpdateProvider)
    async with registrar.change(by) as draft:
        before = _own(registrar, provider_id)
        kind = _checked_type(before.type if given.provider_type is UNSET else given.provider_type, explicit=True)
        base_url = before.base_url if given.base_url is UNSET else given.base_url
        if kind != before.type or base_url != before.base_url:  # what is good for one type may not be for another
            base_url = _address(registrar, kind, base_url)
            _check_models(_models(registrar, provider_id), kind)
        after = msgspec.structs.replace(before, type=kind, base_url=base_url)
        if given.api_key is not UNSET:
            key = Secret(checked_api_key(given.api_key))
            after = msgspec.structs.replace(after, masked=key.masked, key=await registrar.encrypt(after, key, draft))
        elif before.key and address_of(before) != address_of(after):
            after = await _moved(registrar, before, after)
        if changes := _differences(before, after):
            draft.put(after, "update", changes)
    return {"provider_id": provider_id, "updated": True}


async def delete(registrar: Registrar, provider_id: str, *, confirm: bool, cascade: bool, by: Actor) -> Json:
    """Without `confirm` nothing is deleted and the answer says what would be. Raises ConflictError for one with models."""
    if not confirm:
        _own(registrar, provider_id)
        return {"would_delete": _preview(registrar, provider_id)}
    async with registrar.change(by) as draft:
        before, models = _own(registrar, provider_id), _models(registrar, provider_id)
        if models and not cascade:
            named = ", ".join(sorted({model.id for model in models}))
            what = f"provider {provider_id!r} has models ({named}); delete them first, or with cascade=true"
            raise ConflictError(what=what)
        for model in models:
            draft.remove(name_of(model), {"provider": provider_id})
        draft.remove(name_of(before), _shown(before))
    return {"deleted": provider_id}


def _preview(registrar: Registrar, provider_id: str) -> Json:
    """What goes with the provider, and the projects that use it: by their default stack or with a key of their own."""
    catalog, ids = registrar.catalog, sorted({model.id for model in _models(registrar, provider_id)})
    stacks = {s.name for s in catalog.stacks.values() if {s.stt, s.llm, s.tts} & set(ids)}
    users = [p.id for p in catalog.projects.values() if p.default_stack in stacks or provider_id in p.provider_keys]
    return {"provider_id": provider_id, "models": ids, "projects": users}


def _own(registrar: Registrar, provider_id: str) -> StoredProvider:
    """One made through the API, also when it is set aside because it fits no more: else nobody could get rid of it."""
    entry = registrar.catalog.providers.get(provider_id)
    stored = registrar.stored.get(("provider", provider_id))
    if isinstance(stored, StoredProvider) and (entry is None or entry.source == "db"):
        return stored
    raise ReadOnlyError(entity="provider", id=registrar.catalog.provider(provider_id).id)


def _models(registrar: Registrar, provider_id: str) -> list[StoredModel]:
    return [m for m in registrar.stored.values() if isinstance(m, StoredModel) and m.provider == provider_id]


def _check_models(models: Iterable[StoredModel], kind: str) -> None:
    offered = PROVIDER_TYPES[kind].modalities
    if misfits := sorted(model.id for model in models if model.modality not in offered):
        what = f"the type {kind!r} offers {', '.join(offered)} only; delete {', '.join(misfits)} first"
        raise ConflictError(what=what)


def _checked_type(name: str, *, explicit: bool) -> str:
    if name not in PROVIDER_TYPES:
        hint = "" if explicit else " (the type defaults to the id; give provider_type)"
        what = f"unknown provider type {name!r}{hint}; there are: {', '.join(PROVIDER_TYPES)}"
        raise RequestError(what=what, param="provider_type")
    return name


def _address(registrar: Registrar, kind: str, base_url: str | None) -> str | None:
    return checked_base_url(base_url, PROVIDER_TYPES[kind].location, registrar.settings.serve.provider_base_url_hosts)


async def _moved(registrar: Registrar, before: StoredProvider, after: StoredProvider) -> StoredProvider:
    """The stored key at another place: only where the operator's list names it, else somebody could send it to himself."""
    host = host_of(after.base_url) if after.base_url else ""
    if host not in {h.lower() for h in registrar.settings.serve.provider_base_url_hosts}:
        what = "the stored key is bound to the present base_url; send the api_key along to move it"
        raise ClientProtocolError(what=what, param="base_url")
    vault = await registrar.vault()
    key = vault.decrypt(before.key.encode(), provider=before.id, origin=address_of(before))
    token = vault.encrypt(key, provider=after.id, origin=address_of(after)).decode()
    return msgspec.structs.replace(after, key=token)


def _shown(provider: StoredProvider) -> dict[str, object]:
    key = _REDACTED if provider.key else ""
    return {"provider_type": provider.type, "base_url": provider.base_url, "api_key": key}


def _differences(before: StoredProvider, after: StoredProvider) -> dict[str, object]:
    old, new = _shown(before), _shown(after)
    changes: dict[str, object] = {k: {"from": old[k], "to": new[k]} for k in old if old[k] != new[k]}
    if before.key != after.key and "api_key" not in changes:
        changes["api_key"] = {"from": _REDACTED, "to": _REDACTED}
    return changes
