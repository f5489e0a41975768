"""API keys of the gateway itself: each is made for one project, shown once and stored as a hash."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from hashlib import sha256

from gw.admin.registrar import Deleted, Registrar
from gw.admin.request_models import Body, checked_text, read
from gw.admin.schemas import Schema, from_attributes
from gw.errors import RequestError, UnknownKeyError
from gw.types.entities import DEFAULT_PROJECT, Actor, StoredKey, name_of
from gw.types.ids import Source

PREFIX = "gwk_"


class CreateKey(Body):
    name: str | None = None
    project: str | None = None
    """Default: `default`."""
    expires_at: float | None = None
    """Unix seconds; null = never."""


class KeyEntry(Schema):
    """`created_at` is null for a key of gw.yaml, `expires_at` for one that does not expire."""

    key_id: str
    name: str
    project: str
    key_masked: str
    created_at: float | None
    expires_at: float | None
    source: Source


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
        stored = StoredKey(
            id=f"key_{secrets.token_hex(6)}",
            digest=sha256(key.encode()).hexdigest(),
            masked=f"{key[:8]}…{key[-4:]}",
            name=checked_text(request.name, "name"),
            project=registrar.catalog.project(request.project or DEFAULT_PROJECT).id,
            created_at=draft.now,
            expires_at=_checked_expiry(request.expires_at, draft.now),
        )
        draft.put(stored, "create", {name: getattr(stored, name) for name in CreateKey.__struct_fields__})
    return from_attributes(MadeKey, _entry(stored), key=key)


def listing(registrar: Registrar) -> Keys:
    """Return the keys of gw.yaml, which cannot be revoked here, then those made through the API, the oldest first."""
    configured = [
        KeyEntry(
            key_id=key.name or f"key-{number}", name=key.name, project=key.project, key_masked=key.key.masked,
            created_at=None, expires_at=None, source="yaml",
        )
        for number, key in enumerate(registrar.settings.auth.keys, 1)
    ]
    stored = [key for key in registrar.stored.values() if isinstance(key, StoredKey)]
    return Keys(keys=configured + [_entry(key) for key in sorted(stored, key=lambda key: (key.created_at, key.id))])


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


def _entry(key: StoredKey) -> KeyEntry:
    return from_attributes(KeyEntry, key, key_id=key.id, key_masked=key.masked, source="db")


def _checked_expiry(value: float | None, now: float) -> float | None:
    """Return a time in Unix seconds that lies after `now`; None = never."""
    if value is not None and not (math.isfinite(value) and value > now):
        raise RequestError(what="expires_at must be a time in the future, in Unix seconds", param="expires_at")
    return value
