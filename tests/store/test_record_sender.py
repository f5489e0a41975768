"""A worker's records on their way to the keeper, on a virtual clock."""

from __future__ import annotations

from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing
from structlog.testing import capture_logs

from gw.store import record_sender
from gw.store.journal import Journal
from gw.store.journal_files import segment_paths
from gw.store.record_lines import record_id
from gw.store.record_sender import MOST_OUTSTANDING, RecordSender, SentBatch
from gw.store.writer import GATHER_S, QUEUED
from tests.fakes.records import intent, record


@attrs.define
class Keeper:
    """Takes batches while `there`; commits when it is told to."""

    batches: list[SentBatch] = attrs.field(factory=list)
    there: bool = True

    def take(self, batch: SentBatch) -> bool:
        if self.there:
            self.batches.append(batch)
        return self.there

    def ids(self) -> list[str]:
        lines = [line for batch in self.batches for line in batch.records.split(b"\n") if line]
        return [record_id(line) for line in lines]


class Worker:
    def __init__(self, path, *, power: bool = False, segment_bytes: int = 2**20) -> None:
        self.path = path
        self.keeper = Keeper()
        self.journal = Journal(path, segment_bytes=segment_bytes)
        self.sender = RecordSender(self.journal, self.keeper.take, power=power)

    def finish(self, id_: str, **fields) -> None:
        self.journal.intent(intent(id_))
        made = record(id_, **fields)
        self.sender.put(made, self.journal.finish(made))


@asynccontextmanager
async def running(worker: Worker):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.sender.run)
        await trio.testing.wait_all_tasks_blocked()
        yield worker
        nursery.cancel_scope.cancel()
    worker.journal.close()


async def test_records_of_a_moment_share_a_batch_and_are_at_most_50_ms_late(tmp_path, mock_clock):
    async with running(Worker(tmp_path / "w")) as worker:
        worker.finish("a")
        mock_clock.jump(GATHER_S / 2)
        worker.finish("b")
        await trio.testing.wait_all_tasks_blocked()
        assert worker.keeper.batches == []
        mock_clock.jump(GATHER_S / 2)
        await trio.testing.wait_all_tasks_blocked()
        assert worker.keeper.ids() == ["a", "b"]
        assert len(worker.keeper.batches) == 1
        assert worker.sender.depth == 2


async def test_lines_are_kept_until_they_are_committed(tmp_path, autojump_clock):
    async with running(Worker(tmp_path / "w", segment_bytes=4_096)) as worker:
        for number in range(40):
            worker.finish(f"r{number}")
        await trio.sleep(1)
        before = len(segment_paths(worker.path))
        assert before > 5
        while worker.sender.depth:
            worker.sender.committed(worker.keeper.batches[-1].number)
            await trio.sleep(0.1)
        assert worker.keeper.ids() == [f"r{number}" for number in range(40)]
        assert len(segment_paths(worker.path)) == 1  # the current one


async def test_only_so_many_batches_are_on_their_way_and_the_rest_waits_in_the_journal(tmp_path, autojump_clock, monkeypatch):
    monkeypatch.setattr(record_sender, "BATCH_BYTES", 2_000)
    async with running(Worker(tmp_path / "w")) as worker:
        for number in range(200):
            worker.finish(f"r{number}")
        await trio.sleep(1)
        assert len(worker.keeper.batches) == MOST_OUTSTANDING
        while worker.sender.depth:
            worker.sender.committed(worker.keeper.batches[-1].number)
            await trio.sleep(0.1)
        assert worker.keeper.ids() == [f"r{number}" for number in range(200)]


async def test_a_keeper_that_is_gone_gets_everything_when_there_is_one_again(tmp_path, autojump_clock):
    async with running(Worker(tmp_path / "w")) as worker:
        worker.keeper.there = False
        worker.finish("a")
        await trio.sleep(1)
        assert worker.sender.trouble
        await worker.sender.flush()  # does not wait for one that is gone
        worker.keeper.there = True
        await trio.sleep(2)
        assert worker.keeper.ids() == ["a"]
        assert not worker.sender.trouble


async def test_with_durability_power_a_record_is_sent_at_once_and_awaited(tmp_path, mock_clock):
    async with running(Worker(tmp_path / "w", power=True)) as worker, trio.open_nursery() as nursery:
        worker.finish("a")
        await trio.testing.wait_all_tasks_blocked()
        assert worker.keeper.ids() == ["a"]
        done = trio.Event()

        async def wait() -> None:
            await worker.sender.wait_committed("a")
            done.set()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not done.is_set()
        worker.sender.committed(1)
        await done.wait()
        await worker.sender.wait_committed("a")


async def test_records_that_the_journal_cannot_take_are_sent_from_memory_or_logged(tmp_path, autojump_clock):
    async with running(Worker(tmp_path / "w", segment_bytes=4_096)) as worker:
        worker.journal.intent(intent("a"))
        worker.sender.put(record("a"), None)
        await trio.sleep(1)
        assert [(batch.segment, batch.end) for batch in worker.keeper.batches] == [(0, 0)]
        assert worker.keeper.ids() == ["a"]
        worker.sender.committed(1)
        assert worker.journal.open_intents == 0
        with capture_logs() as logs:
            for number in range(QUEUED + 1):
                worker.sender.put(record(f"b{number}"), None)
        assert [entry["record"]["id"] for entry in logs] == [f"b{QUEUED}"]
        assert worker.sender.counters.dropped == 1


async def test_intents_are_sent_only_while_somebody_watches(tmp_path, autojump_clock):
    async with running(Worker(tmp_path / "w")) as worker:
        worker.finish("a")
        await trio.sleep(1)
        worker.sender.sends_intents = True
        worker.journal.intent(intent("b"))
        worker.sender.wake()
        await trio.sleep(1)
        assert [batch.intents.count(b"\n") + bool(batch.intents) for batch in worker.keeper.batches] == [0, 1]
        worker.sender.send_now()
        assert len(worker.keeper.batches) == 2
