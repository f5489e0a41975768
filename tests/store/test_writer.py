"""The writer inside an open store, since its task, thread and journal belong together."""

import threading
from contextlib import AsyncExitStack, asynccontextmanager

import apsw
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from gw.errors import DatabaseLocked
from gw.store import requests, writer
from gw.store.batches import write_batch
from gw.store.committer import Committer
from gw.store.journal_files import segment_paths
from gw.store.sqlite import open_writer
from gw.store.store import open_store
from gw.telemetry.clock import DAY_S
from tests.fakes import stored
from tests.fakes.disk import files_end_at, refuse
from tests.fakes.records import NOON, HandClock, intent, record


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gw.db"


async def until(condition):
    """Pass once `condition()` holds. What is waited for happens in a thread, in real time, also under a virtual clock."""
    for _ in range(10_000):
        if condition():
            return
        await trio.to_thread.run_sync(threading.Event().wait, 0.001)
    raise AssertionError("did not come about")


@asynccontextmanager
async def foreign_writer(path):
    other = apsw.Connection(str(path))
    other.set_busy_timeout(5_000)  # the store may be pruning just now
    other.execute("begin immediate")
    try:
        yield
    finally:
        other.close()


async def test_records_of_a_moment_share_a_commit(path, mock_clock):
    async with open_store(path, clock=HandClock()) as store:
        await until(lambda: store._writer._sleeping)
        store.finish(record("a"))
        for left_s, name in ((writer.GATHER_S, "b"), (writer.GATHER_S / 2, "c")):
            await trio.testing.wait_all_tasks_blocked()
            assert store.counters.committed == 0
            assert store._writer._sleeping.deadline == pytest.approx(trio.current_time() + left_s)
            store.finish(record(name))
            mock_clock.jump(writer.GATHER_S / 2)
        await until(lambda: store.counters.committed)
        assert store.counters.committed == 3


async def test_many_records_wait_for_no_others(path, mock_clock, monkeypatch):
    monkeypatch.setattr(writer, "BATCH", 3)
    async with open_store(path, clock=HandClock()) as store:
        await until(lambda: store._writer._sleeping)
        for n in range(4):
            store.finish(record(f"r{n}"))
        await until(lambda: store.counters.committed)
        await trio.testing.wait_all_tasks_blocked()
        assert store.counters.committed == 3
        mock_clock.jump(writer.GATHER_S)
        await until(lambda: store.counters.committed == 4)


async def test_a_full_queue_leaves_the_rest_in_the_journal_in_order(path):
    async with open_store(path, clock=HandClock()) as store:
        many = 2_600  # some two segments
        for n in range(many):
            store.intent(intent(f"{n:04}"))
            store.finish(record(f"{n:04}"))
        assert store.queue_depth == many
        assert store.counters.spilled == many - writer.QUEUED
        assert len(segment_paths(path)) > 1
        await store.flush()
        assert (store.queue_depth, store.counters.committed) == (0, many)
        assert (await store.stats()).requests == many
        [last] = await stored.logs(store, limit=1)
        assert last.id == f"{many - 1:04}"
        store.finish(record("after"))  # through the queue again
        await store.flush()
        assert store.counters.spilled == many - writer.QUEUED
    assert segment_paths(path) == []


async def test_records_that_come_while_it_catches_up_wait_their_turn(path):
    async with open_store(path, clock=HandClock()) as store, trio.open_nursery() as nursery:
        for n in range(writer.QUEUED + 1):
            store.finish(record(f"a{n}"))
        nursery.start_soon(store.flush)
        for n in range(300):
            store.finish(record(f"b{n}"))
            await trio.lowlevel.checkpoint()
        await store.flush()
        assert (await store.stats()).requests == writer.QUEUED + 301
        order = [row.id async for row in _by_arrival(path)]
        assert order[-300:] == [f"b{n}" for n in range(300)]


async def _by_arrival(path):
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    for (name,) in db.execute("select id from requests order by seq"):
        yield record(name)
    db.close()


async def test_a_foreign_writer_is_waited_out(path):
    with capture_logs() as logs:
        async with open_store(path, clock=HandClock()) as store:
            async with foreign_writer(path):
                store.finish(record())
                await until(lambda: store.counters.retries)
                assert store.degraded.startswith("database is locked: another program is writing to")
                assert store.accepting
                assert store.queue_depth == 1
            await store.flush()
            assert store.degraded == ""
            assert await store.request("r1") == record()
    assert [line["event"] for line in logs] == ["usage_store_degraded", "usage_store_recovered"]


async def test_a_full_database_is_waited_out(path):
    """SQLITE_FULL, by a page limit on the writer's own connection."""
    db = open_writer(path)
    db.pragma("max_page_count", db.pragma("page_count"))
    with pytest.raises(apsw.FullError):
        write_batch(db, [record(f"{n}") for n in range(500)])
    assert not db.in_transaction
    db.pragma("max_page_count", 2**30)
    assert write_batch(db, [record(f"{n}") for n in range(500)]) == 500
    db.close()


def use_up_the_segment(store, name):
    """The disk is full: the journal has the room it has."""
    attempt = 0
    while store.accepting:
        store.intent(intent(name, attempt=attempt))
        attempt += 1


async def test_a_full_disk_loses_nothing_that_fits_in_the_queue(path):
    async with open_store(path, clock=HandClock()) as store:
        with files_end_at(0):
            use_up_the_segment(store, "a")
            store.finish(record("a"))
            store.intent(intent("b"))
            store.finish(record("b"))
            assert not store.accepting
            assert "the journal of" in store.degraded
            await until(lambda: store.counters.retries)
            assert "gw.db cannot be used" in store.degraded
            assert store._journal.failures >= 3
        await store.flush()
        await until(lambda: store.accepting)
        assert store.degraded == ""
        assert (await stored.totals(store)).requests == 2
        assert store._journal.open_intents == 0


async def test_what_neither_journal_nor_queue_takes_is_logged_whole(path):
    async with open_store(path, clock=HandClock()) as store:
        with files_end_at(0), capture_logs() as logs:
            use_up_the_segment(store, "0")
            for n in range(writer.QUEUED + 2):
                store.finish(record(f"{n}"))
            dropped = [line for line in logs if line["event"] == "usage_record_dropped"]
            assert store.counters.dropped == 2
            assert [line["record"]["id"] for line in dropped] == [f"{writer.QUEUED}", f"{writer.QUEUED + 1}"]
        await store.flush()
        assert (await store.stats()).requests == writer.QUEUED


async def test_loading_and_the_queue_take_turns(path):
    """One connection, one thread: what is finished while a load runs is committed before or after it."""
    async with open_store(path, clock=HandClock()) as store:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.load, (record(f"s{n}") for n in range(1_000)))
            for n in range(20):
                store.finish(record(f"{n}"))
                await trio.lowlevel.checkpoint()
            await store.flush()
        assert (await stored.totals(store)).requests == 1_020


async def test_a_load_that_is_cancelled_in_the_thread_ends_well(path, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    load = Committer.load

    def held(self, lines):
        begun.set()
        assert go_on.wait(10)
        return load(self, lines)

    monkeypatch.setattr(Committer, "load", held)
    async with open_store(path, clock=HandClock()) as store:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.load, (record(f"s{n}") for n in range(1_000)))
            await until(begun.is_set)
            nursery.cancel_scope.cancel()
            go_on.set()
        assert (await stored.totals(store)).requests == 1_000


async def test_a_load_that_cannot_be_written_changes_nothing(path):
    async with open_store(path, clock=HandClock()) as store:
        async with foreign_writer(path):
            with pytest.raises(DatabaseLocked, match="another program is writing"):
                await store.load([record("a")])
        assert await store.load([record("a")]) == 1
        with pytest.raises(ZeroDivisionError):
            await store.load(record(f"{1 // n}") for n in (1, 0))
        assert (await stored.totals(store)).requests == 1
        store.finish(record("b"))
        await store.flush()
        assert store.degraded == ""


async def test_with_durability_power_settled_means_committed(path):
    async with open_store(path, clock=HandClock(), durability="power") as store:
        store.finish(record())
        await store.wait_committed("r1")
        assert await store.request("r1") == record()
        await store.wait_committed("r1")
        await store.wait_committed("unknown")


async def test_with_durability_power_settled_waits(path, autojump_clock):
    async with open_store(path, clock=HandClock(), durability="power") as store, foreign_writer(path):
        store.finish(record())
        with trio.move_on_after(1) as bound:
            await store.wait_committed("r1")
        assert bound.cancelled_caught


async def test_with_durability_crash_settled_does_not_wait(path):
    async with open_store(path, clock=HandClock()) as store:
        store.finish(record())
        await store.wait_committed("r1")
        assert store.counters.committed == 0


@pytest.mark.parametrize("position", [0, 3, 6])
async def test_a_record_that_cannot_be_written_is_set_aside(path, position):
    db = open_writer(path)
    refuse(db, f"{position}")
    db.close()
    with capture_logs() as logs:
        async with open_store(path, clock=HandClock(), durability="power") as store:
            for n in range(7):
                store.intent(intent(f"{n}"))
                store.finish(record(f"{n}", cost_nusd=10**400))
            await store.wait_committed(f"{position}")
            await store.flush()
            assert (store.counters.committed, store.counters.set_aside, store.queue_depth) == (6, 1, 0)
            assert (await stored.totals(store)).requests == (await store.stats()).requests == 6
            assert store.degraded == ""
            assert store._journal.open_intents == 0
    [line] = logs
    assert (line["event"], line["id"]) == ("usage_record_unwritable", f"{position}")
    assert line["why"] == "ConstraintError: refused"
    assert line["record"]["cost_nusd"] == requests.LARGEST
    assert segment_paths(path) == []


async def test_a_bug_ends_the_owner_and_the_records_stay(path):
    with pytest.raises(apsw.SQLError, match="no such table"):  # noqa: PT012  # the owner's whole block ends
        async with open_store(path, clock=HandClock()) as store:
            vandal = apsw.Connection(str(path))
            vandal.set_busy_timeout(5_000)  # the writer may be at its own start
            vandal.execute("drop table requests")
            vandal.close()
            store.finish(record())
            await trio.sleep_forever()
    assert len(segment_paths(path)) == 1


async def test_old_requests_go_and_their_sums_stay(path):
    clock = HandClock()
    async with open_store(path, clock=clock) as store:
        store.finish(record("old", timestamp=NOON - 91 * DAY_S))
        store.finish(record("young", timestamp=NOON - 89 * DAY_S))
        await store.flush()
    async with open_store(path, clock=clock, retention_days=90) as store:
        await until(lambda: store.counters.pruned)
        assert [r.id for r in await stored.logs(store)] == ["young"]
        assert (await stored.totals(store)).requests == 2


async def test_pruning_comes_again_each_hour(path, autojump_clock):
    clock = HandClock()
    async with open_store(path, clock=clock, retention_days=1) as store:
        store.finish(record(timestamp=NOON - 0.8 * DAY_S))
        await store.flush()
        clock.time += 0.4 * DAY_S
        await until(lambda: store.counters.pruned)
        assert await stored.logs(store) == []


async def test_a_row_stays_while_a_journal_line_is_about_it(path, autojump_clock):
    """A kept line would be counted twice by a replay after a kill."""
    clock = HandClock()
    async with open_store(path, clock=clock, retention_days=1) as store:
        store.intent(intent("long call", timestamp=NOON - 0.8 * DAY_S))
        store.finish(record(timestamp=NOON - 0.8 * DAY_S))
        await store.flush()
        clock.time += 0.4 * DAY_S
        await trio.sleep(2 * writer.PRUNE_EVERY_S)
        assert [r.id for r in await stored.logs(store)] == ["r1"]
        store.finish(record("long call", timestamp=NOON - 0.8 * DAY_S))
        await store.flush()
        await until(lambda: store.counters.pruned == 2)


async def test_the_wal_is_kept_small(path):
    async with open_store(path, clock=HandClock()) as store:
        wal = path.with_name("gw.db-wal")
        for n in range(150):  # some 15 pages each
            store.finish(record(f"{n}"))
            await store.flush()
        await until(lambda: path.stat().st_size > 4096)  # so the pages have been moved
        assert wal.stat().st_size < 8 * 2**20


async def test_housekeeping_kept_off_by_a_foreign_writer_comes_soon(path):
    async with open_store(path, clock=HandClock()) as store:
        store.finish(record("old", timestamp=NOON - 91 * DAY_S))
        await store.flush()
    async with AsyncExitStack() as acquired:
        await acquired.enter_async_context(foreign_writer(path))  # before the store, which prunes as soon as it is open
        async with open_store(path, clock=HandClock()) as store:
            await until(lambda: store.degraded)
            assert store.counters.pruned == 0
            await acquired.aclose()
            await until(lambda: store.counters.pruned)  # and not in an hour
            assert store.degraded == ""
