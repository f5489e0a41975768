"""Creating, changing and deleting models through the API. One id may serve two modalities, each an entry of its own."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from gw.admin.bodies import CreateModel, UpdateModel, checked_model_name, checked_text, read
from gw.admin.registrar import Registrar
from gw.admin.reports import Json
from gw.config.known import PROVIDER_TYPES
from gw.errors import ConflictError, ReadOnlyError, RequestError, UnknownModelError
from gw.types.managed import Actor, StoredModel, name_of


async def create(registrar: Registrar, body: Mapping[str, object], by: Actor) -> Json:
    """Raises RequestError, ConflictError, UnknownProviderError."""
    given = read(body, CreateModel)
    made = StoredModel(
        modality=given.modality,
        provider=given.provider_id,
        name=checked_model_name(given.model_name),
        display_name=checked_text(given.display_name, "display_name"),
        default_language=checked_text(given.default_language, "default_language") or None,
        default_voice=checked_text(given.default_voice, "default_voice") or None,
    )
    model_id = f"{made.provider}/{made.name}"
    async with registrar.change(by) as draft:
        provider = registrar.catalog.provider(made.provider)
        offered = PROVIDER_TYPES[provider.type][1]
        if made.modality not in offered:
            what = f"the type {provider.type!r} offers {', '.join(offered)}, not {made.modality}"
            raise RequestError(what=what, param="modality")
        name = name_of(made)
        if name[1] in registrar.catalog.models or name in draft.stored:
            raise ConflictError(what=f"there is a model {model_id!r} for {made.modality} already")
        draft.put(made, "create", _shown(made))
    return {"model_id": model_id, "source": "db", "created": True}


async def update(registrar: Registrar, model_id: str, body: Mapping[str, object], by: Actor) -> Json:
    """Of every modality the id serves. Raises RequestError, ReadOnlyError, UnknownModelError."""
    given = read(body, UpdateModel)
    async with registrar.change(by) as draft:
        for before in _own(registrar, model_id):
            after = before
            if given.display_name is not UNSET:
                text = checked_text(given.display_name, "display_name")
                after = msgspec.structs.replace(after, display_name=text)
            if given.default_language is not UNSET:
                language = checked_text(given.default_language, "default_language") or None
                after = msgspec.structs.replace(after, default_language=language)
            if given.default_voice is not UNSET:
                voice = checked_text(given.default_voice, "default_voice") or None
                after = msgspec.structs.replace(after, default_voice=voice)
            old, new = _shown(before), _shown(after)
            changes = {k: {"from": old[k], "to": new[k]} for k in old if old[k] != new[k]}
            if changes:
                draft.put(after, "update", changes)
    return {"model_id": model_id, "updated": True}


async def delete(registrar: Registrar, model_id: str, *, confirm: bool, by: Actor) -> Json:
    """Without `confirm` nothing is deleted and the answer says what would be. Raises ReadOnlyError, UnknownModelError."""
    own = _own(registrar, model_id)
    if not confirm:
        return {"would_delete": {"model_id": model_id}}
    async with registrar.change(by) as draft:
        for model in own:
            if name_of(model) in draft.stored:
                draft.remove(name_of(model), _shown(model))
    return {"deleted": model_id}


def _own(registrar: Registrar, model_id: str) -> list[StoredModel]:
    entries = [m for m in registrar.catalog.models.values() if m.id == model_id]
    if not entries:
        known = dict.fromkeys(m.id for m in registrar.catalog.models.values())
        raise UnknownModelError(name=model_id, available=tuple(known))
    named = [registrar.stored.get(("model", f"{m.modality}:{m.id}")) for m in entries if m.source == "db"]
    own = [m for m in named if isinstance(m, StoredModel)]
    if not own:
        raise ReadOnlyError(entity="model", id=model_id)
    return own


def _shown(model: StoredModel) -> dict[str, object]:
    return {
        "modality": model.modality,
        "provider_id": model.provider,
        "model_name": model.name,
        "display_name": model.display_name,
        "default_language": model.default_language,
        "default_voice": model.default_voice,
    }
