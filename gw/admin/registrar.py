"""The entities created through the API, and the one way to change them: database, audit log and catalog together.

    async with registrar.change(by) as draft:
        draft.put(entity, "create", changes)    # raise before the block ends, and nothing is written

One change runs at a time. When the block ends normally, the change and its audit entries are committed in one
transaction, and the next request sees the new catalog. The secret of the stored keys is read when the first key is
needed, not before.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import msgspec
import structlog
import trio

from gw.admin.schemas import Schema
from gw.config.settings import Settings
from gw.errors import ConfigError, KeyDecryptError
from gw.registry.catalog import Catalog, CurrentCatalog
from gw.registry.merge import Merged, merge
from gw.store.entity_rows import Change
from gw.store.store import Store
from gw.telemetry.clock import DAY_S, Clock
from gw.types.address import split_address
from gw.types.entities import Action, Actor, AuditEntry, Name, Stored, StoredProvider, name_of
from gw.types.secret import Secret
from gw.vault import ContentCipher, Vault, load_secrets, new_secret, replace_secret_file

CAPTURE_KEY = "capture_key"  # name of the meta value that has the key of captured content, encrypted
KEY_CHECK = "key_check"  # name of the meta value that tells with which secret the keys were encrypted
_log = structlog.get_logger("gw.admin")


class Deleted(Schema):
    """Answer to a confirmed deletion: the entity's id."""

    deleted: str


def differences(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, object]:
    """Return the changed fields for the audit log: field → `{"from": …, "to": …}`."""
    return {name: {"from": old, "to": after[name]} for name, old in before.items() if old != after[name]}


def address_of(provider: StoredProvider) -> str:
    """Return the origin that a stored key is bound to, besides its provider's id."""
    if provider.base_url is None:
        return f"the default of {provider.type}"
    try:
        parts = split_address(provider.base_url, tcp=True)
    except ValueError:  # such an entry is ignored, and nothing is sent there
        return provider.base_url
    return f"{parts.scheme}://{parts.netloc.lower()}"


class Draft:
    """A change before it is committed. `stored` are all entities as they will be."""

    def __init__(self, stored: Mapping[Name, Stored], by: Actor, now: float) -> None:
        self.stored = dict(stored)
        self.now = now
        self.meta: list[tuple[str, str]] = []
        self._by = by
        self._put: dict[Name, Stored] = {}
        self._removed: list[Name] = []
        self._audit: list[AuditEntry] = []

    def put(self, entity: Stored, action: Action, changes: Mapping[str, object]) -> None:
        self.replace_silently(entity)
        self._add_entry(name_of(entity), action, changes)

    def remove(self, name: Name, changes: Mapping[str, object]) -> None:
        del self.stored[name]
        self._removed.append(name)
        self._add_entry(name, "delete", changes)

    def remove_silently(self, name: Name) -> None:
        """Remove an entity that has ended by itself, without an audit entry."""
        del self.stored[name]
        self._put.pop(name, None)
        self._removed.append(name)

    def replace_silently(self, entity: Stored) -> None:
        """Store another form of the same entity, such as a key under a new secret, without an audit entry."""
        name = name_of(entity)
        self.stored[name] = self._put[name] = entity

    def _add_entry(self, name: Name, action: Action, changes: Mapping[str, object]) -> None:
        kind, key = name
        entry = AuditEntry(
            timestamp=self.now, entity_type=kind, entity_id=key.partition(":")[2] if kind == "model" else key,
            action=action, changes=changes, source=self._by.source, actor=self._by.name,
        )  # fmt: skip
        self._audit.append(entry)

    def as_change(self) -> Change:
        return Change(
            put=tuple(self._put.values()), remove=tuple(self._removed), audit=tuple(self._audit), meta=tuple(self.meta)
        )


@attrs.define(eq=False)
class Registrar:
    """`learn` gets every secret that must not get into a log, `follow` every catalog that comes into force."""

    settings: Settings
    _current: CurrentCatalog
    store: Store
    clock: Clock
    _learn: Callable[[Iterable[Secret]], None]
    _follow: Callable[[Catalog], None]
    warnings: tuple[str, ...] = attrs.field(default=(), init=False)
    """The database entries that are ignored, with the reason."""
    stored: Mapping[Name, Stored] = attrs.field(factory=dict, init=False)
    follower: Callable[[], Awaitable[None]] | None = attrs.field(default=None, init=False)
    """Puts what is in force now in force in the other processes of this gateway."""
    _vault: Vault | None = attrs.field(default=None, init=False)
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    @property
    def catalog(self) -> Catalog:
        return self._current.catalog

    async def load(self, *, decrypt: bool = True) -> None:
        """Read the database and put the first catalog in force. Raises StoreUnavailable, ConfigError (the secret).

        Without `decrypt` the secret is not read, and providers with a stored key cannot be used.
        """
        self.stored = {name_of(entity): entity for entity in await self.store.entities()}
        if decrypt and any(isinstance(entity, StoredProvider) and entity.key for entity in self.stored.values()):
            vault = await self.vault()
            check = await self.store.meta(KEY_CHECK)
            if check is not None and not vault.recognises(check):
                _log.error("secret_changed", why="stored provider keys were encrypted with another secret")
        self._apply(self._merged(self.stored))

    async def reload(self, settings: Settings) -> None:
        """Put another configuration in force."""
        async with self._lock:
            self.settings = settings
            self._apply(self._merged(self.stored))

    def adopt(self, settings: Settings, catalog: Catalog) -> None:
        """Put in force what another process of this gateway has merged."""
        self.settings = settings
        self._put_in_force(catalog)

    async def spread(self) -> None:
        """Put what is in force now in force in the other processes of this gateway; a dead one is not waited for."""
        if self.follower is not None:
            await self.follower()

    @asynccontextmanager
    async def change(self, by: Actor) -> AsyncIterator[Draft]:
        """Commit what the block does to the draft.

        Raises what the block raises, DatabaseLocked and StoreUnavailable; then nothing has changed.
        """
        async with self._lock, self.store.changing() as changed_elsewhere:
            if changed_elsewhere:
                await self._read_again()
            draft = Draft(self.stored, by, self.clock.now())
            yield draft
            merged = self._merged(draft.stored)  # before writing: what cannot be merged must not be stored
            await self.store.change(draft.as_change())
            self.stored = draft.stored
            self._apply(merged)
            await self.spread()

    async def refresh(self) -> None:
        """Put in force what another gateway has changed in the database. Raises StoreUnavailable."""
        async with self._lock:
            try:
                if await self._read_again():
                    await self.spread()
            except ConfigError as error:  # the secret, for the first stored key; the catalog stays as it was
                _log.error("changes_not_applied", why=str(error))

    async def _read_again(self) -> bool:
        """Put in force what the database has; return whether that is anything new."""
        stored = {name_of(entity): entity for entity in await self.store.entities()}
        is_new = stored != self.stored
        if is_new:
            if any(isinstance(entity, StoredProvider) and entity.key for entity in stored.values()):
                await self.vault()
            self._apply(self._merged(stored))
            self.stored = stored
            _log.info("changes_received", entities=len(stored))
        return is_new

    async def vault(self) -> Vault:
        """Open the vault at its first use. Raises ConfigError when the secret cannot be read or made."""
        if self._vault is None:
            secret, folder = self.settings.secret, self.settings.secret_folder
            self._vault = await trio.to_thread.run_sync(_open_vault, secret, self.settings.previous_secret, folder)
        return self._vault

    async def capture_key(self) -> bytes:
        """Return the key of captured content, made when it is first needed. Raises KeyDecryptError, StoreUnavailable, ConfigError."""
        async with self._lock:
            vault = await self.vault()
            if (known := await self._stored_capture_key(vault)) is not None:
                return known
        async with self._lock, self.store.changing():  # two gateways must not make one each
            if (known := await self._stored_capture_key(vault)) is not None:
                return known
            fresh = ContentCipher.new_key()
            token = vault.encrypt(Secret(base64.b64encode(fresh).decode()), provider=CAPTURE_KEY, origin="").decode()
            await self.store.change(Change(meta=((CAPTURE_KEY, token), (KEY_CHECK, vault.check_value))))
            return fresh

    async def _stored_capture_key(self, vault: Vault) -> bytes | None:
        if (stored := await self.store.meta(CAPTURE_KEY)) is None:
            return None
        return base64.b64decode(vault.decrypt(stored.encode(), provider=CAPTURE_KEY, origin="").reveal())

    def capture_keep_s(self) -> Mapping[str, float]:
        """Return how long each project that captures keeps that, in seconds."""
        projects = self.catalog.projects.values()
        return {project.id: float(project.capture.keep_days * DAY_S) for project in projects if project.capture is not None}

    async def record_reading(self, by: Actor, entity_id: str, changes: Mapping[str, object], *, action: Action = "read") -> None:
        """Write the audit entry of somebody who reads or deletes captured content. Raises StoreUnavailable."""
        entry = AuditEntry(
            timestamp=self.clock.now(), entity_type="capture", entity_id=entity_id, action=action, changes=changes,
            source=by.source, actor=by.name,
        )  # fmt: skip
        await self.store.change(Change(audit=(entry,)))

    async def encrypt(self, provider: StoredProvider, key: Secret, draft: Draft) -> str:
        """Return the key as it is stored with `provider`, "" for none."""
        if not key:
            return ""
        vault = await self.vault()
        draft.meta.append((KEY_CHECK, vault.check_value))
        return vault.encrypt(key, provider=provider.id, origin=address_of(provider)).decode()

    async def rotate(self, by: Actor) -> int:
        """Encrypt every stored key with a new secret and return their number.

        The new secret is GW_SECRET, with GW_SECRET_PREVIOUS as the one to replace; otherwise one is made and written to
        the secret file. The file names both secrets until the keys are written, so a rotation that is killed loses
        nothing. Raises KeyDecryptError for a key that none of the secrets can read, ConfigError.
        """
        old = await self.vault()
        folder = self.settings.secret_folder
        fresh = None if self.settings.secret else new_secret()
        vault = old if fresh is None else Vault(fresh, old.secrets)
        if fresh is not None:
            await trio.to_thread.run_sync(replace_secret_file, folder, [fresh, *old.secrets])
        self._vault = vault
        async with self.change(by) as draft:
            providers = [e for e in draft.stored.values() if isinstance(e, StoredProvider) and e.key]
            for provider in providers:
                token = vault.rotate(provider.key.encode(), provider=provider.id).decode()
                draft.replace_silently(msgspec.structs.replace(provider, key=token))
            if (stored := await self.store.meta(CAPTURE_KEY)) is not None:
                draft.meta.append((CAPTURE_KEY, vault.rotate(stored.encode(), provider=CAPTURE_KEY).decode()))
            draft.meta.append((KEY_CHECK, vault.check_value))
        if fresh is not None:
            await trio.to_thread.run_sync(replace_secret_file, folder, [fresh])
        _log.info("secret_rotated", keys=len(providers), source=by.source, actor=by.name)
        return len(providers)

    def _decrypt(self, provider: StoredProvider) -> Secret:
        if self._vault is None:
            raise KeyDecryptError(provider=provider.id)
        return self._vault.decrypt(provider.key.encode(), provider=provider.id, origin=address_of(provider))

    def _merged(self, stored: Mapping[Name, Stored]) -> Merged:
        """Merge in the order of the names, so that a restart changes no order."""
        return merge(self.settings, [stored[name] for name in sorted(stored)], self._decrypt)

    def _apply(self, merged: Merged) -> None:
        for warning in set(merged.warnings) - set(self.warnings):
            _log.warning("database_entry_set_aside", why=warning)
        self.warnings = merged.warnings
        self._put_in_force(merged.catalog)

    def _put_in_force(self, catalog: Catalog) -> None:
        self._learn(p.api_key for p in catalog.providers.values())
        self._current.catalog = catalog
        self._follow(catalog)


def _open_vault(secret: Secret, previous: Secret, folder: Path) -> Vault:
    first, *others = load_secrets(secret, previous, folder)
    vault = Vault(first, others)
    vault.warm()
    return vault
