"""Reading a response body as a stream of events through a decoder of `gw.wire`, for every dialect. Not itself a provider."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from gw.errors import ProviderError, UpstreamCut
from gw.net.http1 import HttpResponse

E = TypeVar("E")


class Decoder(Protocol[E]):
    """Bytes in, events out."""

    fault: ProviderError | None
    """Error that the last piece ended in; the events before it were returned."""

    def feed(self, data: bytes) -> list[E]: ...

    def end(self) -> list[E]:
        """Return the last events: the connection has ended cleanly."""


class EventStream(Generic[E]):
    """Events as they arrive.

    An error in the same piece as events is raised after them. In the piece with the first events it is raised at once:
    nothing has been passed on yet, so another candidate may still answer.
    """

    def __init__(self, response: HttpResponse, provider: str, decoder: Decoder[E]) -> None:
        self._response = response
        self._provider = provider
        self._decoder = decoder
        self._started = False
        """Something has been passed on."""
        self._next: list[E] = []
        """Events to return before anything else is read."""

    async def receive(self) -> list[E]:
        if self._next:
            events, self._next = self._next, []
            return events
        decoder = self._decoder
        fault = decoder.fault
        while fault is None:
            data = await self._response.receive_some()
            events = decoder.feed(data) if data else decoder.end()
            fault = decoder.fault
            if events and (fault is None or self._started):
                return self._pass_on(events)
            if not data:
                raise past_the_end(self._provider)
        raise fault

    def _pass_on(self, events: list[E]) -> list[E]:
        self._started = True
        return events


def past_the_end(provider: str) -> UpstreamCut:
    return UpstreamCut(provider=provider, detail="read past the end of the answer")
