"""What was made through the API: kept in the database as JSON, merged with the configuration into one catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from gw.types.ids import Modality
from gw.types.project import BudgetAction
from gw.types.usage import NANO

EntityType = Literal["provider", "model", "project", "key", "fallbacks"]
Action = Literal["create", "update", "delete"]
ActorSource = Literal["api", "mcp", "cli"]


class StoredProvider(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="provider"):
    """`key` is the encrypted API key, "" for none; `masked` what may be shown of it."""

    id: str
    type: str
    base_url: str | None = None
    key: str = ""
    masked: str = ""


class StoredModel(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="model"):
    modality: Modality
    provider: str
    name: str
    display_name: str = ""
    default_language: str | None = None
    default_voice: str | None = None

    @property
    def id(self) -> str:
        return f"{self.provider}/{self.name}"


class StoredProject(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="project"):
    id: str
    name: str = ""
    description: str = ""
    daily_budget_nusd: int = 0
    budget_action: BudgetAction = "warn"
    default_stack: str = ""
    tags: tuple[str, ...] = ()
    accent: str = ""
    fallbacks: Mapping[Modality, tuple[str, ...]] = {}

    @property
    def daily_budget(self) -> float:
        """USD."""
        return self.daily_budget_nusd / NANO


class StoredKey(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="key"):
    """A credential of this gateway. `digest`: SHA-256 of the key, in hex; `masked` what may be shown of it."""

    id: str
    digest: str
    masked: str
    name: str = ""
    project: str = "default"
    created_at: float = 0.0
    expires_at: float | None = None
    """Unix seconds."""


class StoredChain(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="fallbacks"):
    """A fallback chain set while running; goes before that of the configuration."""

    modality: Modality
    models: tuple[str, ...] = ()


Stored: TypeAlias = StoredProvider | StoredModel | StoredProject | StoredKey | StoredChain
Name: TypeAlias = tuple[EntityType, str]
"""What an entity is called in the database: its type and an id that is unique within the type."""


def name_of(entity: Stored) -> Name:
    match entity:
        case StoredProvider():
            return "provider", entity.id
        case StoredModel():
            return "model", f"{entity.modality}:{entity.id}"
        case StoredProject():
            return "project", entity.id
        case StoredKey():
            return "key", entity.id
        case StoredChain():
            return "fallbacks", entity.modality


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `changes`: field → value, or for an update `{"from": …, "to": …}`; keys are redacted."""

    timestamp: float
    entity_type: EntityType
    entity_id: str
    action: Action
    changes: Mapping[str, Any]
    source: ActorSource
    actor: str
    id: int = 0
    """Given by the database, in the order of the changes."""


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes a change: the face it came through, and a key id, `admin` or `anyone`."""

    source: ActorSource
    name: str
