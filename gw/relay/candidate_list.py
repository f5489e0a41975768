"""The models that may answer one request."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gw.registry.catalog import Catalog, Model, Provider
from gw.relay.key_limits import longer_budgets, project_budgets
from gw.relay.shared_budgets import BudgetOwner
from gw.types.entities import Project
from gw.types.model_routes import Routed
from gw.types.provider_types import PROVIDER_TYPES


class Candidates(msgspec.Struct, frozen=True, eq=False):
    """The models that may answer a request, the requested one first, in the catalog that was current when it began."""

    catalog: Catalog
    project: Project
    models: tuple[Model, ...]
    voices: Mapping[str, str] = {}
    """Model id → voice that the caller, or the route, names for this candidate."""
    routed: Routed | None = None
    """Why the first candidate is the first, if a route chose it."""
    limited: Provider | None = None
    """Provider of the only candidate, if it has, or its vendor may tell, a limit of calls at once."""
    may_be_full: bool = False
    """The project, or the provider of the only candidate, has or may have a limit of calls at once."""
    longer: BudgetOwner | None = None
    """The project's budgets of more than a day; None without any."""
    budgets: BudgetOwner | None = None
    """All budgets of the project; None without any."""

    def __post_init__(self) -> None:
        provider = self.catalog.providers.get(self.models[0].provider) if len(self.models) == 1 else None
        is_limited = provider is not None and (provider.max_concurrent is not None or PROVIDER_TYPES[provider.type].tells_slots)
        msgspec.structs.force_setattr(self, "limited", provider if is_limited else None)
        msgspec.structs.force_setattr(self, "may_be_full", is_limited or self.project.max_concurrent is not None)
        msgspec.structs.force_setattr(self, "longer", longer_budgets(self.project))
        msgspec.structs.force_setattr(self, "budgets", project_budgets(self.project))
