"""Usage events: what every finished request used, told to listeners; and the same from engines that gw does not call.

The store tells its watcher of each record the moment it is made, which must not wait. So events go into a queue, and a
task tells the listeners, one event after the other.
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

EVENTS = 1_000
"""Events waiting for listeners that are slow, about 1 kB each; full = further ones are left out, counted and logged."""
_log = structlog.get_logger("gw.library")


@attrs.frozen(kw_only=True)
class UsageCollected:
    """What one request used. Speech-to-text counts seconds, text-to-speech characters, a language model tokens.

    `cost_usd` None = not known; in an event that is emitted, the price list decides then. `record` is the gateway's own
    record, in events that it tells.
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
    """"" = that of the gateway that emits it."""
    session_id: str | None = None
    turn_id: str | None = None
    record: RequestRecord | None = None

    def checked(self) -> UsageCollected:
        """Raises RequestError for what nobody can have used."""
        provider, name = split_model_id(self.model)
        if self.modality not in MODALITIES:
            raise RequestError(what=f"modality must be one of {', '.join(MODALITIES)}", param="modality")
        if not provider or not name:
            raise RequestError(what="model must be <provider>/<name>", param="model")
        for field in ("audio_seconds", "characters", "input_tokens", "output_tokens", "cost_usd"):
            value = getattr(self, field)
            if value is not None and not 0 <= value < math.inf:
                raise RequestError(what=f"{field} must be a number of 0 or more", param=field)
        return self

    @property
    def units(self) -> Usage:
        """As records have it."""
        return Usage(
            audio_seconds=self.audio_seconds,
            characters=self.characters,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
        )


Listener = Callable[[UsageCollected], object]
Tell = Callable[[Listener, UsageCollected], Awaitable[None]]


def event_of(record: RequestRecord) -> UsageCollected:
    used = record.usage
    return UsageCollected(
        modality=record.modality,
        model=record.model_id,
        audio_seconds=used.audio_seconds,
        characters=used.characters,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost_usd=None if record.cost_nusd is None else record.cost_nusd / NANO,
        project=record.project,
        session_id=record.session_id,
        turn_id=record.turn_id,
        record=record,
    )


async def tell_here(listener: Listener, event: UsageCollected) -> None:
    """On the event loop: the listener must return soon."""
    listener(event)


async def tell_in_thread(listener: Listener, event: UsageCollected) -> None:
    """In a thread, so that a listener that waits holds up no audio. One that never returns is left behind at the end."""
    await trio.to_thread.run_sync(listener, event, abandon_on_cancel=True)


class UsageFeed:
    """The store's watcher. `listeners` may grow while it runs."""

    def __init__(self, listeners: Sequence[Listener], tell: Tell) -> None:
        self._listeners = listeners
        self._tell = tell
        self._send, self._receive = trio.open_memory_channel[UsageCollected](EVENTS)
        self.left_out = 0

    def began(self, intent: Intent) -> None:
        """Nothing has been used yet."""

    def finished(self, record: RequestRecord) -> None:
        if not self._listeners:
            return
        try:
            self._send.send_nowait(event_of(record))
        except trio.WouldBlock:
            self.left_out += 1
            _log.warning("usage_event_left_out", request_id=record.id, left_out=self.left_out)
        except trio.ClosedResourceError:
            pass  # the feed has ended before the gateway: its last records are in the database all the same

    def close(self) -> None:
        """No more events; `run` ends when those that wait have been told."""
        self._send.close()

    async def run(self) -> None:
        """Tell them. A listener that fails is logged; the others, and the next event, still come."""
        async for event in self._receive:
            for listener in tuple(self._listeners):
                try:
                    await self._tell(listener, event)
                except Exception:
                    name = getattr(listener, "__qualname__", "listener")
                    _log.error("usage_listener_failed", listener=name, exc_info=True)
