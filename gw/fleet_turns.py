"""The turns of requests in all gateways of a fleet that share a database, each of which finds them by itself (`gw.policy.ordered_turns`).

    own requests ── TurnReporter ──┐
    workers' reports (keeper) ─────┼─▶ unsent ── publish ──▶ server ── receive ──▶ OrderedTurns
    finished record ─▶ what is known goes into its commit; what is known later is written to its row (`store.turn_joins`)

Nothing waits for the server: where it is away, requests stay alone. Words are encrypted with a key that is in the gateways' database.
"""

from __future__ import annotations

import math
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec
import structlog
import trio

from gw.config.fleet_rules import member_name
from gw.config.settings import Settings
from gw.errors import BankUnreachable
from gw.policy.merged_turns import HOLD_S
from gw.policy.ordered_turns import OrderedTurns, process_name
from gw.policy.speaking_owners import SpeakingOwners
from gw.policy.turn_events import Owner, TurnChat, TurnEvent, TurnProcessEnded, TurnReport, TurnSpeech, TurnTranscript
from gw.policy.turn_steps import with_turn
from gw.policy.turn_texts import TurnPlace, WrittenAnswer
from gw.relay.turn_reporter import FLUSH_S, TurnReporter
from gw.store.record_lines import decode_record, encode_record
from gw.store.store import Store
from gw.telemetry.clock import Clock
from gw.types.llm import LastUser
from gw.types.turn_board import TurnBoard
from gw.types.usage import HeardSpeech, RequestRecord
from gw.vault import ContentCipher

MOST_UNSENT = 200
"""Reports that wait to be sent; when there are more, the oldest are dropped, and no gateway joins what it would have to know them for."""
LATE_S = 5.0
"""For the turn of a record that is committed already to become known."""
MOST_ALONE = 1_024
TIME_EVERY_S, FIRST_TIMES_S = 10.0, 0.1
"""Between two looks at the server's clock, of which the quickest of the last SAMPLES counts; and between the first ones."""
SAMPLES = 12
TICKS_S = 0.5
"""For an event to be applied; after that, no reports without events are sent for its sake."""
_AGAIN_S = 0.5
_ABOUT = "turns of a fleet"

_log = structlog.get_logger("gw.relay")


class _Late(NamedTuple):
    """A record that was written before all events of its request were applied."""

    process: str
    written: RequestRecord
    until: float
    """On trio's clock."""


class FleetTurns:
    """Implements `TurnFinder` for the requests of this process, and finds the turns of its workers' requests. `run` must run beside."""

    def __init__(self, board: TurnBoard, cipher: ContentCipher, member: str, clock: Clock, join: Callable[[RequestRecord], object]) -> None:
        """`join` writes the turn of a record that has been committed without it."""
        self.follow: Callable[[Sequence[Owner]], None] | None = None
        """Gets the keys that have speech, for the workers."""
        self._board, self._cipher, self._clock, self._join = board, cipher, clock, join
        self._member, self._run = member.replace(" ", "_"), secrets.token_hex(4)
        self._ordered = OrderedTurns(self._member, self._run)
        self._reporter = TurnReporter(self._report_own, clock)
        self._until: dict[str, float] = {}
        """Worker → time up to which it has reported."""
        self._open: set[str] = set()
        """Requests of this gateway that were reported, and whose records are not complete."""
        self._late: dict[str, _Late] = {}
        self._alone: OrderedDict[str, RequestRecord] = OrderedDict()
        """Records of this gateway without a turn, the newest ones: a request elsewhere may be found to follow them."""
        self._speakers = SpeakingOwners()
        self._unsent: deque[tuple[str, Sequence[TurnEvent], float]] = deque()
        self._number = 0
        self._last_event_at = -math.inf
        self._offsets: deque[tuple[float, float]] = deque(maxlen=SAMPLES)
        """(time that the answer took, offset) of the last looks at the server's clock."""
        self._progress, self._wake, self._is_timed = trio.Event(), trio.Event(), trio.Event()

    # ---- requests of this process

    def transcript(self, place: TurnPlace, text: str, now: float, part: HeardSpeech | None = None) -> None:
        self._reporter.transcript(place, text, now, part)

    def chat(self, place: TurnPlace, last_user: Callable[[], LastUser | None], now: float) -> WrittenAnswer | None:
        return self._reporter.chat(place, last_user, now)

    def speech(self, place: TurnPlace, text: str, now: float) -> bool:
        return self._reporter.speech(place, text, now)

    def completed_lines(self, records: Iterable[tuple[str, bytes]]) -> list[bytes]:
        """Return the lines of records of this process, by id and line, with their turns as far as they are known."""
        self._reporter.flush()
        return [self._completed_line(line) if id_ in self._open else line for id_, line in records]

    def _completed_line(self, line: bytes) -> bytes:
        record = decode_record(line)
        complete = self._complete("", record)
        return line if complete is record else encode_record(complete)

    def _report_own(self, events: Sequence[TurnEvent], until: float) -> bool:
        self._report("", events, until)
        return True

    # ---- requests of workers

    def expect(self, process: str) -> None:
        """Do nothing: a worker is known by its reports."""

    def take(self, process: str, events: Sequence[TurnEvent], until: float) -> None:
        """Take over a report of a worker."""
        self._until[process] = until
        self._report(process, events, until)

    def until(self, process: str) -> float:
        """Return the time up to which a worker has reported everything."""
        return self._until.get(process, -math.inf)

    async def wait_applied(self, until: float, arrived: float) -> None:
        """Wait until the events of all gateways up to a time are applied, for HOLD_S after `arrived`, on trio's clock, at most."""
        with trio.move_on_at(arrived + HOLD_S):
            while not self._ordered.is_applied(min(until, self._last_event_at) + self._offset):
                await self._progress.wait()

    def apply_all(self) -> None:
        """Do nothing: events are applied in the order of all gateways. What becomes known later is written later."""

    def completed(self, process: str, record: RequestRecord, line: bytes) -> tuple[RequestRecord, bytes]:
        """Return the record of a worker's request with its turn, and its line in the journal."""
        complete = self.complete(process, record)
        return (record, line) if complete is record else (complete, encode_record(complete))

    def complete(self, process: str, record: RequestRecord) -> RequestRecord:
        """Return the record of a worker's request with its turn."""
        return self._complete(process, record) if record.id in self._open else record

    def forget(self, process: str) -> None:
        """Tell all gateways that a worker has ended, and that its records are complete."""
        if (until := self._until.pop(process, None)) is not None:
            now = max(until, self._clock.now())
            self._report(process, [TurnProcessEnded(now)], now)

    # ---- records

    def _complete(self, process: str, record: RequestRecord) -> RequestRecord:
        name = self._name(process)
        place = self._ordered.place(name, record.id)
        if place is not None and place.is_done:
            return self._closed(name, record)
        known = record if place is None else with_turn(record, place)
        self._late[record.id] = _Late(name, known, trio.current_time() + LATE_S)
        return known

    def _finish_late(self) -> None:
        """Write the turns that have become known since their records were committed."""
        now = trio.current_time()
        for id_, late in list(self._late.items()):
            place = self._ordered.place(late.process, id_)
            if (place is not None and place.is_done) or late.until < now:
                del self._late[id_]
                complete = self._closed(late.process, late.written)
                if complete is not late.written:
                    self._join(complete)

    def _closed(self, process: str, record: RequestRecord) -> RequestRecord:
        """Return a record with its turn, after which no more becomes known by events of its own."""
        self._open.discard(record.id)
        complete = self._ordered.complete(process, record)
        if complete.turn_id is None:
            self._alone[record.id] = complete
            if len(self._alone) > MOST_ALONE:
                self._alone.popitem(last=False)
        return complete

    def _join_earlier(self) -> None:
        """Write the turns of earlier records of this gateway: the gateway that has the later one may have written it before they were."""
        for id_, place in self._ordered.joined:
            if (record := self._alone.pop(id_, None)) is not None:
                session_id = record.session_id or place.session_id
                self._join(msgspec.structs.replace(record, turn_id=place.turn_id, session_id=session_id))
        self._ordered.joined.clear()

    def _name(self, process: str) -> str:
        return process_name(self._member, self._run, process)

    # ---- reports

    async def run(self) -> None:
        """Send and receive reports until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reporter.run)
            nursery.start_soon(self._publish)
            nursery.start_soon(self._follow_time)
            while True:
                try:
                    message = await self._board.receive()
                except BankUnreachable:
                    await trio.sleep(_AGAIN_S)
                else:
                    self._receive(message)

    def _report(self, process: str, events: Sequence[TurnEvent], until: float) -> None:
        if not events:
            return
        self._last_event_at = until
        self._open.update(event.place.request_id for event in events if isinstance(event, TurnTranscript | TurnChat | TurnSpeech))
        self._unsent.append((process, events, until))
        if len(self._unsent) > MOST_UNSENT:
            self._unsent.popleft()
            self._number += 1  # so that all gateways know that one is missing
        self._wake.set()

    async def _publish(self) -> None:
        """Send what is to be reported, and the time until all of it is applied."""
        await self._is_timed.wait()
        while True:
            if not self._unsent and self._is_applied():
                self._wake = trio.Event()
                await self._wake.wait()
            if self._unsent:
                process, events, until = self._unsent.popleft()
            else:
                await trio.sleep(FLUSH_S)
                process, events, until = "", (), self._clock.now()
            await self._send(process, events, until)

    def _is_applied(self) -> bool:
        """Return whether nothing waits for the time to be reported."""
        at = self._last_event_at
        return self._ordered.is_applied(at + self._offset) or self._clock.now() > at + TICKS_S

    async def _send(self, process: str, events: Sequence[TurnEvent], until: float) -> None:
        self._number += 1
        report = TurnReport(self._member, self._run, self._number, process, self._offset, until, list(events))
        try:
            await self._board.publish(self._cipher.seal(msgspec.msgpack.encode(report), about=_ABOUT))
        except BankUnreachable as error:
            _log.debug("turns_not_reported", why=error.message)  # the bank's own troubles are logged where limits need it

    def _receive(self, message: bytes) -> None:
        try:
            report = msgspec.msgpack.decode(self._cipher.open(message, about=_ABOUT), type=TurnReport)
        except ValueError as error:
            _log.warning("turns_unreadable", why=str(error))
            return
        self._ordered.take(report)
        self._spread(event.place.key[:2] for event in report.events if isinstance(event, TurnTranscript | TurnSpeech))
        if self._late:
            self._finish_late()
        if self._ordered.joined:
            self._join_earlier()
        self._progress.set()
        self._progress = trio.Event()

    def _spread(self, owners: Iterable[Owner]) -> None:
        """Have all processes of this gateway report the keys that have speech, each key once in SPREAD_S."""
        due = self._speakers.due(owners, trio.current_time())
        if due:
            self._reporter.wake(due)
            if self.follow is not None:
                self.follow(due)

    # ---- the server's clock

    @property
    def _offset(self) -> float:
        return min(self._offsets)[1] if self._offsets else 0.0

    async def _follow_time(self) -> None:
        while True:
            began, at = trio.current_time(), self._clock.now()
            try:
                theirs = await self._board.time()
            except BankUnreachable:
                await trio.sleep(_AGAIN_S)
                continue
            took = trio.current_time() - began
            self._offsets.append((took, theirs - (at + took / 2)))
            self._is_timed.set()
            await trio.sleep(TIME_EVERY_S if len(self._offsets) == SAMPLES else FIRST_TIMES_S)


@asynccontextmanager
async def open_fleet_turns(settings: Settings, store: Store, clock: Clock) -> AsyncIterator[FleetTurns | None]:
    """Yield what finds turns in all gateways of a fleet; None if they do not share a database. Raise ConfigError."""
    if not settings.cost_tracking.database:
        yield None
        return
    from gw.fleet.fleet_configured import open_configured_turns  # a gateway alone imports nothing of either
    from gw.store.postgres.postgres_store import PostgresStore

    assert isinstance(store, PostgresStore)
    async with open_configured_turns(settings) as board:
        turns = FleetTurns(board, ContentCipher(await store.turns_key()), member_name(settings), clock, store.join)
        store.complete_by(turns.completed_lines)
        yield turns
