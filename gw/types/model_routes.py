"""Routes: names for a choice among models, as gw.yaml and the catalog have them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Preference = Literal["weight", "latency", "cost"]
Weight = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class RouteMember(msgspec.Struct, frozen=True, kw_only=True):
    """A model of a route."""

    model: str
    weight: Annotated[Weight, "share of sessions, beside the others' weights; default: 1. 0: only when the others fail"] = 1
    voice: Annotated[str, "voice of this model, in place of the requested one"] = ""


class ModelRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A name that requests use like a model's. The chosen member answers; the others follow it, before the chain."""

    name: str
    models: Annotated[tuple[RouteMember, ...], "model ids, or mappings of one model with its options"] = ()
    prefer: Annotated[
        Preference, "weight (default): by the weights, each session always the same; latency: the quickest of late; cost: the cheapest"
    ] = "weight"


class Routed(msgspec.Struct, frozen=True):
    """A choice that was made for a request."""

    route: str
    reason: str
    """Why this model, in words."""
