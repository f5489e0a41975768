"""Base classes for decoders of streamed answers: events decoded before a failure are delivered before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from gw.errors import ProviderError, UpstreamCut, UpstreamProtocolError
from gw.types.compiled import mypyc_attr
from gw.wire import sse
from gw.wire.sse_event import SseEvent

E = TypeVar("E")


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamDecoder(Generic[E]):
    """Decoder of a streamed answer. The reader checks `fault` after `feed`, and raises it once the events are delivered."""

    fault: ProviderError | None = None

    def __init__(self, provider: str) -> None:
        self._provider = provider

    def failed(self, error: ProviderError, events: list[E]) -> list[E]:
        """Return the `events` decoded before `error`, which becomes `fault`. Raises `error` if there are none."""
        if not events:
            raise error
        self.fault = error
        return events

    def _malformed(self, detail: str) -> UpstreamProtocolError:
        return UpstreamProtocolError(provider=self._provider, detail=detail)


@mypyc_attr(allow_interpreted_subclasses=True)
class SseStreamDecoder(StreamDecoder[E], ABC):
    """Decoder of an answer sent as server-sent events: bytes in, events out; `_decode` takes one event apart."""

    CLOSING_EVENT: ClassVar[str] = "its closing event"

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._sse = sse.SseDecoder()
        self._ended = False

    def feed(self, data: bytes) -> list[E]:
        """Return the events that `data` completes. Raises ProviderError for an error, or for what is not this dialect."""
        try:
            sse_events = self._sse.feed(data)
        except sse.SseTooLong as error:
            raise self._malformed(str(error)) from None
        events: list[E] = []
        try:
            for event in sse_events:
                if self._ended:
                    break
                if event.data:
                    self._decode(event, events)
        except ProviderError as failure:
            return self.failed(failure, events)
        return events

    def end(self) -> list[E]:
        """Return the last events after the connection ended cleanly. Raises UpstreamCut unless the closing event has come."""
        if not self._ended:
            raise UpstreamCut(provider=self._provider, detail=f"the stream ended without {self.CLOSING_EVENT}")
        return []

    @abstractmethod
    def _decode(self, event: SseEvent, events: list[E]) -> None:
        """Append what `event`, whose data is not empty, stands for; set `_ended` at the last. Raises ProviderError."""
