"""Regions in which a request may be processed: a filter on its candidates that no fallback, hedge or route gets around."""

from __future__ import annotations

from collections.abc import Iterable

from gw.errors import RegionNotAllowed, RequestError
from gw.registry.catalog import Catalog, Model
from gw.types.entities import Project
from gw.types.ids import Caller


def is_limited(project: Project, caller: Caller) -> bool:
    """Return whether a project, a key or a header names regions."""
    limits = caller.limits
    return bool(project.regions or caller.regions or (limits is not None and limits.regions))


def within(models: tuple[Model, ...], catalog: Catalog, project: Project, caller: Caller) -> tuple[Model, ...]:
    """Return the models whose providers may process the request.

    Raise RegionNotAllowed if none is left, and RequestError for a header that names no region.
    """
    of_project, of_key, named = _lower(project.regions), _lower(_of_key(caller)), _lower(caller.regions)
    if "" in named:
        raise RequestError(what="X-GW-Regions must be regions separated by commas, such as eu, local", param="X-GW-Regions")
    filters = [each for each in (of_project, of_key, named) if each]
    kept = tuple([model for model in models if all(catalog.provider(model.provider).residency in each for each in filters)])
    if kept:
        return kept
    texts = [f"the project {project.id!r} allows {_listed(of_project)}"] if of_project else []
    texts += [f"the key {caller.key_id!r} allows {_listed(of_key)}"] if of_key else []
    texts += [f"X-GW-Regions allows {_listed(named)}"] if named else []
    places = {model.id: catalog.provider(model.provider).residency or "no known region" for model in models}
    others = ", ".join(f"{id_} ({place})" for id_, place in places.items())
    raise RegionNotAllowed(what=f"no model that could answer is in a region that is allowed: {', and '.join(texts)}; there is {others}")


def _of_key(caller: Caller) -> tuple[str, ...]:
    return () if caller.limits is None else caller.limits.regions


def _lower(regions: Iterable[str]) -> set[str]:
    return {region.lower() for region in regions}


def _listed(regions: set[str]) -> str:
    return ", ".join(sorted(regions))
