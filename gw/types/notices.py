"""Messages between the gateways of a fleet about vendors. One that is lost costs a few failed calls, nothing else."""

from __future__ import annotations

from typing import Protocol

import msgspec


class GateNotice(msgspec.Struct, frozen=True, array_like=True):
    """One gateway no longer calls a provider, or one model of it."""

    sender: str
    """Name of the gateway that says so."""
    gate: str
    """Name of the provider's gate, as `policy.breaker.gate_name` makes it."""
    model: str
    """`<modality>:<model id>`; empty: all models, since the key, the account or the host failed."""
    retry_after_s: float = 0.0
    """Seconds that the vendor wants to be left alone; 0: a circuit breaker has opened."""


class NoticeBoard(Protocol):
    """Passes notices to all gateways of a fleet, the sender included."""

    async def publish(self, notice: GateNotice) -> None:
        """Send to whoever listens now. Raise BankUnreachable."""

    async def receive(self) -> GateNotice:
        """Wait for the next notice. Raise BankUnreachable."""
