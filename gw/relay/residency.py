"""Regions in which a request may be processed: a filter on its candidates that no fallback, hedge or route gets around."""

from __future__ import annotations

from gw.errors import RegionNotAllowed, RequestError
from gw.registry.catalog import Catalog, Model
from gw.types.entities import Project
from gw.types.ids import Caller


def within(models: tuple[Model, ...], catalog: Catalog, project: Project, caller: Caller) -> tuple[Model, ...]:
    """Return the models whose providers may process the request.

    Raise RegionNotAllowed if none is left, and RequestError for a header that names no region.
    """
    ours, named = {region.lower() for region in project.regions}, {region.lower() for region in caller.regions}
    if "" in named:
        raise RequestError(what="X-GW-Regions must be regions separated by commas, such as eu, local", param="X-GW-Regions")
    wanted = ours & named if ours and named else ours or named
    kept = tuple([model for model in models if catalog.provider(model.provider).residency in wanted])
    if kept:
        return kept
    filters = [f"the project {project.id!r} allows {_listed(ours)}"] if ours else []
    filters += [f"X-GW-Regions allows {_listed(named)}"] if named else []
    places = {model.id: catalog.provider(model.provider).residency or "no known region" for model in models}
    others = ", ".join(f"{id_} ({place})" for id_, place in places.items())
    raise RegionNotAllowed(what=f"no model that could answer is in a region that is allowed: {', and '.join(filters)}; there is {others}")


def _listed(regions: set[str]) -> str:
    return ", ".join(sorted(regions))
