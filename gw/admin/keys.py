"""API keys of the gateway itself: each is made for one project, shown once and stored as a hash."""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gw.admin.budget_use import BUDGETS, BudgetUse, SpentIn, budgets_in_use, checked_budget, in_nusd
from gw.admin.registrar import Deleted, Registrar, differences
from gw.admin.request_models import Body, Checks, checked, checked_names, checked_text, read, unchecked, update_body
from gw.admin.schemas import Schema, Usd, from_attributes, in_turns, usd
from gw.errors import RequestError, UnknownKeyError
from gw.policy.spend_periods import BudgetPeriod
from gw.types.entities import DEFAULT_PROJECT, Actor, StoredKey, name_of
from gw.types.ids import KeyLimits, Modality, Source, is_model_pattern

PREFIX = "gwk_"
NO_LIMITS = KeyLimits()
_MOST_MODELS = 200


class KeySettings(Body):
    """Settings of a key that can be changed later. A budget that is spent refuses the key's requests with 402."""

    name: str | None = None
    expires_at: float | None = None
    """Unix seconds; null = never."""
    daily_budget: float | None = None
    """USD a UTC day; 0 or null = none."""
    weekly_budget: float | None = None
    """USD a week from Monday, UTC; 0 or null = none."""
    monthly_budget: float | None = None
    """USD a calendar month, UTC; 0 or null = none."""
    total_budget: float | None = None
    """USD in all; 0 or null = none."""
    models: list[str] | None = None
    """Ids of the models it may use, or `<provider>/*`; empty or null = all."""
    modalities: list[Modality] | None = None
    """Empty or null = all."""
    regions: list[str] | None = None
    """Regions whose providers may answer, within those of the project; `local` is for local providers that name none. Empty or
    null = all."""
    requests_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """Null = any number."""
    max_concurrent: Annotated[int, Meta(ge=1)] | None = None
    """Requests and live sessions at once; null = any number."""


class CreateKey(KeySettings):
    project: str | None = None
    """Default: `default`."""


UpdateKey = update_body("UpdateKey", KeySettings)


class KeyEntry(Schema):
    """`created_at` is null for a key of gw.yaml, `expires_at` for one that does not expire. A budget of 0 is none."""

    key_id: str
    name: str
    project: str
    key_masked: str
    created_at: float | None
    expires_at: float | None
    daily_budget: Usd
    weekly_budget: Usd
    monthly_budget: Usd
    total_budget: Usd
    models: Sequence[str]
    modalities: Sequence[Modality]
    regions: Sequence[str]
    requests_per_minute: int | None
    max_concurrent: int | None
    spent_today: Usd
    spent_total: Usd
    """Since the first request of the key, without those that had been deleted when this version first started."""
    budgets: list[BudgetUse]
    source: Source


class KeyUpdated(Schema):
    key_id: str
    updated: bool


class Keys(Schema):
    keys: list[KeyEntry]


class MadeKey(KeyEntry):
    """The only answer that shows the key."""

    key: str


class KeyPreviewed(Schema):
    key_id: str
    name: str
    project: str


class KeyPreview(Schema):
    would_delete: KeyPreviewed


async def create(registrar: Registrar, body: Mapping[str, object], by: Actor) -> MadeKey:
    """Make a key; only the returned value shows it. Raises RequestError, UnknownProjectError."""
    request = read(body, CreateKey)
    key = PREFIX + secrets.token_urlsafe(32)
    async with registrar.change(by) as draft:
        values = _values(request, draft.now)
        stored = StoredKey(
            id=f"key_{secrets.token_hex(6)}",
            digest=sha256(key.encode()).hexdigest(),
            masked=f"{key[:8]}…{key[-4:]}",
            project=registrar.catalog.project(request.project or DEFAULT_PROJECT).id,
            created_at=draft.now,
            name=values.pop("name"),
            expires_at=values.pop("expires_at"),
            limits=_limits(NO_LIMITS, values),
        )
        draft.put(stored, "create", {"project": stored.project, **_audited(stored)})
    return from_attributes(MadeKey, _entry(stored, _nothing_spent), key=key)


async def update(registrar: Registrar, key_id: str, body: Mapping[str, object], by: Actor) -> KeyUpdated:
    """Change a key from the next request on. Raises RequestError, UnknownKeyError."""
    request = read(body, UpdateKey)
    async with registrar.change(by) as draft:
        before = _stored(registrar, key_id)
        values = _values(request, draft.now)
        fields = {name: values.pop(name) for name in ("name", "expires_at") if name in values}
        after = msgspec.structs.replace(before, **fields, limits=_limits(before.limits or NO_LIMITS, values))
        if changes := differences(_audited(before), _audited(after)):
            draft.put(after, "update", changes)
    return KeyUpdated(key_id=key_id, updated=True)


async def listing(registrar: Registrar, spent_in: SpentIn, projects: Collection[str] | None = None) -> Keys:
    """Return the keys of gw.yaml, which cannot be revoked here, then those made through the API, the oldest first.

    `projects`: only their keys; None = all.
    """
    stored = [key for key in registrar.stored.values() if isinstance(key, StoredKey)]
    ordered = sorted(stored, key=lambda key: (key.created_at, key.id))
    configured = (
        _listed(key.id(number), key.name, key.project, key.key.masked, None, None, key.limits, "yaml", spent_in)
        for number, key in enumerate(registrar.settings.auth.keys, 1)
    )
    entries = await in_turns(chain(configured, (_entry(key, spent_in) for key in ordered)))
    return Keys(keys=[entry for entry in entries if projects is None or entry.project in projects])


def project_of(registrar: Registrar, key_id: str) -> str | None:
    """Return the project of a key, None for an unknown one."""
    stored = registrar.stored.get(("key", key_id))
    if isinstance(stored, StoredKey):
        return stored.project
    configured = (key.project for number, key in enumerate(registrar.settings.auth.keys, 1) if key.id(number) == key_id)
    return next(configured, None)


async def one(registrar: Registrar, key_id: str, spent_in: SpentIn) -> KeyEntry:
    """Return one key. Raises UnknownKeyError."""
    entries = (await listing(registrar, spent_in)).keys
    for entry in entries:
        if entry.key_id == key_id:
            return entry
    raise UnknownKeyError(name=key_id, available=tuple(entry.key_id for entry in entries))


async def revoke(registrar: Registrar, key_id: str, *, confirm: bool, by: Actor) -> KeyPreview | Deleted:
    """Revoke a key from the next request on; without `confirm` only return what would be. Raises UnknownKeyError."""
    if not confirm:
        key = _stored(registrar, key_id)
        return KeyPreview(would_delete=KeyPreviewed(key_id=key_id, name=key.name, project=key.project))
    async with registrar.change(by) as draft:
        key = _stored(registrar, key_id)
        draft.remove(name_of(key), {"name": key.name, "project": key.project})
    return Deleted(deleted=key_id)


def _stored(registrar: Registrar, key_id: str) -> StoredKey:
    key = registrar.stored.get(("key", key_id))
    if not isinstance(key, StoredKey):
        known = tuple(key.id for key in registrar.stored.values() if isinstance(key, StoredKey))
        raise UnknownKeyError(name=key_id, available=known)
    return key


def _entry(key: StoredKey, spent_in: SpentIn) -> KeyEntry:
    return _listed(key.id, key.name, key.project, key.masked, key.created_at, key.expires_at, key.limits, "db", spent_in)


def _listed(
    key_id: str, name: str, project: str, masked: str, created_at: float | None, expires_at: float | None,
    limits: KeyLimits | None, source: Source, spent_in: SpentIn,
) -> KeyEntry:  # fmt: skip
    limits = limits or NO_LIMITS
    return KeyEntry(
        key_id=key_id, name=name, project=project, key_masked=masked, created_at=created_at, expires_at=expires_at, source=source,
        **_shown(limits), spent_today=usd(spent_in(key_id, "day")), spent_total=usd(spent_in(key_id, "total")),
        budgets=budgets_in_use(limits, key_id, spent_in),
    )  # fmt: skip


def _shown(limits: KeyLimits) -> dict[str, Any]:
    """Return limits as bodies and answers have them."""
    budgets = {name: usd(getattr(limits, f"{name}_nusd")) for _, name in BUDGETS}
    return budgets | {name: getattr(limits, name) for name in ("models", "modalities", "regions", "requests_per_minute", "max_concurrent")}


def _audited(key: StoredKey) -> dict[str, object]:
    return {"name": key.name, "expires_at": key.expires_at, **_shown(key.limits or NO_LIMITS)}


def _nothing_spent(_key_id: str, _period: BudgetPeriod) -> int:
    return 0


def _values(body: Body, now: float) -> dict[str, Any]:
    """Return the fields to store. Raises RequestError."""
    checks: Checks = {
        "name": checked_text,
        "expires_at": partial(_checked_expiry, now),
        **{name: checked_budget for _, name in BUDGETS},
        "models": _checked_models,
        "modalities": _checked_modalities,
        "regions": checked_names,
        "requests_per_minute": unchecked,
        "max_concurrent": unchecked,
    }
    return in_nusd(checked(body, checks))


def _limits(before: KeyLimits, changed: dict[str, Any]) -> KeyLimits | None:
    limits = msgspec.structs.replace(before, **changed)
    return None if limits == NO_LIMITS else limits


def _checked_models(value: list[str] | None, param: str) -> tuple[str, ...]:
    models = tuple(dict.fromkeys(value or ()))
    for model in models:
        if not is_model_pattern(model):
            what = f"{param}: {model[:80]!r} is not a model id; write <provider>/<model>, or <provider>/* for all of a provider"
            raise RequestError(what=what, param=param)
    if len(models) > _MOST_MODELS:
        raise RequestError(what=f"{param} may have at most {_MOST_MODELS} entries", param=param)
    return models


def _checked_modalities(value: list[Modality] | None, _param: str) -> tuple[Modality, ...]:
    return tuple(dict.fromkeys(value or ()))


def _checked_expiry(now: float, value: float | None, param: str) -> float | None:
    """Return a time in Unix seconds that lies after `now`; None = never."""
    if value is not None and not (math.isfinite(value) and value > now):
        raise RequestError(what=f"{param} must be a time in the future, in Unix seconds", param=param)
    return value
