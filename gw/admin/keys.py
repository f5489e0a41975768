"""The gateway's own keys: made for a project, shown once, kept as a hash."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hashlib import sha256

from gw.admin.registrar import Registrar
from gw.admin.reports import Json
from gw.admin.request_models import CreateKey, checked_expiry, checked_text, read
from gw.errors import UnknownKeyError
from gw.types.entities import Actor, StoredKey, name_of

PREFIX = "gwk_"
_DEFAULT_PROJECT = "default"


async def create(registrar: Registrar, body: Mapping[str, object], by: Actor) -> Json:
    """The answer is the only place where the key stands. Raises RequestError, UnknownProjectError."""
    given = read(body, CreateKey)
    key = PREFIX + secrets.token_urlsafe(32)
    async with registrar.change(by) as draft:
        project = registrar.catalog.project(given.project or _DEFAULT_PROJECT)
        made = StoredKey(
            id=f"key_{secrets.token_hex(6)}",
            digest=sha256(key.encode()).hexdigest(),
            masked=f"{key[:8]}…{key[-4:]}",
            name=checked_text(given.name, "name"),
            project=project.id,
            created_at=draft.now,
            expires_at=checked_expiry(given.expires_at, draft.now),
        )
        shown = _shown(made)
        draft.put(made, "create", {"name": made.name, "project": made.project, "expires_at": made.expires_at})
    return {**shown, "key": key}


def listing(registrar: Registrar) -> Json:
    """Those of the configuration, which cannot be revoked here, then those made through the API, the oldest first."""
    static = [
        {
            "key_id": key.name or f"key-{number}",
            "name": key.name,
            "project": key.project,
            "key_masked": key.key.masked,
            "created_at": None,
            "expires_at": None,
            "source": "yaml",
        }
        for number, key in enumerate(registrar.settings.auth.keys, 1)
    ]
    made = [key for key in registrar.stored.values() if isinstance(key, StoredKey)]
    return {"keys": static + [_shown(key) for key in sorted(made, key=lambda key: (key.created_at, key.id))]}


async def revoke(registrar: Registrar, key_id: str, *, confirm: bool, by: Actor) -> Json:
    """Effective for the next request. Without `confirm` nothing is revoked. Raises UnknownKeyError."""
    if not confirm:
        key = _own(registrar, key_id)
        return {"would_delete": {"key_id": key_id, "name": key.name, "project": key.project}}
    async with registrar.change(by) as draft:
        key = _own(registrar, key_id)
        draft.remove(name_of(key), {"name": key.name, "project": key.project})
    return {"deleted": key_id}


def _own(registrar: Registrar, key_id: str) -> StoredKey:
    found = registrar.stored.get(("key", key_id))
    if not isinstance(found, StoredKey):
        own = tuple(key.id for key in registrar.stored.values() if isinstance(key, StoredKey))
        raise UnknownKeyError(name=key_id, available=own)
    return found


def _shown(key: StoredKey) -> Json:
    return {
        "key_id": key.id,
        "name": key.name,
        "project": key.project,
        "key_masked": key.masked,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "source": "db",
    }
