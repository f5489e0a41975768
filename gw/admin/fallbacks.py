"""Fallback chains: listing them, setting them while the gateway runs, and previewing the candidates of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from gw.admin.registrar import Registrar
from gw.admin.request_models import Body, one_of, read
from gw.admin.schemas import Schema
from gw.errors import RequestError
from gw.policy.breaker import gate_name
from gw.registry.catalog import Catalog, Model, Provider
from gw.types.entities import Action, Actor, Project, StoredChain, name_of
from gw.types.gate_view import BreakerState, GateView
from gw.types.ids import MODALITIES, Caller, Modality, Source

Resolve = Callable[[str, Modality, Caller], tuple[Model, ...]]
"""(name, modality, caller) → the models that a request would try, in order. Raises errors about names."""
_MOST_MODELS = 20


class SetChain(Body):
    models: list[str]


class Chain(Schema):
    models: list[str]
    source: Source


class SetChainAnswer(Schema):
    modality: Modality
    models: list[str]
    source: Source


class Chains(Schema):
    fallbacks: dict[Modality, Chain]


def listing(registrar: Registrar) -> Chains:
    """Return the chain in force for each modality, and its source."""
    def chain(modality: Modality) -> Chain:
        source: Source = "db" if ("fallbacks", modality) in registrar.stored else "yaml"
        return Chain(models=list(registrar.catalog.chains.get(modality, ())), source=source)

    return Chains(fallbacks={modality: chain(modality) for modality in MODALITIES})


def checked_modality(value: str) -> Modality:
    return cast("Modality", one_of("modality", value, MODALITIES))


def checked_chain(catalog: Catalog, modality: Modality, models: Iterable[str], param: str) -> tuple[str, ...]:
    """Return `models` as a chain. Raises RequestError for an unknown model, a repeated one, and too many."""
    chain = tuple(models)
    known = catalog.by_modality[modality]
    for model in chain:
        if catalog.find(model, modality) is None:
            what = f"unknown {modality} model {model!r}; known models: {', '.join(known) or 'none'}"
            raise RequestError(what=what, param=param)
    if len(set(chain)) != len(chain):
        raise RequestError(what="a chain may name each model only once", param=param)
    if len(chain) > _MOST_MODELS:
        raise RequestError(what=f"a chain may have at most {_MOST_MODELS} models", param=param)
    return chain


async def put(registrar: Registrar, name: str, body: Mapping[str, object], by: Actor) -> SetChainAnswer:
    """Set a chain; it overrides that of gw.yaml until it is reset. Raises RequestError."""
    modality = checked_modality(name)
    models = checked_chain(registrar.catalog, modality, read(body, SetChain).models, "models")
    chain = StoredChain(modality=modality, models=models)
    async with registrar.change(by) as draft:
        before = registrar.catalog.chains.get(modality, ())
        action: Action = "update" if name_of(chain) in draft.stored else "create"
        draft.put(chain, action, {"models": {"from": before, "to": models}})
    return SetChainAnswer(modality=modality, models=list(models), source="db")


async def reset(registrar: Registrar, name: str, by: Actor) -> SetChainAnswer:
    """Put the chain of gw.yaml in force again."""
    modality = checked_modality(name)
    async with registrar.change(by) as draft:
        if ("fallbacks", modality) in draft.stored:
            draft.remove(("fallbacks", modality), {"models": registrar.catalog.chains.get(modality, ())})
    return SetChainAnswer(modality=modality, models=list(registrar.catalog.chains.get(modality, ())), source="yaml")


class RouteCandidate(Schema):
    model: str
    provider: str
    passed_over: str
    """Why it would not be called; empty if it would be."""
    breaker: str
    remaining: int | None


class RoutePreview(Schema):
    """`requested_model` is the model of the request; "" = none was named."""

    requested_model: str
    modality: Modality
    project: str
    answers: str | None
    """The first candidate that would be called."""
    candidates: list[RouteCandidate]


def route_preview(
    catalog: Catalog, gates: Mapping[str, GateView], resolve: Resolve, *, model: str | None, modality: str, project: str
) -> RoutePreview:
    """Resolve `model` with `resolve`, the relay's own; an empty one is the project's default. Nothing is called.

    Raises RequestError, UnknownProjectError, UnknownModelError.
    """
    checked = checked_modality(modality)
    models = resolve(model or "", checked, Caller(project=project))
    candidates = [_candidate(catalog, gates, entry, catalog.project(project)) for entry in models]
    first = next((entry.model for entry in candidates if not entry.passed_over), None)
    return RoutePreview(requested_model=model or "", modality=checked, project=project, answers=first, candidates=candidates)


def _candidate(catalog: Catalog, gates: Mapping[str, GateView], model: Model, project: Project) -> RouteCandidate:
    provider = catalog.provider(model.provider)
    has_own_key = provider.id in project.provider_keys
    gate = gates.get(gate_name(provider.id, project.id if has_own_key else ""))
    own = gate.models.get(f"{model.modality}:{model.id}", "closed") if gate else "closed"
    breaker: BreakerState = gate.breaker if gate and gate.breaker != "closed" else own
    return RouteCandidate(
        model=model.id,
        provider=provider.id,
        passed_over=_reason_to_skip(provider, model, gate, breaker, has_own_key=has_own_key),
        breaker=breaker,
        remaining=gate.remaining if gate else provider.requests_per_minute,
    )


def _reason_to_skip(provider: Provider, model: Model, gate: GateView | None, breaker: BreakerState, *, has_own_key: bool) -> str:
    if not provider.enabled:
        return "disabled"
    if not (provider.configured or has_own_key):
        return "key_undecryptable" if provider.key_error else "not_configured"
    if gate is None:
        return ""
    if breaker == "open":
        return "breaker_open"
    if gate.remaining == 0:
        return "rate_limited"
    slots = gate.slots.get(f"{model.modality}:{model.id}")
    is_full = (provider.max_concurrent is not None and gate.in_flight >= provider.max_concurrent) or (
        slots is not None and slots.in_use >= slots.most
    )
    return "busy" if is_full else ""
