"""Who would answer a request now, and why each candidate would be tried or passed over. Nothing is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gw.admin.fallbacks import checked_modality
from gw.admin.reports import Json
from gw.registry.catalog import Catalog, Model


class Gate(Protocol):
    """What the relay knows of a provider's state (`gw.relay.limits.GateView`)."""

    @property
    def breaker(self) -> str: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def remaining(self) -> int | None: ...


def route(
    catalog: Catalog, gates: Mapping[str, Gate], *, model: str, modality: str, project: str, fallback: bool = True
) -> Json:
    """`model` as a caller would write it; empty = the project's default.

    Raises RequestError, UnknownProjectError, UnknownModelError.
    """
    which, owner = checked_modality(modality), catalog.project(project)
    asked = catalog.resolve(model, which, owner)
    candidates = [_candidate(catalog, gates, entry) for entry in catalog.candidates(asked, owner, fallback=fallback)]
    first = next((entry["model"] for entry in candidates if not entry["passed_over"]), None)
    return {"asked": model, "modality": which, "project": owner.id, "answers": first, "candidates": candidates}


def _candidate(catalog: Catalog, gates: Mapping[str, Gate], model: Model) -> Json:
    provider = catalog.provider(model.provider)
    gate = gates.get(provider.id)
    return {
        "model": model.id,
        "provider": provider.id,
        "passed_over": _why_not(catalog, gate, model, provider.max_concurrent),
        "breaker": gate.breaker if gate else "closed",
        "remaining": gate.remaining if gate else provider.requests_per_minute,
    }


def _why_not(catalog: Catalog, gate: Gate | None, model: Model, most: int | None) -> str:
    provider = catalog.provider(model.provider)
    if not provider.enabled:
        return "disabled"
    if provider.key_error:
        return "key_undecryptable"
    if not provider.configured:
        return "not_configured"
    if gate is None:
        return ""
    if gate.breaker == "open":
        return "breaker_open"
    if gate.remaining == 0:
        return "rate_limited"
    return "busy" if most is not None and gate.in_flight >= most else ""
