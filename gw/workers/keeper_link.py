"""The keeper, as a worker sees it: the bank, the taker of records, and what it tells the worker to do.

    connected ──the keeper is gone──▶ alone, for good: the worker serves on within its leases and its journal
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import msgspec
import structlog
import trio

from gw.errors import KeeperUnreachable
from gw.store.record_sender import SentBatch
from gw.types.bank import Ask, Exchange
from gw.types.notices import GateNotice
from gw.workers.channel import Channel, ChannelClosed
from gw.workers.messages import (
    AskBank,
    BankAnswer,
    FromKeeper,
    JoinBank,
    LeaveBank,
    NoticeArrived,
    PublishNotice,
    RecordBatch,
)

ANSWER_S = 1.0
"""For an answer of the bank; requests wait for less than that."""
_MOST_NOTICES = 1_000
"""Notices that were not read; more of them at once are dropped: the worker learns by failures of its own."""
GONE = "it is gone"

_log = structlog.get_logger("gw.workers")


class KeeperLink:
    """Implements `Bank` and `NoticeBoard`. `run` must run beside."""

    def __init__(self, sock: socket.socket) -> None:
        self._channel: Channel[FromKeeper] = Channel(sock, FromKeeper)
        self._questions: dict[int, _Question] = {}
        self._next_id = 0
        self._notices, self._arrived = trio.open_memory_channel[GateNotice](_MOST_NOTICES)
        self.gone = trio.Event()

    @property
    def is_gone(self) -> bool:
        return self._channel.closed

    def has_ended(self) -> bool:
        """Return whether the keeper has ended, also where `is_gone` does not know yet."""
        return self._channel.is_hung_up()

    async def run(self, take: Callable[[FromKeeper], None]) -> None:
        """Pass on all that is not an answer of the bank, until the keeper is gone."""

        def receive(message: FromKeeper) -> None:
            if isinstance(message, NoticeArrived):
                self._note(message.notice)
            elif isinstance(message, BankAnswer):
                if (question := self._questions.pop(message.id, None)) is not None:
                    question.answer(message)
            else:
                take(message)

        await self._channel.run(receive)
        _log.error("keeper_gone", why="serving on without it: within the leases held, records stay in the journal")
        self.gone.set()
        for question in self._questions.values():
            question.answer(BankAnswer(id=0, unreachable=GONE))
        self._questions.clear()

    def send(self, message: msgspec.Struct) -> bool:
        """Send a message; return False when the keeper is gone."""
        try:
            self._channel.send(message)
        except ChannelClosed:
            return False
        return True

    def send_batch(self, batch: SentBatch) -> bool:
        """Send finished records; return False when the keeper is gone."""
        return self.send(
            RecordBatch(
                number=batch.number, segment=batch.segment, end=batch.end, records=batch.records, intents=batch.intents
            )
        )

    # ---- the bank

    async def join(self, member: str) -> str:
        return (await self._ask(lambda id_: JoinBank(id=id_))).run

    async def exchange(self, member: str, run: str, number: int, asks: Sequence[Ask]) -> Exchange:
        answer = await self._ask(lambda id_: AskBank(id=id_, run=run, number=number, asks=asks))
        if answer.exchange is None:
            raise KeeperUnreachable(why="its answer has no grants")
        return answer.exchange

    async def leave(self, member: str, run: str) -> None:
        await self._ask(lambda id_: LeaveBank(id=id_, run=run))

    # ---- notices about vendors

    def _note(self, notice: GateNotice) -> None:
        try:
            self._notices.send_nowait(notice)
        except trio.WouldBlock:
            _log.warning("fleet_notice_dropped", gate=notice.gate, model=notice.model)

    async def publish(self, notice: GateNotice) -> None:
        await trio.lowlevel.checkpoint()
        if not self.send(PublishNotice(notice=notice)):
            raise KeeperUnreachable(why=GONE)

    async def receive(self) -> GateNotice:
        return await self._arrived.receive()

    async def _ask(self, question_of: Callable[[int], msgspec.Struct]) -> BankAnswer:
        self._next_id += 1
        id_, question = self._next_id, _Question()
        self._questions[id_] = question
        try:
            if not self.send(question_of(id_)):
                raise KeeperUnreachable(why=GONE)
            with trio.move_on_after(ANSWER_S):
                await question.done.wait()
        finally:
            self._questions.pop(id_, None)
        if question.result is None:
            raise KeeperUnreachable(why=f"it has not answered within {ANSWER_S:g} s")
        if question.result.unreachable:
            raise KeeperUnreachable(why=question.result.unreachable)
        return question.result


class _Question:
    def __init__(self) -> None:
        self.done = trio.Event()
        self.result: BankAnswer | None = None

    def answer(self, result: BankAnswer) -> None:
        self.result = result
        self.done.set()
