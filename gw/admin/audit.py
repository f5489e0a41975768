"""The audit log: every change made through the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from gw.admin.arguments import one_of, page_size, whole_number
from gw.store.store import Reader
from gw.types.entities import Action, AuditEntry, EntityType

DEFAULT_ENTRIES, MAX_ENTRIES = 50, 500


async def page(
    store: Reader,
    *,
    limit: str | int = DEFAULT_ENTRIES,
    entity_type: str | None = None,
    entity_id: str | None = None,
    action: str | None = None,
    before: str | None = None,
) -> Sequence[AuditEntry]:
    """Return the newest entries that pass every filter. Raises RequestError."""
    if entity_type is not None:
        one_of("entity_type", entity_type, get_args(EntityType))
    if action is not None:
        one_of("action", action, get_args(Action))
    return await store.audit_log(
        page_size(limit, MAX_ENTRIES),
        entity_type=entity_type,
        entity_id=entity_id,
        action=action,
        before=None if before is None else whole_number(before, "before", 0, 10**18 - 1),
    )
