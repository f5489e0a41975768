"""One model by the name that a client has for it: a listed one, or one of a vendor that the client's requests would reach."""

from __future__ import annotations

from gw.admin import listings
from gw.admin.listings import KeyView, OneModel
from gw.dialects.auth import vendors_of
from gw.dialects.request_io import raw_path
from gw.dialects.unrouted import by_credential
from gw.errors import UnknownModelError, UnknownProviderError
from gw.gateway import Gateway
from gw.registry.catalog import Model
from gw.telemetry.clock import utc_day
from gw.types.asgi import Scope
from gw.types.entities import Price
from gw.types.ids import Caller, Modality


def reader(gateway: Gateway, scope: Scope) -> Caller:
    """Return the caller of a path that all vendors share, as its headers tell the vendor."""
    dialect = client.name if (client := by_credential(scope)) is not None else "openai"
    if raw_path(scope).startswith(b"/openai/"):
        dialect = "openai"
    vendor, path_vendor = vendors_of(dialect, scope["path"], scope["headers"], gateway.current.catalog)
    return Caller(dialect=dialect, vendor=vendor, path_vendor=path_vendor)


def find(gateway: Gateway, caller: Caller, name: str, view: KeyView | None = None) -> OneModel:
    """Return the model that a request with this name would go to; with `view` only one in it. Raises UnknownModelError with all ids in it.

    A name that is not listed is a model's if the price tables know it at the vendor where the request would go: any other may
    be a mistake, which only that vendor could tell.
    """
    try:
        return listings.model(gateway.current.catalog, name, gateway.started_at, view)
    except UnknownModelError:
        model = _unlisted(gateway, caller, name)
        if model is None or (view is not None and not view.has(model)):
            raise
        return listings.unlisted(model, gateway.started_at)


def _unlisted(gateway: Gateway, caller: Caller, name: str) -> Model | None:
    catalog = gateway.current.catalog
    modalities: tuple[Modality, ...] = ("llm", "stt", "tts")
    for modality in modalities:
        try:
            model = gateway.relay.resolve(name, modality, caller)[0]
        except (UnknownModelError, UnknownProviderError):
            continue
        if catalog.is_listed(model):
            continue  # what a vendor that is not configured is replaced by
        kind = catalog.provider(model.provider).type
        price = gateway.book.any_price(kind, model.name, at_day=utc_day(gateway.clock.now()))
        if price is not None and _is_for(price, modality, model.name):
            return model
    return None


def _is_for(price: Price, modality: Modality, name: str) -> bool:
    """Return whether a model with this price does that. Speech may be billed by tokens, too: its names say so at OpenAI."""
    if modality == "tts":
        return price.characters is not None or "tts" in name
    if modality == "stt":
        return price.characters is None and price.audio_seconds is not None and "tts" not in name
    return price.characters is None and price.audio_seconds is None
