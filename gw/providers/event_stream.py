"""A body of events, whatever their dialect, read through a decoder of `gw.wire`. Not itself a provider."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from gw.errors import ProviderError, UpstreamCut
from gw.net.http1 import HttpResponse

E = TypeVar("E")


class Decoder(Protocol[E]):
    """Bytes in, events out."""

    fault: ProviderError | None
    """What the last piece ended in, after the events that were fed back."""

    def feed(self, data: bytes) -> list[E]: ...

    def end(self) -> list[E]:
        """The connection has ended cleanly."""
        ...


class EventStream(Generic[E]):
    """Events as they come. A failure in the same piece as events is raised after them; with the first ones at once, because
    nothing has gone out yet and another candidate may still answer."""

    def __init__(self, response: HttpResponse, provider: str, decoder: Decoder[E]) -> None:
        self._response = response
        self._provider = provider
        self._decoder = decoder
        self._begun = False

    async def receive(self) -> list[E]:
        decoder = self._decoder
        fault = decoder.fault
        while fault is None:
            data = await self._response.receive_some()
            events = decoder.feed(data) if data else decoder.end()
            fault = decoder.fault
            if events and (fault is None or self._begun):
                self._begun = True
                return events
            if not data:
                raise UpstreamCut(provider=self._provider, detail="read past the end of the answer")
        raise fault
