"""Fallback chains: shown, and set while the gateway runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gw.admin.registrar import Registrar
from gw.admin.reports import Json
from gw.admin.request_models import SetChain, read
from gw.errors import RequestError
from gw.registry.catalog import Catalog
from gw.types.entities import Action, Actor, StoredChain, name_of
from gw.types.ids import MODALITIES, Modality

_LONGEST = 20


def listing(registrar: Registrar) -> Json:
    """Every chain in force, and where it is from."""
    return {
        "fallbacks": {
            modality: {
                "models": list(registrar.catalog.chains.get(modality, ())),
                "source": "db" if ("fallbacks", modality) in registrar.stored else "yaml",
            }
            for modality in MODALITIES
        }
    }


def checked_modality(value: str) -> Modality:
    for modality in MODALITIES:
        if value == modality:
            return modality
    raise RequestError(what=f"modality must be one of {', '.join(MODALITIES)}", param="modality")


def checked_chain(catalog: Catalog, modality: Modality, models: Iterable[str], param: str) -> tuple[str, ...]:
    """Raises RequestError for a model there is not, one named twice, and a chain without end."""
    chain = tuple(models)
    known = catalog.by_modality[modality]
    for model in chain:
        if model not in known:
            what = f"unknown {modality} model {model!r}; there are: {', '.join(known) or 'none'}"
            raise RequestError(what=what, param=param)
    if len(set(chain)) != len(chain):
        raise RequestError(what="a chain names each model once", param=param)
    if len(chain) > _LONGEST:
        raise RequestError(what=f"a chain has {_LONGEST} models at most", param=param)
    return chain


async def put(registrar: Registrar, modality: str, body: Mapping[str, object], by: Actor) -> Json:
    """Goes before the chain of the configuration, until it is removed. Raises RequestError."""
    which = checked_modality(modality)
    chain = checked_chain(registrar.catalog, which, read(body, SetChain).models, "models")
    made = StoredChain(modality=which, models=chain)
    async with registrar.change(by) as draft:
        before = list(registrar.catalog.chains.get(which, ()))
        action: Action = "update" if name_of(made) in draft.stored else "create"
        draft.put(made, action, {"models": {"from": before, "to": list(chain)}})
    return {"modality": which, "models": list(chain), "source": "db"}


async def reset(registrar: Registrar, modality: str, by: Actor) -> Json:
    """The chain of the configuration is in force again."""
    which = checked_modality(modality)
    async with registrar.change(by) as draft:
        if ("fallbacks", which) in draft.stored:
            draft.remove(("fallbacks", which), {"models": list(registrar.catalog.chains.get(which, ()))})
    return {"modality": which, "models": list(registrar.catalog.chains.get(which, ())), "source": "yaml"}
