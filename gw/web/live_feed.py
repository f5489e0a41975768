"""`GET /api/live`: requests in flight, and each finished record, as server-sent events.

The store reports every intent and every record to its watcher, and has none while nobody listens. Each listener reads
from its own buffer, so a slow one delays nobody: when its buffer is full it is dropped, and learns how many events it
has missed when it reads again. Requests that began before a listener came are read from the journal.

A stream ends when its listener may no longer look: the session was ended, the token revoked or expired, the role changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Collection

import msgspec
import structlog
import trio

from gw.admin.logs import log_record
from gw.errors import Overloaded
from gw.store.store import Store
from gw.types.usage import Intent, RequestRecord
from gw.web.reply import NOT_CACHED, Reply
from gw.wire import sse

BUFFER = 1_000  # events waiting for one listener, about 1 kB each; full = the listener is dropped
MAX_LISTENERS = 50
KEEPALIVE_S = 15.0
CHECK_S = 0.5  # between two looks at the listener's right, while nothing happens; there is another one before each event
STARTED_FIELDS = (
    *("id", "attempt", "timestamp", "project", "modality", "model_id", "requested_model", "stream"),
    *("session_id", "turn_id", "key_id", "endpoint"),
)
"""Fields of an intent that are shown. It is one call of a provider; an `attempt` above 0 is a fallback."""
_COMMENT = b": still here\n\n"
_log = structlog.get_logger("gw.web")

Event = Intent | RequestRecord


class Feed:
    """The store's watcher while there are listeners."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.listeners: list[Stream] = []
        self.dropped = 0
        self.ended = False

    def reply(self, projects: Collection[str] | None, may_look: Callable[[], bool]) -> Reply:
        """Return the answer for a new listener, who sees the requests of `projects` (None = of all) while `may_look`.

        Raises Overloaded.
        """
        if len(self.listeners) >= MAX_LISTENERS:
            raise Overloaded(what=f"{MAX_LISTENERS} live views are open already", retry_after_s=10.0)
        return Reply(Stream(self, projects, may_look), b"text/event-stream", [NOT_CACHED, (b"x-accel-buffering", b"no")])

    def began(self, intent: Intent) -> None:
        for listener in self.listeners:
            listener.put(intent)

    def finished(self, record: RequestRecord) -> None:
        for listener in self.listeners:
            listener.put(record)

    def end(self) -> None:
        """End all streams, because the gateway stops."""
        self.ended = True
        for listener in self.listeners:
            listener.wake()

    def add(self, listener: Stream) -> None:
        self.listeners.append(listener)
        self._store.watcher = self

    def remove(self, listener: Stream) -> None:
        self.listeners.remove(listener)
        if not self.listeners:
            self._store.watcher = None
        if listener.missed:
            self.dropped += 1
            _log.warning("live_view_dropped", missed=listener.missed, dropped=self.dropped)

    async def running(self, projects: Collection[str] | None) -> list[dict[str, object]]:
        intents = await self._store.running()
        return [started(intent) for intent in intents if projects is None or intent.project in projects]


class Stream(AsyncIterator[bytes]):
    """One listener's buffer and answer: entered when it is sent, and left also when the client disconnects.

    A class and not a generator: nothing would close a generator that is suspended in its `yield`.
    """

    def __init__(self, feed: Feed, projects: Collection[str] | None = None, may_look: Callable[[], bool] = lambda: True) -> None:
        self.missed = 0
        self._projects = projects
        self._may_look = may_look
        self._events: deque[Event] = deque()
        self._wake = trio.Event()
        self._feed = feed
        self._began = False

    def put(self, event: Event) -> None:
        if self._projects is not None and event.project not in self._projects:
            return
        if self.missed or len(self._events) >= BUFFER:
            self.missed += 1
        else:
            self._events.append(event)
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    async def wait(self) -> None:
        """Wait for something new; may return without."""
        await self._wake.wait()
        self._wake = trio.Event()

    async def __aenter__(self) -> Stream:
        self._feed.add(self)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._feed.remove(self)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes:
        if not self._began:
            self._began = True
            return event("running", {"requests": await self._feed.running(self._projects)})
        if not self._events:
            if self.missed or self._feed.ended:
                raise StopAsyncIteration
            await self._wait_while_allowed(trio.current_time() + KEEPALIVE_S)
        if not self._may_look():
            raise StopAsyncIteration
        return self._take() or (b"" if self._feed.ended else _COMMENT)

    async def _wait_while_allowed(self, until: float) -> None:
        """Wait for something new, until the trio time `until`, or until the listener may no longer look."""
        while (now := trio.current_time()) < until and self._may_look():
            with trio.move_on_after(min(CHECK_S, until - now)):
                return await self.wait()

    def _take(self) -> bytes:
        """Return all waiting events as one piece."""
        parts = [_encoded(item) for item in self._events]
        self._events.clear()
        if self.missed:
            parts.append(event("dropped", {"missed": self.missed}))
        return b"".join(parts)


def started(intent: Intent) -> dict[str, object]:
    return {name: getattr(intent, name) for name in STARTED_FIELDS}


def _encoded(item: Event) -> bytes:
    if isinstance(item, RequestRecord):
        return event("finished", log_record(item))
    return event("started", started(item))


def event(name: str, data: object) -> bytes:
    return sse.encode(msgspec.json.encode(data), name)
