"""The models that may answer one request."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gw.registry.catalog import Catalog, Model
from gw.types.entities import Project


class Candidates(msgspec.Struct, frozen=True, eq=False):
    """The models that may answer a request, the requested one first, in the catalog that was current when it began."""

    catalog: Catalog
    project: Project
    models: tuple[Model, ...]
    voices: Mapping[str, str] = {}
    """Model id → voice that the caller names for this candidate."""
