"""Creating, changing and deleting models through the API. One id may serve two modalities, with an entry for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gw.admin.registrar import Deleted, Registrar, differences
from gw.admin.request_models import Body, Checks, checked, checked_text, read, update_body
from gw.admin.schemas import Schema
from gw.errors import ConflictError, ReadOnlyError, RequestError, UnknownModelError
from gw.pricing.price_document import day_text, price_from
from gw.pricing.units import price_text
from gw.types.entities import Actor, Model, Price, name_of
from gw.types.ids import Modality, Source
from gw.types.provider_types import PROVIDER_TYPES


class PriceBody(Body):
    """A price in USD per `unit`, as `price` in gw.yaml. `valid_from`: first day (UTC); without it, the price holds always.

    Prices per token take `input` and `output` and their variants, the others `usd`. `tiers`, `above`, `regions` and `addons`
    have what the price depends on besides.
    """

    unit: str
    usd: float | None = None
    input: float | None = None
    cached_input: float | None = None
    cached_input_audio: float | None = None
    cached_input_image: float | None = None
    cache_write: float | None = None
    cache_write_long: float | None = None
    output: float | None = None
    input_audio: float | None = None
    input_image: float | None = None
    output_audio: float | None = None
    per_second: float | None = None
    per_search: float | None = None
    per_request: float | None = None
    min_seconds: float | None = None
    step_seconds: float | None = None
    above: list[dict[str, float]] | None = None
    tiers: dict[str, dict[str, Any]] | None = None
    regions: dict[str, float] | None = None
    addons: dict[str, float] | None = None
    valid_from: str | None = None


class CreateModel(Body):
    modality: Modality
    provider_id: str
    model_name: str
    display_name: str | None = None
    default_language: str | None = None
    default_voice: str | None = None
    price: PriceBody | None = None


UpdateModel = update_body("UpdateModel", CreateModel)


class ModelCreated(Schema):
    model_id: str
    source: Source
    created: bool


class ModelUpdated(Schema):
    model_id: str
    updated: bool


class ModelPreviewed(Schema):
    model_id: str


class ModelPreview(Schema):
    would_delete: ModelPreviewed


def _text_or_none(value: str | None, param: str) -> str | None:
    return checked_text(value, param) or None


def checked_model_name(value: str, param: str = "model_name") -> str:
    """Return a vendor's model name: one line, without spaces at its ends."""
    if not value or value != value.strip():
        raise RequestError(what=f"{param} must not be empty, nor begin or end with a space", param=param)
    if any(c.isspace() and c != " " for c in value):
        raise RequestError(what=f"{param} must be one line", param=param)
    return checked_text(value, param)


def _price_or_none(value: PriceBody | None, param: str) -> Price | None:
    """Return the price that a body describes. Raises RequestError."""
    if value is None:
        return None
    members = {name: member for name, member in msgspec.structs.asdict(value).items() if member is not None}
    if above := members.get("above"):  # JSON does not tell 272000 from 272000.0
        members["above"] = [{**step, "tokens": _whole(step.get("tokens"))} for step in above]
    try:
        return price_from(members, source="api")
    except ValueError as error:
        raise RequestError(what=f"{param}: {error}", param=param) from None


def _whole(value: float | None) -> object:
    return int(value) if value is not None and value == int(value) else value


_CHECKS: Checks = {
    "display_name": checked_text, "default_language": _text_or_none, "default_voice": _text_or_none, "price": _price_or_none,
}  # fmt: skip


def _with_price(fields: dict[str, Any], before: tuple[Price, ...] = ()) -> dict[str, Any]:
    """Return the fields of a model for those of a body, `price` among them.

    A price without a first day replaces all that were set before, one with a day those of that day; null removes all.
    """
    if "price" not in fields:
        return fields
    price: Price | None = fields.pop("price")
    kept = () if price is None or not price.valid_from else before
    prices = {one.valid_from: one for one in (*kept, *(() if price is None else (price,)))}
    return fields | {"prices": tuple(prices[day] for day in sorted(prices))}


async def create(registrar: Registrar, body: Mapping[str, object], by: Actor) -> ModelCreated:
    """Raises RequestError, ConflictError, UnknownProviderError."""
    request = read(body, CreateModel)
    model = Model(
        source="db",
        modality=request.modality,
        provider=request.provider_id,
        name=checked_model_name(request.model_name),
        **_with_price(checked(request, _CHECKS)),
    )
    _check_wildcard(model)
    async with registrar.change(by) as draft:
        provider = registrar.catalog.provider(model.provider)
        offered = PROVIDER_TYPES[provider.type].modalities
        if model.is_wildcard and not PROVIDER_TYPES[provider.type].own_models:
            raise RequestError(what=f"the type {provider.type!r} has no models but those listed", param="model_name")
        if model.modality not in offered:
            what = f"the type {provider.type!r} offers {', '.join(offered)}, not {model.modality}"
            raise RequestError(what=what, param="modality")
        name = name_of(model)
        if name[1] in registrar.catalog.models or name in draft.stored:
            raise ConflictError(what=f"the {model.modality} model {model.id!r} exists already")
        draft.put(model, "create", _audited(model))
    return ModelCreated(model_id=model.id, source="db", created=True)


def _check_wildcard(model: Model) -> None:
    """Raise RequestError for a setting of one model in an entry that stands for any name of the provider."""
    if not model.is_wildcard:
        return
    for param, value in (("price", model.prices), ("display_name", model.display_name)):
        if value:
            what = f"{model.id!r} stands for any name of the provider, so it takes no {param}; create a model to set one"
            raise RequestError(what=what, param=param)


async def update(registrar: Registrar, model_id: str, body: Mapping[str, object], by: Actor) -> ModelUpdated:
    """Change the entries of every modality of the id. Raises RequestError, ReadOnlyError, UnknownModelError."""
    changed = checked(read(body, UpdateModel), _CHECKS)
    async with registrar.change(by) as draft:
        for before in _editable(registrar, model_id):
            after = msgspec.structs.replace(before, **_with_price({**changed}, before.prices))
            _check_wildcard(after)
            if changes := differences(_audited(before), _audited(after)):
                draft.put(after, "update", changes)
    return ModelUpdated(model_id=model_id, updated=True)


async def delete(registrar: Registrar, model_id: str, *, confirm: bool, by: Actor) -> ModelPreview | Deleted:
    """Delete, or without `confirm` only return what would be deleted. Raises ReadOnlyError, UnknownModelError."""
    if not confirm:
        _editable(registrar, model_id)
        return ModelPreview(would_delete=ModelPreviewed(model_id=model_id))
    async with registrar.change(by) as draft:
        for model in _editable(registrar, model_id):
            draft.remove(name_of(model), _audited(model))
    return Deleted(deleted=model_id)


def _editable(registrar: Registrar, model_id: str) -> list[Model]:
    """Return the stored entries of an id, ignored ones included, since they could not be deleted otherwise."""
    entries = registrar.catalog.models
    in_file = {key for key, model in entries.items() if model.source == "yaml"}
    stored = [m for m in registrar.stored.values() if isinstance(m, Model) and m.id == model_id]
    if editable := [model for model in stored if name_of(model)[1] not in in_file]:
        return editable
    known = tuple(dict.fromkeys(model.id for model in entries.values()))
    if model_id in known:
        raise ReadOnlyError(entity="model", id=model_id)
    raise UnknownModelError(name=model_id, available=known)


def _audited(model: Model) -> dict[str, object]:
    """Return what the audit log has of a model."""
    named = {"modality": model.modality, "provider_id": model.provider, "model_name": model.name}
    texts = {name: getattr(model, name) for name in _CHECKS if name != "price"}
    return named | texts | {"price": own_prices(model)}


def own_prices(model: Model) -> list[str]:
    """Return the prices set for a model, for people, oldest first."""
    return [
        price_text(price, model.modality) + (f", since {day_text(price.valid_from)}" if price.valid_from else "")
        for price in model.prices
    ]
