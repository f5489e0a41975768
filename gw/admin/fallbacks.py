"""Fallback chains: listing them, and setting them while the gateway runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gw.admin.registrar import Registrar
from gw.admin.request_models import Body, read
from gw.admin.schemas import Schema
from gw.errors import RequestError
from gw.registry.catalog import Catalog
from gw.types.entities import Action, Actor, StoredChain, name_of
from gw.types.ids import MODALITIES, Modality, Source

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
    chains = registrar.catalog.chains
    return Chains(
        fallbacks={
            modality: Chain(
                models=list(chains.get(modality, ())), source="db" if ("fallbacks", modality) in registrar.stored else "yaml"
            )
            for modality in MODALITIES
        }
    )


def checked_modality(value: str) -> Modality:
    for modality in MODALITIES:
        if value == modality:
            return modality
    raise RequestError(what=f"modality must be one of {', '.join(MODALITIES)}", param="modality")


def checked_chain(catalog: Catalog, modality: Modality, models: Iterable[str], param: str) -> tuple[str, ...]:
    """Return `models` as a chain. Raises RequestError for an unknown model, a repeated one, and too many."""
    chain = tuple(models)
    known = catalog.by_modality[modality]
    for model in chain:
        if model not in known:
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
