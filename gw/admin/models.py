"""Creating, changing and deleting models through the API. One id may serve two modalities, each an entry of its own."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from gw.admin.registrar import Registrar
from gw.admin.reports import Json
from gw.admin.request_models import CreateModel, UpdateModel, checked_model_name, checked_text, read
from gw.errors import ConflictError, ReadOnlyError, RequestError, UnknownModelError
from gw.types.entities import Actor, StoredModel, name_of
from gw.types.provider_types import PROVIDER_TYPES


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
    async with registrar.change(by) as draft:
        provider = registrar.catalog.provider(made.provider)
        offered = PROVIDER_TYPES[provider.type].modalities
        if made.modality not in offered:
            what = f"the type {provider.type!r} offers {', '.join(offered)}, not {made.modality}"
            raise RequestError(what=what, param="modality")
        name = name_of(made)
        if name[1] in registrar.catalog.models or name in draft.stored:
            raise ConflictError(what=f"there is a model {made.id!r} for {made.modality} already")
        draft.put(made, "create", _shown(made))
    return {"model_id": made.id, "source": "db", "created": True}


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
    if not confirm:
        _own(registrar, model_id)
        return {"would_delete": {"model_id": model_id}}
    async with registrar.change(by) as draft:
        for model in _own(registrar, model_id):
            draft.remove(name_of(model), _shown(model))
    return {"deleted": model_id}


def _own(registrar: Registrar, model_id: str) -> list[StoredModel]:
    """Those made through the API, also when they are set aside because they fit no more."""
    entries = registrar.catalog.models
    of_file = {key for key, model in entries.items() if model.source == "yaml"}
    named = [m for m in registrar.stored.values() if isinstance(m, StoredModel) and m.id == model_id]
    own = [model for model in named if name_of(model)[1] not in of_file]
    if own:
        return own
    known = tuple(dict.fromkeys(model.id for model in entries.values()))
    if model_id in known:
        raise ReadOnlyError(entity="model", id=model_id)
    raise UnknownModelError(name=model_id, available=known)


def _shown(model: StoredModel) -> dict[str, object]:
    return {
        "modality": model.modality,
        "provider_id": model.provider,
        "model_name": model.name,
        "display_name": model.display_name,
        "default_language": model.default_language,
        "default_voice": model.default_voice,
    }
