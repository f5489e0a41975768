"""Projects and their budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from gw.types.ids import Modality, Source
from gw.types.secret import Secret
from gw.types.usage import NANO

DEFAULT_PROJECT = "default"
"""Project of requests that name none; it always exists."""
BudgetAction = Literal["warn", "block"]
BudgetStatus = Literal["ok", "warning", "exceeded"]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Project(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="project", omit_defaults=True):
    """A project as gw.yaml, the database and the catalog have it. The texts say what gw.yaml.example says of a field."""

    id: str
    source: Source = "yaml"
    name: Annotated[str, "default: the id"] = ""
    description: str = ""
    daily_budget_nusd: Annotated[int, "USD per UTC day; 0 = no budget"] = 0
    budget_action: Annotated[BudgetAction, "warn (default) or block"] = "warn"
    max_concurrent: Annotated[Count | None, "concurrent requests; more are refused with 503. Default: unlimited"] = None
    default_stack: str = ""
    tags: tuple[str, ...] = ()
    accent: Annotated[str, "colour in the dashboard; default: derived from the id"] = ""
    fallbacks: Annotated[
        Mapping[Modality, tuple[str, ...]], "replaces the chain of a modality for this project"
    ] = msgspec.field(default_factory=dict)
    provider_keys: Annotated[Mapping[str, Secret], "the project's own keys, by provider id"] = msgspec.field(
        default_factory=dict
    )

    @property
    def daily_budget(self) -> float:
        """USD."""
        return self.daily_budget_nusd / NANO


def nano_usd(usd: float) -> int:
    """Convert a budget in USD; a positive one never becomes 0, which means no budget."""
    return max(round(usd * NANO), 1) if usd else 0
