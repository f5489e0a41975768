"""A stream that fails in the middle of a piece: what came before the failure comes out before it."""

from __future__ import annotations

from typing import Generic, TypeVar

from gw.errors import ProviderError

E = TypeVar("E")


class Midway(Generic[E]):
    """Base of the decoders of streamed answers. Whoever reads one looks at `fault` after `feed`, and raises it in the end."""

    fault: ProviderError | None = None

    def failed(self, error: ProviderError, events: list[E]) -> list[E]:
        """What `feed` returns where `events` were read before `error`. Raises it where there were none."""
        if not events:
            raise error
        self.fault = error
        return events
