"""Reports made in a process of their own: the same answers, whatever becomes of it."""

from __future__ import annotations

import os
import signal

import pytest
import trio
import trio.testing

from gw.store import queries
from gw.store.apart import ReportProcess
from gw.store.past import Past
from gw.store.requests import LogFilter
from gw.store.store import open_store
from tests.fakes.records import DAY, NOON, HandClock, record

pytestmark = pytest.mark.process


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gw.db"


async def until(condition):
    """The process tells nobody when it is ready or gone, so this looks."""
    with trio.fail_after(20):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.005)


async def ready(store):
    """The first report is made in a thread, and starts the process."""
    await store.totals()
    await until(lambda: store._apart.ready)


def _pid(desk):
    return os.getpid()


def _names(records):
    return [one.id for one in records]


def _bug(desk):
    raise ZeroDivisionError("a bug")


def _long(desk):
    return desk.db.execute("with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n").get


async def test_the_answers_are_those_of_a_thread(path):
    async with open_store(path, clock=HandClock(), reports_apart=True) as store:
        for n in range(3):
            store.finish(record(f"r{n}", timestamp=NOON + n))
        await store.flush()
        in_a_thread = [await store.costs(DAY), await store.latency(DAY), await store.totals(), await store.logs()]
        await ready(store)
        assert await store.read(_pid) != os.getpid()
        assert in_a_thread == [await store.costs(DAY), await store.latency(DAY), await store.totals(), await store.logs()]
        store.finish(record("r3", timestamp=NOON + 3))
        await store.flush()
        assert (await store.latency(DAY))["openai/gpt-x"].requests == 4  # what was kept there is known to be old
        assert await store.show(_names, queries.log, 2, "r3", LogFilter(status="success")) == ["r2", "r1"]


async def test_errors_cross(path):
    async with open_store(path, clock=HandClock(), reports_apart=True) as store:
        await ready(store)
        with pytest.raises(queries.NoSuchRecord):
            await store.logs(before="nothing")
        with pytest.raises(RuntimeError, match="ZeroDivisionError: a bug"):
            await store.read(_bug)
        assert (await store.totals()).requests == 0


async def test_one_who_leaves_stops_the_query(path):
    async with open_store(path, clock=HandClock(), reports_apart=True) as store:
        await ready(store)
        with trio.move_on_after(0.05) as left:
            await store.read(_long)
        assert left.cancelled_caught
        with trio.fail_after(2):  # and not in the 5 s that a query may take
            assert (await store.totals()).requests == 0


def _long_elsewhere(desk, pid):
    return 1 if os.getpid() == pid else _long(desk)


async def test_a_process_that_is_killed_is_done_without_and_replaced(path):
    process = ReportProcess(path, again_s=0.01)
    async with open_store(path, clock=HandClock()), trio.open_nursery() as nursery:
        await nursery.start(process.run)
        past = Past(path, HandClock(), apart=process)
        await past.totals()
        await until(lambda: process.ready)
        first = await past.read(_pid)
        async with trio.open_nursery() as asking:

            async def ask():
                assert await past.read(_long_elsewhere, os.getpid()) == 1

            asking.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked(0.05)
            os.kill(first, signal.SIGKILL)
        await past.totals()
        await until(lambda: process.ready)
        assert await past.read(_pid) not in (first, os.getpid())
        past.close()
        nursery.cancel_scope.cancel()


async def test_one_that_gets_no_time_is_done_without_for_a_while(path):
    process = ReportProcess(path, patience_s=0.05)
    async with open_store(path, clock=HandClock()), trio.open_nursery() as nursery:
        await nursery.start(process.run)
        past = Past(path, HandClock(), apart=process)
        await past.totals()
        await until(lambda: process.ready)
        with trio.fail_after(5):
            assert await past.read(_long_elsewhere, os.getpid()) == 1
        assert process.ready
        assert await past.read(_pid) == os.getpid()
        past.close()
        nursery.cancel_scope.cancel()


async def test_it_goes_when_nobody_needs_it(path):
    process = ReportProcess(path, idle_s=0.05)
    async with open_store(path, clock=HandClock()), trio.open_nursery() as nursery:
        await nursery.start(process.run)
        assert process.ask(_pid, None) is None
        await until(lambda: process.ready)
        await until(lambda: not process.ready)
        assert process.ask(_pid, None) is None
        await until(lambda: process.ready)
        nursery.cancel_scope.cancel()
