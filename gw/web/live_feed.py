"""`GET /api/live`: running requests, and each finished record, as server-sent events.

The store tells a watcher of every intent and every record, and has none while nobody listens. Listeners read from
buffers of their own, so that a slow one holds up nobody: when its buffer is full it is dropped, and told how much it has
missed when it reads again. What was running before it came is read from the journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType

import msgspec
import structlog
import trio
from quart import Blueprint, Response, request
from quart.wrappers.response import ResponseBody

from gw.admin.logs import log_record
from gw.errors import Overloaded
from gw.gateway import Gateway
from gw.store.store import Store
from gw.types.usage import Intent, RequestRecord
from gw.web.drain import Drain

BUFFER = 1_000
"""Events waiting for one listener, about 1 kB each; full = the listener is dropped."""
MOST_LISTENERS = 50
KEEPALIVE_S = 15.0
_COMMENT = b": still here\n\n"
_log = structlog.get_logger("gw.web")

Event = Intent | RequestRecord


def blueprint(gateway: Gateway, drain: Drain) -> Blueprint:
    routes = Blueprint("live", __name__)
    feed = Feed(gateway.store)
    drain.at_begin(feed.end)

    @routes.get("/api/live")
    async def live() -> Response:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        if len(feed.listeners) >= MOST_LISTENERS:
            raise Overloaded(what=f"{MOST_LISTENERS} live views are open already", retry_after_s=10.0)
        body = b"" if request.method == "HEAD" else Stream(feed)
        response = Response(body, content_type="text/event-stream", headers=headers)
        response.timeout = None  # else Quart cuts it off after a minute
        return response

    return routes


class Listener:
    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.missed = 0
        self._wake = trio.Event()

    def put(self, event: Event) -> None:
        if self.missed or len(self.events) >= BUFFER:
            self.missed += 1
        else:
            self.events.append(event)
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    async def wait(self) -> None:
        """Until there is something new; may return without."""
        await self._wake.wait()
        self._wake = trio.Event()


class Feed:
    """Stands between the store and the listeners."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.listeners: list[Listener] = []
        self.dropped = 0
        self.ended = False

    def began(self, intent: Intent) -> None:
        for listener in self.listeners:
            listener.put(intent)

    def finished(self, record: RequestRecord) -> None:
        for listener in self.listeners:
            listener.put(record)

    def end(self) -> None:
        """The gateway stops: so do all streams."""
        self.ended = True
        for listener in self.listeners:
            listener.wake()

    def add(self) -> Listener:
        listener = Listener()
        self.listeners.append(listener)
        self._store.watcher = self
        return listener

    def remove(self, listener: Listener) -> None:
        self.listeners.remove(listener)
        if not self.listeners:
            self._store.watcher = None
        if listener.missed:
            self.dropped += 1
            _log.warning("live_view_dropped", missed=listener.missed, dropped=self.dropped)

    async def running(self) -> list[dict[str, object]]:
        return [started(intent) for intent in await self._store.running()]


class Stream(ResponseBody, AsyncIterator[bytes]):
    """One listener's answer. Entered and left by Quart around the sending, also when the client goes.

    A class and not a generator: nothing would close a generator that waits in its `yield`.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._began = False

    async def __aenter__(self) -> Stream:
        self._listener = self._feed.add()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._feed.remove(self._listener)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes:
        if not self._began:
            self._began = True
            return event("running", {"requests": await self._feed.running()})
        listener = self._listener
        if not listener.events:
            if listener.missed or self._feed.ended:
                raise StopAsyncIteration
            with trio.move_on_after(KEEPALIVE_S):
                await listener.wait()
        return self._take() or (b"" if self._feed.ended else _COMMENT)

    def _take(self) -> bytes:
        """Everything that waits, as one piece."""
        events = self._listener.events
        parts = [_encoded(item) for item in events]
        events.clear()
        if self._listener.missed:
            parts.append(event("dropped", {"missed": self._listener.missed}))
        return b"".join(parts)


def started(intent: Intent) -> dict[str, object]:
    """One call of a provider. `attempt` counts from 0; a higher one is a fallback."""
    return {
        "id": intent.id,
        "attempt": intent.attempt,
        "timestamp": intent.timestamp,
        "project": intent.project,
        "modality": intent.modality,
        "model_id": intent.model_id,
        "requested_model": intent.requested_model,
        "stream": intent.stream,
        "session_id": intent.session_id,
        "turn_id": intent.turn_id,
        "key_id": intent.key_id,
        "endpoint": intent.endpoint,
    }


def _encoded(item: Event) -> bytes:
    if isinstance(item, RequestRecord):
        return event("finished", log_record(item))
    return event("started", started(item))


def event(name: str, data: object) -> bytes:
    """JSON has no line breaks, so one `data` line holds it."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))
