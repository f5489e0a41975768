"""A provider's gate as reports show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


class GateView(msgspec.Struct, frozen=True):
    """A provider's state for reports: its breaker and token bucket (`limit` calls a minute, None without one).

    The breaker is that of the provider as a whole: open if no model of it is called.
    """

    provider: str
    breaker: BreakerState
    in_flight: int
    limit: int | None
    remaining: int | None
    reset_s: float | None
    models: Mapping[str, BreakerState] = {}
    """`<modality>:<model id>` → state, of the models whose own breaker is not closed."""
