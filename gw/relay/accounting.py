"""The parts of the gateway that number, price and record requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs
import trio

from gw.pricing.book import PriceBook
from gw.relay.admission import Ledger
from gw.telemetry.clock import Clock, RequestIds
from gw.types.captured import Piece
from gw.types.usage import Intent, RequestRecord


class Records(Protocol):
    """Sink of intents and records. The relay is handed one, since it knows no storage."""

    @property
    def accepting(self) -> bool: ...

    def intent(self, intent: Intent) -> None:
        """Write the journal line: on return it survives a kill -9."""

    def finish(self, record: RequestRecord) -> None:
        """Journal the record and queue it for the database: on return it survives a kill -9."""

    @property
    def commits_first(self) -> bool:
        """Durability `power`: the last byte waits for the commit."""

    async def wait_committed(self, record_id: str) -> None: ...


class CaptureSink(Protocol):
    """Takes what is captured to where it is stored. The relay is handed one, since it knows no storage."""

    def put(self, piece: Piece) -> bool:
        """Take over a piece; return whether there was room. Never waits."""


class Observer(Protocol):
    """Receives every finished record (metrics, live views)."""

    def observe(self, record: RequestRecord) -> None: ...


def _monotonic() -> Callable[[], float]:
    """Return what reads the clock of this Trio run, as `trio.current_time` does, which looks the clock up each time."""
    return trio.lowlevel.current_clock().current_time


@attrs.frozen(kw_only=True)
class Accounting:
    """The parts that number, time, price and record requests. Belongs to the Trio run in which it is made."""

    clock: Clock
    book: PriceBook
    ledger: Ledger
    records: Records
    observer: Observer
    captures: CaptureSink | None = None
    """None: nothing can be captured, since there is no secret to encrypt it with."""
    monotonic: Callable[[], float] = attrs.field(factory=_monotonic)
    """Returns monotonic seconds, on Trio's clock."""
    request_ids: RequestIds = attrs.field(default=attrs.Factory(lambda self: RequestIds(self.clock), takes_self=True))
