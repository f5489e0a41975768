"""Creating, changing, deleting and testing providers through the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
import trio
from msgspec import UNSET, UnsetType

from gw.admin.registrar import Deleted, Registrar, address_of, differences
from gw.admin.request_models import Body, checked_id, read
from gw.admin.schemas import Schema
from gw.errors import ClientProtocolError, ConflictError, GwError, ProviderError, ReadOnlyError, RequestError
from gw.net.http1 import Pool
from gw.providers.spec import Account, ProviderSpec, spec_of
from gw.registry.catalog import Provider
from gw.types.address import host_of, is_never_called, is_public
from gw.types.entities import Actor, Model, StoredProvider, name_of
from gw.types.ids import Source
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.secret import Secret

CAP_S = 10.0
_ANSWER_LIMIT = 1_000_000
_REDACTED = "(redacted)"


class CreateProvider(Body):
    provider_id: str
    provider_type: str | None = None
    """Default: the id."""
    api_key: str | None = None
    base_url: str | None = None


class UpdateProvider(Body):
    provider_type: str | UnsetType = UNSET
    api_key: str | UnsetType = UNSET
    base_url: str | UnsetType | None = UNSET


class ProviderCreated(Schema):
    provider_id: str
    source: Source
    api_key_masked: str


class ProviderUpdated(Schema):
    provider_id: str
    updated: bool


class ProviderPreviewed(Schema):
    provider_id: str
    models: list[str]
    projects: list[str]


class ProviderPreview(Schema):
    would_delete: ProviderPreviewed


async def create(registrar: Registrar, body: Mapping[str, object], by: Actor) -> ProviderCreated:
    """Raises RequestError, ConflictError."""
    request = read(body, CreateProvider)
    provider_id = checked_id(request.provider_id, "provider_id")
    kind = _checked_type(request.provider_type or provider_id, explicit=request.provider_type is not None)
    key = Secret(checked_api_key(request.api_key))
    async with registrar.change(by) as draft:
        if provider_id in registrar.catalog.providers or ("provider", provider_id) in draft.stored:
            raise ConflictError(what=f"the provider {provider_id!r} exists already")
        base_url = _checked_address(registrar, kind, request.base_url)
        provider = StoredProvider(id=provider_id, type=kind, base_url=base_url, masked=key.masked)
        provider = msgspec.structs.replace(provider, key=await registrar.encrypt(provider, key, draft))
        draft.put(provider, "create", _audited(provider))
    return ProviderCreated(provider_id=provider_id, source="db", api_key_masked=key.masked)


async def update(registrar: Registrar, provider_id: str, body: Mapping[str, object], by: Actor) -> ProviderUpdated:
    """Raises RequestError (400 when the stored key would go to another host), ReadOnlyError, UnknownProviderError.

    Also raises ConflictError for a type that does not offer what the provider's models need.
    """
    request = read(body, UpdateProvider)
    async with registrar.change(by) as draft:
        before = _editable(registrar, provider_id)
        kind = _checked_type(before.type if request.provider_type is UNSET else request.provider_type, explicit=True)
        base_url = before.base_url if request.base_url is UNSET else request.base_url
        if kind != before.type or base_url != before.base_url:  # an address that suits one type may not suit another
            base_url = _checked_address(registrar, kind, base_url)
            _check_models(_models(registrar, provider_id), kind)
        after = msgspec.structs.replace(before, type=kind, base_url=base_url)
        if request.api_key is not UNSET:
            key = Secret(checked_api_key(request.api_key))
            after = msgspec.structs.replace(after, masked=key.masked, key=await registrar.encrypt(after, key, draft))
        elif before.key and address_of(before) != address_of(after):
            after = await _with_moved_key(registrar, before, after)
        changes = differences(_audited(before), _audited(after))
        if before.key != after.key:
            changes.setdefault("api_key", {"from": _REDACTED, "to": _REDACTED})
        if changes:
            draft.put(after, "update", changes)
    return ProviderUpdated(provider_id=provider_id, updated=True)


async def delete(
    registrar: Registrar, provider_id: str, *, confirm: bool, cascade: bool, by: Actor
) -> ProviderPreview | Deleted:
    """Delete, or without `confirm` only return what would be deleted. Raises ConflictError for a provider with models."""
    if not confirm:
        _editable(registrar, provider_id)
        return ProviderPreview(would_delete=_preview(registrar, provider_id))
    async with registrar.change(by) as draft:
        provider, models = _editable(registrar, provider_id), _models(registrar, provider_id)
        if models and not cascade:
            names = ", ".join(sorted({model.id for model in models}))
            what = f"provider {provider_id!r} has models ({names}); delete them first, or with cascade=true"
            raise ConflictError(what=what)
        for model in models:
            draft.remove(name_of(model), {"provider": provider_id})
        draft.remove(name_of(provider), _audited(provider))
    return Deleted(deleted=provider_id)


def _preview(registrar: Registrar, provider_id: str) -> ProviderPreviewed:
    """Return what goes with the provider, and the projects that use it by their default stack or with their own key."""
    catalog, ids = registrar.catalog, sorted({model.id for model in _models(registrar, provider_id)})
    stacks = {s.name for s in catalog.stacks.values() if {s.stt, s.llm, s.tts} & set(ids)}
    users = [p.id for p in catalog.projects.values() if p.default_stack in stacks or provider_id in p.provider_keys]
    return ProviderPreviewed(provider_id=provider_id, models=ids, projects=users)


def _editable(registrar: Registrar, provider_id: str) -> StoredProvider:
    """Return a stored provider, also an ignored one, since it could not be deleted otherwise."""
    entry = registrar.catalog.providers.get(provider_id)
    stored = registrar.stored.get(("provider", provider_id))
    if isinstance(stored, StoredProvider) and (entry is None or entry.source == "db"):
        return stored
    raise ReadOnlyError(entity="provider", id=registrar.catalog.provider(provider_id).id)


def _models(registrar: Registrar, provider_id: str) -> list[Model]:
    return [m for m in registrar.stored.values() if isinstance(m, Model) and m.provider == provider_id]


def _check_models(models: Iterable[Model], kind: str) -> None:
    offered = PROVIDER_TYPES[kind].modalities
    if misfits := sorted(model.id for model in models if model.modality not in offered):
        what = f"the type {kind!r} offers {', '.join(offered)} only; delete {', '.join(misfits)} first"
        raise ConflictError(what=what)


def _checked_type(name: str, *, explicit: bool) -> str:
    if name not in PROVIDER_TYPES:
        hint = "" if explicit else " (the type defaults to the id; set provider_type)"
        what = f"unknown provider type {name!r}{hint}; known types: {', '.join(PROVIDER_TYPES)}"
        raise RequestError(what=what, param="provider_type")
    return name


def checked_api_key(value: str | None, param: str = "api_key") -> str:
    key = value or ""
    if len(key) > 4_096 or not key.isascii() or any(not c.isprintable() or c == " " for c in key):
        raise RequestError(what=f"{param} must be printable ASCII without spaces", param=param)
    return key


async def _with_moved_key(registrar: Registrar, before: StoredProvider, after: StoredProvider) -> StoredProvider:
    """Bind the stored key to a new host, which the operator must have listed: otherwise a caller could steal the key."""
    host = host_of(after.base_url) if after.base_url else ""
    if not _is_listed(registrar, host):
        what = "the stored key is bound to the present base_url; send the api_key along to move it"
        raise ClientProtocolError(what=what, param="base_url")
    vault = await registrar.vault()
    key = vault.decrypt(before.key.encode(), provider=before.id, origin=address_of(before))
    token = vault.encrypt(key, provider=after.id, origin=address_of(after)).decode()
    return msgspec.structs.replace(after, key=token)


def _audited(provider: StoredProvider) -> dict[str, object]:
    """Return what the audit log has of a provider."""
    key = _REDACTED if provider.key else ""
    return {"provider_type": provider.type, "base_url": provider.base_url, "api_key": key}


def _checked_address(registrar: Registrar, kind: str, value: str | None) -> str | None:
    """Return `value` without a trailing slash, None for an empty one. Raises RequestError.

    The scheme is http(s), for a local provider also tcp. Link-local and metadata addresses are refused; private ones and
    this machine are only for local providers, and for hosts in `serve.provider_base_url_hosts`: the admin token's holder
    must not reach the network around the gateway through it (server-side request forgery). The address that a name
    resolves to is checked when it is connected to (`Origin.public_only`).
    """
    if not value:
        if form := PROVIDER_TYPES[kind].address:
            raise RequestError(what=f"a provider of type {kind} needs base_url, such as {form}", param="base_url")
        return None
    location = PROVIDER_TYPES[kind].location
    try:
        host = host_of(value, tcp=location == "local")
    except ValueError as error:
        raise RequestError(what=f"base_url: {error}", param="base_url") from None
    if is_never_called(host):
        raise RequestError(what="base_url is a link-local or metadata address, which is never called", param="base_url")
    if location == "cloud" and not _is_listed(registrar, host) and _is_inside(host):
        what = "base_url is a private address; list its host in serve.provider_base_url_hosts to allow it"
        raise RequestError(what=what, param="base_url")
    return value.rstrip("/")


def _is_listed(registrar: Registrar, host: str) -> bool:
    return host in {h.lower() for h in registrar.settings.serve.provider_base_url_hosts}


def _is_inside(host: str) -> bool:
    """Return whether a host is this machine, a non-public address, or an unusual spelling of one."""
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return not is_public(host)
    except ValueError:
        last = host.rpartition(".")[2]
        return last.isdigit() or last.startswith("0x")  # 2130706433, 0x7f.1, 127.1: some resolvers accept these


# ---- testing


class ProviderHealth(Schema):
    """A provider that cannot be reached or refuses the key is `failed`, and the HTTP status is still 200. `message` is for
    people and contains nothing the vendor wrote."""

    status: Literal["ok", "failed"]
    latency_ms: int
    message: str

    @property
    def ok(self) -> bool:
        return self.status == "ok"


async def check_provider(provider: Provider, pool: Pool) -> ProviderHealth:
    """Request the provider's health path with its key, within 10 s. Failures are results, not exceptions."""
    began = trio.current_time()
    ok, message = False, f"no answer within {CAP_S:g} s"
    with trio.move_on_after(CAP_S):
        try:
            ok, message = await _check(provider, pool)
        except ProviderError as error:
            message = error.message
        except (GwError, ModuleNotFoundError) as error:
            message = str(error) if isinstance(error, GwError) else f"{error.name} is not installed"
        except ValueError:
            message = "its base_url is not an http(s) address"
    latency_ms = round((trio.current_time() - began) * 1_000)
    return ProviderHealth(status="ok" if ok else "failed", latency_ms=latency_ms, message=message)


async def _check(provider: Provider, pool: Pool) -> tuple[bool, str]:
    if not provider.enabled:
        return False, "switched off in the configuration"
    if not provider.configured:
        return False, provider.key_error or "no API key"
    spec = spec_of(provider.type)
    origin = spec.origin(provider.id, provider.base_url, provider.options, public_only=provider.public_only)
    if spec.check is not None:
        account = Account(
            provider_id=provider.id, model="", origin=origin, api_key=provider.api_key, pool=pool, options=provider.options
        )
        await spec.check(account)
        return True, "the engine is loaded" if origin.scheme == "engine" else "the server answers"
    if not (spec.needs_address and spec.health_path):
        return True, "runs inside the gateway"
    path = spec.health_path.encode()
    headers = [(b"accept", b"application/json"), *spec.key_headers(provider.api_key)]
    async with pool.open(provider.id, b"GET", origin, path, headers) as response:
        await response.read(_ANSWER_LIMIT)
        return _verdict(response.status, spec)


def _verdict(status: int, spec: ProviderSpec) -> tuple[bool, str]:
    if status == 404:
        return False, f"nothing at {spec.health_path} (HTTP 404): check base_url"
    return 200 <= status < 300, f"the key was refused (HTTP {status})" if status in (401, 403) else f"HTTP {status}"
