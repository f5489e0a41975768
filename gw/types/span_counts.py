"""Counts of the spans that a gateway exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

DROPPED = ("queue_full", "rejected", "unsent", "process_ended")
"""Why spans are dropped: the collector was slower or away; it does not accept them; no time was left at the end; their process ended."""


@attrs.define
class SpanCounts:
    """Spans since the gateway's start. `dropped`: why → how many."""

    exported: int = 0
    dropped: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(DROPPED, 0))
    pending: int = 0


class SpanExporter(Protocol):
    """Sends committed records to a collector, in a process of its own."""

    @property
    def trouble(self) -> str:
        """Return why spans do not arrive, for people; "" if they do."""

    @property
    def counts(self) -> SpanCounts: ...

    def put(self, lines: Sequence[bytes]) -> None:
        """Take over lines of committed records. Never waits."""
