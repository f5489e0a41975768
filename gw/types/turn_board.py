"""The channel on which the gateways of a fleet report the words of requests to each other, so that turns without ids are found."""

from __future__ import annotations

from typing import Protocol


class TurnBoard(Protocol):
    """Passes messages to all gateways of a fleet, the sender included: to all of them in the same order. None is stored."""

    async def publish(self, message: bytes) -> None:
        """Send to whoever listens now. Raise BankUnreachable."""

    async def receive(self) -> bytes:
        """Wait for the next message. Raise BankUnreachable."""

    async def time(self) -> float:
        """Return the server's time in Unix seconds. Raise BankUnreachable."""
