"""Projects and their budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from gw.types.ids import Modality, Source
from gw.types.secret import Secret

DEFAULT_PROJECT = "default"
"""Project of requests that name none; it always exists."""
BudgetAction = Literal["warn", "block"]
BudgetStatus = Literal["ok", "warning", "exceeded"]


@attrs.frozen(kw_only=True)
class Project:
    """`daily_budget_nusd` 0 = no budget. `max_concurrent`: requests at once. `provider_keys` are the project's own keys by provider id."""

    id: str
    name: str = ""
    description: str = ""
    daily_budget_nusd: int = 0
    budget_action: BudgetAction = "warn"
    max_concurrent: int | None = None
    default_stack: str = ""
    tags: tuple[str, ...] = ()
    accent: str = "#5b7fa6"
    source: Source = "yaml"
    fallbacks: Mapping[Modality, tuple[str, ...]] = attrs.field(factory=dict)
    provider_keys: Mapping[str, Secret] = attrs.field(factory=dict)
