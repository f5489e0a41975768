"""Preview of a request's route: which candidates would be tried now, and why others would be skipped. Nothing is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gw.admin.fallbacks import checked_modality
from gw.admin.schemas import Schema
from gw.policy.breaker import GateView
from gw.registry.catalog import Catalog, Model
from gw.types.ids import Caller, Modality

Resolve = Callable[[str, Modality, Caller], tuple[Model, ...]]
"""(name, modality, caller) → the models that a request would try, in order. Raises errors about names."""


class RouteCandidate(Schema):
    model: str
    provider: str
    passed_over: str
    """Why it would not be called; empty if it would be."""
    breaker: str
    remaining: int | None


class RoutePreview(Schema):
    """`asked` is the requested model."""

    asked: str
    modality: Modality
    project: str
    answers: str | None
    """The first candidate that would be called."""
    candidates: list[RouteCandidate]


def route_preview(
    catalog: Catalog, gates: Mapping[str, GateView], resolve: Resolve, *, model: str | None, modality: str, project: str
) -> RoutePreview:
    """Resolve `model` with `resolve`, the relay's own; an empty one is the project's default.

    Raises RequestError, UnknownProjectError, UnknownModelError.
    """
    checked = checked_modality(modality)
    models = resolve(model or "", checked, Caller(project=project))
    candidates = [_candidate(catalog, gates, entry) for entry in models]
    first = next((entry.model for entry in candidates if not entry.passed_over), None)
    return RoutePreview(
        asked=model or "", modality=checked, project=project, answers=first, candidates=candidates
    )


def _candidate(catalog: Catalog, gates: Mapping[str, GateView], model: Model) -> RouteCandidate:
    provider = catalog.provider(model.provider)
    gate = gates.get(provider.id)
    return RouteCandidate(
        model=model.id,
        provider=provider.id,
        passed_over=_reason_to_skip(catalog, gate, model),
        breaker=gate.breaker if gate else "closed",
        remaining=gate.remaining if gate else provider.requests_per_minute,
    )


def _reason_to_skip(catalog: Catalog, gate: GateView | None, model: Model) -> str:
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
    limit = provider.max_concurrent
    return "busy" if limit is not None and gate.in_flight >= limit else ""
