"""The audit log: every change made through the API."""

from __future__ import annotations

from typing import get_args

import msgspec

from gw.admin.reports import Json, whole_number
from gw.errors import RequestError
from gw.store.store import Reader
from gw.types.entities import Action, EntityType

DEFAULT, MOST = 50, 500


async def page(
    store: Reader,
    *,
    limit: str,
    entity_type: str | None = None,
    entity_id: str | None = None,
    action: str | None = None,
    before: str | None = None,
) -> list[Json]:
    """The newest entries that pass every filter, as JSON. Raises RequestError for a value that cannot be."""
    _one_of(entity_type, get_args(EntityType), "entity_type")
    _one_of(action, get_args(Action), "action")
    found = await store.audit_log(
        whole_number(limit, "limit", 1, MOST),
        entity_type=entity_type,
        entity_id=entity_id,
        action=action,
        before=None if before is None else whole_number(before, "before", 0, 10**18 - 1),
    )
    return [msgspec.to_builtins(entry) for entry in found]


def _one_of(value: str | None, known: tuple[str, ...], param: str) -> None:
    if value is not None and value not in known:
        raise RequestError(what=f"{param} must be one of {', '.join(known)}", param=param)
