"""Which of the gateways that share a database sends alerts, and how the others let it know what they see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import attrs

from gw.store.entity_rows import Change
from gw.types.alerts import Sighting


class AlertChannel(Protocol):
    """A gateway's part in alerts. Every method raises StoreError."""

    shared: bool
    """True if other gateways may have the same database."""

    async def wait(self) -> None:
        """Wait until this gateway is the one that sends."""

    async def confirm(self) -> None:
        """Raise AlertsLedElsewhere if another gateway sends now."""

    async def write(self, change: Change) -> None:
        """Apply a change, all or nothing. Raise AlertsLedElsewhere if another gateway sends now."""

    async def publish(self, sightings: Sequence[Sighting], now: float) -> None:
        """Store what this gateway sees, for the one that sends; `now`: Unix seconds."""

    async def seen_elsewhere(self, now: float) -> Sequence[Sighting]:
        """Return what other gateways see."""


@attrs.define
class OnlySender:
    """The part of a gateway that has its database for itself."""

    change: Callable[[Change], Awaitable[None]]
    shared: bool = False

    async def wait(self) -> None:
        """Return at once."""

    async def confirm(self) -> None:
        """Do nothing: no other gateway can send."""

    async def write(self, change: Change) -> None:
        """Apply a change. Raises DatabaseLocked, StoreUnavailable."""
        await self.change(change)

    async def publish(self, sightings: Sequence[Sighting], now: float) -> None:
        """Do nothing: nobody else would read it."""

    async def seen_elsewhere(self, now: float) -> Sequence[Sighting]:
        return ()
