"""A whole store on PostgreSQL: what it keeps, what a killed gateway leaves, and what happens while the server is away."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
import trio
from structlog.testing import capture_logs

from gw.errors import DatabaseLocked, DatabaseUnusable, StoreUnavailable
from gw.store import queries
from gw.store.entity_rows import Change
from gw.store.journal import Journal
from gw.store.journal_files import segment_paths
from gw.store.postgres import pg_connection, pg_schema
from gw.store.postgres.postgres_store import open_postgres_readonly, open_postgres_store
from gw.telemetry.clock import DAY_S
from gw.types.entities import Project
from gw.types.secret import Secret
from tests.fakes import databases, stored
from tests.fakes.nightly import times
from tests.fakes.processes import wait_gone
from tests.fakes.records import DAY, NOON, HandClock, intent, record


@pytest.fixture
def url(postgres):
    return Secret(databases.fresh_url())


@pytest.fixture
def opened(url, tmp_path):
    return partial(open_postgres_store, url, tmp_path / "gw.db", instance="gw-1", clock=HandClock())


async def until(condition):
    """Pass once `condition()` holds; what is waited for happens in threads and at the server."""
    for _ in range(20_000):
        if condition():
            return
        await trio.to_thread.run_sync(threading.Event().wait, 0.001)
    raise AssertionError("did not come about")


@asynccontextmanager
async def other_session(url):
    connection = await trio.to_thread.run_sync(partial(psycopg.connect, url.reveal(), autocommit=True))
    yield connection
    connection.close()


pytestmark = pytest.mark.parametrize("kind", databases.POSTGRES)


async def test_what_was_finished_can_be_read(kind, opened):
    async with opened(processes=True) as store:
        store.intent(intent())
        store.finish(record())
        await store.flush()
        for _ in range(2):  # by a thread, and by the process that makes reports
            assert await store.request("r1") == record()
            assert (await stored.totals(store, DAY)).cost_nusd == 1_000
            assert (await stored.latency(store, DAY))["openai/gpt-x"].ttfb.count == 1
            assert await stored.logs(store, log_filter=queries.LogFilter(id_part="\0")) == []
            await until(lambda: store._report_process.ready)
        assert await store.spend(DAY) == {"default": (1_000, 0)}
        stats = await store.stats()
        assert (stats.requests, stats.schema_version) == (1, pg_schema.VERSION)
        assert stats.size_bytes > 0
        assert (store.degraded, store.queue_depth) == ("", 0)


async def test_what_a_killed_gateway_left_is_replayed_once(kind, opened, tmp_path):
    journal = Journal(tmp_path / "gw.db")
    journal.intent(intent("cut"))
    journal.finish(record("done"))
    content = {path: path.read_bytes() for path in segment_paths(tmp_path / "gw.db")}
    for number in range(2):
        async with opened() as store:
            assert (store.replayed.records, store.replayed.interrupted) == ((1, 1) if number == 0 else (0, 0))
            assert [one.error_code for one in (await store.request("done"), await store.request("cut"))] == [None, "interrupted"]
            assert (await stored.totals(store)).requests == 2
        for path, data in content.items():
            path.write_bytes(data)


async def test_two_gateways_write_rows_of_their_own(kind, url, tmp_path):
    async with (
        open_postgres_store(url, tmp_path / "one" / "gw.db", instance="one", clock=HandClock()) as one,
        open_postgres_store(url, tmp_path / "two" / "gw.db", instance="two", clock=HandClock()) as two,
    ):
        for number, store in enumerate((one, two, two)):
            store.finish(record(f"r{number}", cost_nusd=10**number, ttfb_ms=100.0 * number))
            await store.flush()
            for reader in (one, two):  # also what a report has merged before grows by the other's records
                assert (await stored.latency(reader, DAY))["openai/gpt-x"].ttfb.count == number + 1
                assert (await stored.totals(reader, DAY)).cost_nusd == sum(10**n for n in range(number + 1))
        async with other_session(url) as session:
            assert session.execute("select slot, requests from gw.rollup_hour order by slot").fetchall() == [(1, 1), (2, 2)]


async def test_what_an_instance_has_spent_is_told_from_what_all_have(kind, url, tmp_path):
    def opened(name):
        return open_postgres_store(url, tmp_path / name / "gw.db", instance=name, clock=HandClock())

    for number, name in enumerate(("one", "two", "one")):
        async with opened(name) as store:
            store.finish(record(f"r{number}", cost_nusd=10**number))
            await store.flush()
    async with opened("one") as one, opened("two") as two:
        assert await one.spend_of_instance(DAY) == {"default": (101, 0)}
        assert await two.spend_of_instance(DAY) == {"default": (10, 0)}
        assert await two.spend(DAY) == {"default": (111, 0)}


async def test_local_files_have_one_gateway(kind, opened):
    async with opened():
        with pytest.raises(DatabaseLocked, match="give this one its own GW_DB_PATH"):
            async with opened():
                pass


async def test_entities_and_meta_survive(kind, opened):
    async with opened() as store:
        await store.change(Change(put=(Project(id="p", name="P"),), meta=(("a", "b"),)))
    async with opened() as store:
        assert await store.entities() == [Project(id="p", name="P")]
        assert await store.meta("a") == "b"


async def test_the_server_restarts_while_records_come(kind, opened, postgres):
    async with opened() as store:
        store.finish(record("before"))
        await store.flush()
        with capture_logs() as logs:
            await trio.to_thread.run_sync(postgres().stop)
            for number in range(1_500):  # more than the queue holds: the rest waits in the journal
                store.finish(record(f"{number}", timestamp=NOON + number))
            await until(lambda: store.degraded)
            assert "cannot be used" in store.degraded
            assert store.accepting
            with pytest.raises(StoreUnavailable, match="cannot be used"):
                await store.change(Change(put=(Project(id="p", name="P"),)))
            with pytest.raises(StoreUnavailable):
                await store.request("before")
            await trio.to_thread.run_sync(postgres().start)
            with trio.fail_after(30):
                await store.flush()
        assert store.degraded == ""
        assert {line["event"] for line in logs} >= {"usage_store_degraded", "usage_store_recovered"}
        assert (await store.stats()).requests == (await stored.totals(store)).requests == 1_501
        newest = await stored.logs(store, limit=3)
        assert [one.id for one in newest] == ["1499", "1498", "1497"]
    async with opened() as store:
        assert store.replayed.records == 0


async def test_restarts_and_crashes_lose_nothing_and_count_nothing_twice(kind, url, tmp_path, postgres):
    def opened(name):
        return open_postgres_store(url, tmp_path / name / "gw.db", instance=name, clock=HandClock())

    made = 0
    async with opened("one") as one, opened("two") as two:
        for number in range(times(4, 40)):
            for at in (one, two, "interrupt", one, two, "start", one, two):
                match at:
                    case "interrupt" if number % 4 == 3:
                        postgres().freeze()
                    case "interrupt":
                        await trio.to_thread.run_sync(postgres().crash if number % 2 else postgres().stop)
                    case "start" if number % 4 == 3:
                        postgres().thaw()
                    case "start":
                        await trio.to_thread.run_sync(postgres().start)
                    case store:
                        for _ in range(40):
                            store.finish(record(f"r{made}", timestamp=NOON + made, cost_nusd=1 + made))
                            made += 1
            with trio.fail_after(60):
                await one.flush()
                await two.flush()
        cost = sum(range(made + 1))
        assert made == 240 * times(4, 40)
        assert (await one.stats()).requests == made
        sums = await stored.totals(two)
        assert (sums.requests, sums.cost_nusd) == (made, cost)
        assert sum(row.cost_nusd for row in await stored.costs(one)) == cost
        assert await two.spend(DAY) == {"default": (cost, 0)}


async def test_a_connection_that_the_server_ends_is_made_anew(kind, opened, url):
    async with opened() as store, other_session(url) as session:
        for number in range(3):
            session.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = 'gw'")
            store.finish(record(f"{number}"))
            with trio.fail_after(60):
                await store.flush()
            assert (await stored.totals(store)).requests == number + 1


async def test_a_cancelled_report_ends_at_the_server(kind, opened, url):
    async with opened() as store, other_session(url) as session:
        with trio.move_on_after(0.3):
            await store._readers.read(lambda db: db.raw.execute("select pg_sleep(60)"))
        active = "select count(*) from pg_stat_activity where query like '%pg_sleep(60)%' and state = 'active' and pid <> pg_backend_pid()"
        await until(lambda: session.execute(active).fetchall() == [(0,)])
        assert await store.request("none") is None


async def test_old_days_go_as_a_whole(kind, url, tmp_path):
    clock = HandClock(NOON)
    opening = partial(open_postgres_store, url, tmp_path / "gw.db", instance="gw-1", clock=clock, retention_days=10)
    async with opening() as store:
        for age in (0, 5, 9, 12):
            store.finish(record(f"{age}", timestamp=NOON - age * DAY_S))
        await store.flush()
    clock.time = NOON + DAY_S
    async with opening() as store:
        await until(lambda: store.counters.pruned == 1)
        assert [one.id for one in await stored.logs(store)] == ["0", "5", "9"]
        assert (await stored.totals(store)).requests == 4


async def test_a_newer_schema_is_refused(kind, opened, url):
    async with opened():
        pass
    async with other_session(url) as session:
        session.execute("update gw.schema_version set version = 99")
        with pytest.raises(DatabaseUnusable, match=r"was written by a newer gw \(schema 99, this one knows \d+\)"):
            async with opened():
                pass
        with pytest.raises(DatabaseUnusable, match="newer gw"):
            async with open_postgres_readonly(url):
                pass
        session.execute(f"update gw.schema_version set version = {pg_schema.VERSION}")


async def test_a_step_of_an_upgrade_may_take_long(kind, url, tmp_path, monkeypatch):
    def slow(db):
        db.raw.execute("select pg_sleep(0.5)")

    async with open_postgres_store(url, tmp_path / "gw.db", instance="gw-1", clock=HandClock()):
        pass
    monkeypatch.setattr(pg_schema, "MIGRATIONS", (*pg_schema.MIGRATIONS, slow))
    monkeypatch.setattr(pg_schema, "VERSION", pg_schema.VERSION + 1)
    db = pg_connection.connect(url)
    db.raw.answer_s = 0.1
    assert pg_schema.migrate(db, "it") == 1
    with pytest.raises(psycopg.OperationalError, match="has not answered"):
        slow(db)
    databases.server().execute(f"update gw.schema_version set version = {pg_schema.VERSION - 1}", "gw")


async def test_a_server_that_refuses_is_named_without_its_password(kind, tmp_path):
    url = Secret("postgresql://somebody:hunter2-hunter2@127.0.0.1:1/records")
    with pytest.raises(StoreUnavailable) as raised:
        async with open_postgres_store(url, tmp_path / "gw.db", instance="gw-1", clock=HandClock()):
            pass
    assert "the PostgreSQL database records at 127.0.0.1:1 cannot be used" in raised.value.what
    assert "hunter2" not in raised.value.what


PROGRAM = """
import os
from tests.fakes.postgres_server import PostgresServer
server = PostgresServer()
print(server._process.pid, server._folder, flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_tests_own_server_ends_with_the_process_that_has_started_it(kind):
    """Also after kill -9, as when a run of the tests is ended."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    pid, folder = done.stdout.split()
    wait_gone(int(pid))
    until = time.monotonic() + 60
    while Path(folder).exists():
        assert time.monotonic() < until
        threading.Event().wait(0.02)
