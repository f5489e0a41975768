"""One process of a worker, as the keeper sees it: its start, its messages, its records and its end.

    spare ──start──▶ starting ──WorkerListens──▶ serving ──drain──▶ draining ──▶ ended
                        └───────────── the process dies ─────────────┘

Records are counted when they arrive, and acknowledged when they are committed. When the process has ended, what it has not sent is read
from its journal.
"""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import attrs
import msgspec
import structlog
import trio

from gw.engines.environment import child_environment
from gw.errors import BankUnreachable, StoreUnavailable
from gw.gateway import Gateway, SharedBank
from gw.relay.dead_members import AGAIN_S, take_out
from gw.store.record_lines import decode_line, decode_record
from gw.store.worker_store import adopt
from gw.telemetry.clock import utc_day
from gw.types.bank import Ask
from gw.types.captured import Piece
from gw.types.notices import GateNotice
from gw.types.usage import Intent, RequestRecord
from gw.types.worker_state import WorkerFigures
from gw.workers.channel import Channel, ChannelClosed
from gw.workers.messages import (
    AskBank,
    BankAnswer,
    CallCompared,
    CannotListen,
    CapturedContent,
    ConfigApplied,
    FromWorker,
    JoinBank,
    LeaveBank,
    ListRunning,
    PhraseAnswer,
    PublishNotice,
    RecordBatch,
    RecordsCommitted,
    RecordsSent,
    RunningRequests,
    SendRecords,
    StartWork,
    TurnEvents,
    WorkerListens,
    WorkerReport,
)  # fmt: skip
from gw.workers.phrase_exchange import WorkerCache
from gw.workers.shared_turns import WorkerTurns

PROGRAM = "from gw.workers.worker_start import main; main()"
_LOG_VARIABLES = ("GW_LOG_LEVEL", "GW_LOG_FORMAT", "NO_COLOR")
BATCHES = 16
"""Batches of records that are not committed, of which a worker sends 8 before it waits, or a few more for reports."""
GATHER_S = 2.0
"""For the records of a worker, when a report waits for them."""
END_S = 5.0
"""For a process whose channel is closed to end by itself."""
RUNNING_S = 0.5
"""For a worker to say what runs."""


@attrs.frozen
class _Batch:
    """Records that wait for their commit. `turns_until`: time up to which the worker has reported the words of its requests."""

    number: int
    records: list[tuple[RequestRecord, bytes]]
    turns_until: float
    arrived: float


log = structlog.get_logger("gw.workers")


class WorkerProcess:
    """`run` starts the process and stays with it until it has ended; `start` makes a worker of it."""

    def __init__(self, gateway: Gateway, bank: SharedBank, turns: WorkerTurns) -> None:
        self.state: Literal["spare", "starting", "serving", "draining", "ended"] = "spare"
        self.name = ""
        self.journal: Path | None = None
        self.pid = 0
        self.figures = WorkerFigures()
        self.last_message_at = trio.current_time()
        """When the process last said something; while it serves it does so every second."""
        self.config_applied = 0
        """Number of the last configuration that the worker has put in force."""
        self.changed = trio.Event()
        """Set, and replaced, when `state` or `config_applied` changes."""
        self.settled = trio.Event()
        """All that the process has left is committed."""
        self.refused: CannotListen | None = None
        self.exit_code: int | None = None
        self.connections, self._far_connections = socket.socketpair()
        self.spent: dict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
        """(project, UTC day) → nano-USD by its records, and the estimated part."""
        self.key_spent: dict[tuple[str, int], int] = defaultdict(int)
        """(key, UTC day) → nano-USD by its records."""
        self.budgets: dict[str, Ask] = {}
        """Accounts of budgets of which the worker has leased something, and what it said last."""
        self._gateway = gateway
        self._bank = bank
        self._turns = turns
        self._control, self._far_control = socket.socketpair()
        self._channel: Channel[FromWorker] = Channel(self._control, FromWorker)
        self._position = (0, 0)
        self._nursery: trio.Nursery | None = None
        self._batches, self._arrived = trio.open_memory_channel[_Batch | None](BATCHES)
        """None stands for the end of what a report waits for."""
        self._gathers = self._gathered = 0
        self._gather_again = False
        self._running: dict[int, tuple[trio.Event, list[Intent]]] = {}
        self._numbers = 0
        self._process: trio.Process | None = None
        self.phrases = WorkerCache(self.send)

    def send(self, message: msgspec.Struct) -> None:
        """Send a message; one to a process that is gone is dropped."""
        with suppress(ChannelClosed):
            self._channel.send(message)

    def start(self, start: StartWork, config_number: int) -> None:
        """Make a worker of a spare process."""
        self.name, self.journal = start.name, Path(start.journal)
        self.config_applied = config_number
        self._turns.expect(self.name)
        self._set_state("starting")
        self.send(start)

    def _set_state(self, state: Literal["starting", "serving", "draining", "ended"]) -> None:
        self.state = state
        self._note_change()

    def _note_change(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the process until it has ended, however that happens; then commit what it has left. Raises OSError (no process)."""
        environment = child_environment() | {name: os.environ[name] for name in _LOG_VARIABLES if name in os.environ}
        descriptors = (self._far_control.fileno(), self._far_connections.fileno())
        command = [sys.executable, "-c", PROGRAM, *map(str, descriptors)]
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.DEVNULL, pass_fds=descriptors, env=environment, process_group=0,  # out of reach of Ctrl-C
        )  # fmt: skip
        self._far_control.close()
        self._far_connections.close()
        self.pid, self._process = process.pid, process
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._commit_batches)
                task_status.started()
                await self._channel.run(self._take)  # ends with the process
                self.figures = WorkerFigures()
                self._set_state("ended")
                self._batches.close()
                if self.journal is None:
                    process.kill()  # a spare one has nothing to lose
                with trio.move_on_after(END_S):
                    await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            self._channel.close()
            for event, _ in self._running.values():
                event.set()
            self.phrases.end()
        self.exit_code = await process.wait()
        await self._settle()
        self.settled.set()

    def kill(self) -> None:
        """End the process soon; `run` takes over what it leaves."""
        self._channel.give_up()

    def kill_now(self) -> None:
        """End a process that does not read its messages."""
        assert self._process is not None
        self._process.kill()

    # ---- messages

    def _take(self, message: FromWorker) -> None:
        assert self._nursery is not None
        self.last_message_at = trio.current_time()
        match message:
            case RecordBatch():
                self._arrive(message)
            case TurnEvents():
                self._turns.take(self.name, message.events, message.until)
            case RecordsSent():
                self._batches.send_nowait(None)
            case JoinBank() | AskBank() | LeaveBank():
                self._nursery.start_soon(self._answer, message)
            case PublishNotice():
                self._nursery.start_soon(self._publish, message.notice)
            case WorkerReport():
                self.figures = message.figures
            case WorkerListens():
                self._set_state("serving")
            case CannotListen():
                self.refused = message
            case ConfigApplied():
                self.config_applied = message.number
                self._note_change()
            case RunningRequests():
                self._note_running(message)
            case CapturedContent():
                self._capture(message)
            case CallCompared():
                self._gateway.relay.shadows.count(message.call)
            case PhraseAnswer():
                self.phrases.receive(message)

    async def _answer(self, question: JoinBank | AskBank | LeaveBank) -> None:
        """Ask the bank in the worker's name."""
        try:
            match question:
                case JoinBank():
                    answer = BankAnswer(id=question.id, run=await self._bank.join(self.name))
                case AskBank():
                    self.budgets |= {ask.account: ask for ask in question.asks if ask.kind == "budget"}
                    exchange = await self._bank.exchange(self.name, question.run, question.number, question.asks)
                    answer = BankAnswer(id=question.id, exchange=exchange)
                case LeaveBank():
                    await self._bank.leave(self.name, question.run)
                    answer = BankAnswer(id=question.id)
        except BankUnreachable as error:
            answer = BankAnswer(id=question.id, unreachable=error.message)
        self.send(answer)

    async def _publish(self, notice: GateNotice) -> None:
        try:
            await self._bank.publish(notice)
        except BankUnreachable as error:
            log.info("fleet_notice_lost", gate=notice.gate, model=notice.model, why=error.message)

    def _capture(self, message: CapturedContent) -> None:
        if self._gateway.captures is not None:
            content = message.content
            piece = Piece(
                message.request_id, message.project, message.at, message.expires_at, message.kind, message.part, len(content),
                lambda: content, message.presidio,
            )  # fmt: skip
            self._gateway.captures.put(piece)

    # ---- records

    def _arrive(self, batch: RecordBatch) -> None:
        """Count what a batch has at once; it is committed in its turn. There is more room than a worker may have outstanding."""
        for line in _lines(batch.intents):
            self._note_intent(line)
        records = [(decode_record(line), line) for line in _lines(batch.records)]
        if batch.segment:
            self._position = (batch.segment, batch.end)
        self._note([record for record, _ in records])
        self._batches.send_nowait(_Batch(batch.number, records, self._turns.until(self.name), trio.current_time()))

    async def _commit_batches(self) -> None:
        async for batch in self._arrived:
            if batch is None:
                self._note_gathered()
                continue
            if self._gateway.store.commits_first:
                self._turns.apply_all()  # callers wait for this commit
            else:
                await self._turns.wait_applied(batch.turns_until, batch.arrived)
            await self._gateway.store.add(self._turns.completed(self.name, record, line) for record, line in batch.records)
            self.send(RecordsCommitted(number=batch.number))

    def _note_intent(self, line: bytes) -> None:
        intent = decode_line(line)
        if isinstance(intent, Intent) and self._gateway.store.watcher is not None:
            self._gateway.store.watcher.began(intent)

    def _note(self, records: Sequence[RequestRecord]) -> None:
        """Count records of the worker in metrics and in the day's spend."""
        ledger = self._gateway.ledger
        for record in records:
            self._gateway.metrics.observe(record)
            nusd, day = (record.cost_nusd or 0) + record.estimated_nusd, utc_day(record.timestamp)
            if nusd:
                before, estimated = self.spent[record.project, day]
                self.spent[record.project, day] = before + nusd, estimated + record.estimated_nusd
                ledger.count_elsewhere(record.project, day, nusd, record.estimated_nusd)
                if record.key_id is not None:
                    self.key_spent[record.key_id, day] += nusd
                    ledger.count_key_elsewhere(record.key_id, day, nusd)

    async def _settle(self) -> None:
        """Commit what the process has left in its journal, and count as the keeper's own what it has spent."""
        if self.journal is None:
            return
        await self._turns.wait_applied(math.inf, trio.current_time())  # what it has reported last
        try:
            await adopt(self._gateway.store, self.journal, self._position, self._note, partial(self._turns.complete, self.name))
        except StoreUnavailable as error:
            log.error("worker_journal_kept", why=error.message)
        self._turns.forget(self.name)
        ledger = self._gateway.ledger
        for (project, day), (nusd, estimated) in self.spent.items():
            ledger.take_over(project, day, nusd, estimated)
        for (key_id, day), nusd in self.key_spent.items():
            ledger.take_over_key(key_id, day, nusd)
        self.spent.clear()
        self.key_spent.clear()

    async def leave_bank(self) -> None:
        """Take a worker that has ended out of the bank, which first learns that what it has spent is the keeper's.

        Tries until the bank can be reached.
        """
        leases = self._gateway.leases
        assert leases is not None  # the keeper's own: it shares limits with its workers
        while True:
            if await leases.report() and await take_out(self._bank, self.name, self.budgets.values()):
                return
            await trio.sleep(AGAIN_S)

    async def gather(self) -> None:
        """Wait, for GATHER_S at most, until what the worker has recorded by now is committed."""
        target = self._gathers + 1
        if self._gathers == self._gathered:
            self._ask_for_records()
        else:
            self._gather_again = True  # what was asked for may have been sent already
        with trio.move_on_after(GATHER_S):
            while self._gathered < target and self.state != "ended":
                await self.changed.wait()

    def _ask_for_records(self) -> None:
        self._gathers += 1
        self._gather_again = False
        self.send(SendRecords(id=self._gathers))

    def _note_gathered(self) -> None:
        self._gathered += 1
        if self._gather_again:
            self._ask_for_records()
        self._note_change()

    # ---- live view

    async def running(self) -> list[Intent]:
        """Return the requests that run in the worker, which sends intents from now on; a worker that starts has none."""
        self._numbers += 1
        number, answered, intents = self._numbers, trio.Event(), list[Intent]()
        self._running[number] = answered, intents
        self.send(ListRunning(id=number))
        with trio.move_on_after(RUNNING_S):
            await answered.wait()
        self._running.pop(number, None)
        return intents

    def _note_running(self, message: RunningRequests) -> None:
        if (waiting := self._running.get(message.id)) is not None:
            waiting[1].extend(msgspec.json.decode(line, type=Intent) for line in _lines(message.intents))
            waiting[0].set()


def _lines(data: bytes) -> list[bytes]:
    return data.split(b"\n") if data else []
