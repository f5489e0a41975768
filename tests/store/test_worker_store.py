"""The store of a worker, and what becomes of its journal when the worker is gone."""

from __future__ import annotations

import pytest
import trio

from gw.errors import StoreUnavailable
from gw.store.entity_rows import Change
from gw.store.journal import Journal
from gw.store.store import open_store
from gw.store.worker_journals import journal_path, left_behind
from gw.store.worker_store import adopt, open_worker_store
from tests.fakes.records import HandClock, intent, record


async def test_records_of_a_dead_worker_are_committed_while_the_gateway_runs(tmp_path):
    database = tmp_path / "gw.db"
    path = journal_path(database, "a-1-1")
    journal = Journal(path)
    for number in range(1_200):
        journal.finish(record(f"r{number:04}"))
    journal.intent(intent("cut"))
    journal.current.close()
    noted = []
    async with open_store(database, clock=HandClock()) as store:
        assert store.replayed.records == 1_200  # it was there at the start
        journal = Journal(path)
        journal.finish(record("late"))
        journal.intent(intent("later"))
        journal.current.close()
        await adopt(store, path, (0, 0), noted.extend, lambda record: record)
        assert [(r.id, r.status) for r in noted] == [("late", "success"), ("later", "error")]
        assert (await store.stats()).requests == 1_203
    assert left_behind(database) == []


async def test_a_worker_leaves_nothing_once_its_records_are_committed(tmp_path):
    batches, sent = [], trio.Event()

    def send(batch) -> bool:
        batches.append(batch)
        sent.set()
        return True

    async with open_worker_store(
        tmp_path / "gw.db", journal_path(tmp_path / "gw.db", "a-1-1"), HandClock(), send, power=False
    ) as store:
        store.intent(intent("a"))
        assert [one.id for one in await store.running()] == ["a"]
        store.finish(record("a"))
        assert await store.running() == []
        assert (store.queue_depth, store.degraded, store.accepting) == (1, "", True)
        with pytest.raises(StoreUnavailable):
            await store.change(Change())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.catch_up)
            await sent.wait()
            store.sender.committed(batches[-1].number)
        assert store.queue_depth == 0
    assert [path.name for path in tmp_path.iterdir()] == ["gw.db.worker-a-1-1.lock"]
