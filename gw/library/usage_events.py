"""Usage events: the usage of every finished request, for listeners; and usage reported by engines that gw does not call.

The store calls its watcher for each record when it is made, and the watcher must not wait. So events go into a queue, and
a task calls the listeners, one event after the other.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

import attrs
import structlog
import trio

from gw.errors import RequestError
from gw.types.ids import MODALITIES, Modality, split_model_id
from gw.types.usage import NANO, Intent, RequestRecord, Usage

EVENTS = 1_000  # events that may wait for slow listeners, about 1 kB each; further ones are dropped, counted and logged
USAGE_COLLECTED = "usage_collected"
_AMOUNTS = ("audio_seconds", "characters", "input_tokens", "output_tokens")
_log = structlog.get_logger("gw.library")


@attrs.frozen(kw_only=True)
class UsageCollected:
    """The usage of one request: seconds for speech-to-text, characters for text-to-speech, tokens for a language model.

    `cost_usd` None means unknown; for an emitted event the price list decides then. `record` is the gateway's own record,
    in events that listeners receive.
    """

    modality: Modality
    model: str
    """`<provider>/<name>`."""
    audio_seconds: float = 0.0
    characters: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    project: str = ""
    """Empty for the project of the gateway that emits it."""
    session_id: str | None = None
    turn_id: str | None = None
    record: RequestRecord | None = None

    def check(self) -> None:
        """Raise RequestError for impossible usage."""
        provider, name = split_model_id(self.model)
        if self.modality not in MODALITIES:
            raise RequestError(what=f"modality must be one of {', '.join(MODALITIES)}", param="modality")
        if not provider or not name:
            raise RequestError(what="model must be <provider>/<name>", param="model")
        for field in (*_AMOUNTS, "cost_usd"):
            value = getattr(self, field)
            if value is not None and not 0 <= value < math.inf:
                raise RequestError(what=f"{field} must be a number of 0 or more", param=field)

    @property
    def units(self) -> Usage:
        """Return the same amounts as records hold them."""
        return Usage(**{name: getattr(self, name) for name in _AMOUNTS})


Listener = Callable[[UsageCollected], object]
CallListener = Callable[[Listener, UsageCollected], Awaitable[None]]


def add_listener(listeners: list[Listener], event: str, listener: Listener) -> None:
    """Add a listener. Raises ValueError for an unknown event, TypeError for a listener that cannot be called."""
    if event != USAGE_COLLECTED:
        raise ValueError(f"unknown event {event!r}; the only one is {USAGE_COLLECTED!r}")
    if not callable(listener):
        raise TypeError("a listener is a function of one argument")
    listeners.append(listener)


def event_of(record: RequestRecord) -> UsageCollected:
    return UsageCollected(
        modality=record.modality,
        model=record.model_id,
        **{name: getattr(record.usage, name) for name in _AMOUNTS},
        cost_usd=None if record.cost_nusd is None else record.cost_nusd / NANO,
        project=record.project,
        session_id=record.session_id,
        turn_id=record.turn_id,
        record=record,
    )


async def call_here(listener: Listener, event: UsageCollected) -> None:
    """Call a listener on the event loop; it must return soon."""
    listener(event)


async def call_in_thread(listener: Listener, event: UsageCollected) -> None:
    """Call a listener in a thread, so that it may wait. One that never returns is abandoned at the end."""
    await trio.to_thread.run_sync(listener, event, abandon_on_cancel=True)


class UsageFeed:
    """The store's watcher. `listeners` may grow while it runs; `call` calls one of them."""

    def __init__(self, listeners: Sequence[Listener], call: CallListener) -> None:
        self._listeners = listeners
        self._call = call
        self._send, self._receive = trio.open_memory_channel[UsageCollected](EVENTS)
        self.dropped = 0

    def began(self, intent: Intent) -> None:
        """Ignore a request that starts: it has used nothing yet."""

    def finished(self, record: RequestRecord) -> None:
        if not self._listeners:
            return
        try:
            self._send.send_nowait(event_of(record))
        except trio.WouldBlock:
            self.dropped += 1
            _log.warning("usage_event_left_out", request_id=record.id, left_out=self.dropped)
        except trio.ClosedResourceError:
            pass  # the feed has ended before the gateway: its last records are in the database all the same

    def close(self) -> None:
        """Accept no more events; `run` ends after those that wait."""
        self._send.close()

    async def run(self) -> None:
        """Call the listeners until `close`. One that fails is logged; the others and the next events still follow."""
        async for event in self._receive:
            for listener in tuple(self._listeners):
                try:
                    await self._call(listener, event)
                except Exception:
                    name = getattr(listener, "__qualname__", "listener")
                    _log.error("usage_listener_failed", listener=name, exc_info=True)
