"""A conversation with a model that hears and speaks itself: the request, the open session, and the counter of what it costs."""

from __future__ import annotations

from typing import Protocol

import msgspec


class ConverseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with a model that hears and speaks itself. `headers`: those of the caller that choose the protocol's version."""

    model: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class ConverseSession(Protocol):
    """A conversation whose frames pass through, in OpenAI's realtime protocol. One task sends while another receives."""

    async def send(self, frame: str) -> None: ...

    async def receive(self) -> str | None:
        """Return the next frame; None when the vendor has closed the session normally."""


class ConverseCounter(Protocol):
    """Counts the frames of one session for a vendor that bills its duration. Times are seconds since the session began."""

    text_messages: int
    """Messages of text that the vendor bills one by one."""

    @property
    def reported_s(self) -> float:
        """Return the vendor's last total; 0.0 before it has said one."""

    def sent(self, frame: str) -> None:
        """Count a frame of the caller."""

    def received(self, frame: str, elapsed_s: float) -> None:
        """Count a frame of the vendor."""

    def total_s(self, elapsed_s: float) -> float:
        """Return the seconds billed until now."""
