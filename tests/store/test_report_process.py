"""Reports made in a process of their own: the same answers, whatever becomes of it."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from io import BytesIO, TextIOWrapper

import pytest
import trio
import trio.testing

from gw.store import queries, report_process, reporter
from gw.store.chunked_body import PIECE_BYTES, Encoded
from gw.store.query_source import SqliteSource
from gw.store.reader_pool import SqliteReaders
from gw.store.record_reader import Query, RecordReader, query_as, unconverted
from gw.store.report_process import LONGEST, WAITING, ReportProcess
from gw.store.reporter import QueryJob, framed
from gw.store.requests import LogFilter
from gw.store.rollup_versions import _REMEMBERED, RollupVersions
from gw.store.store import open_store
from tests.fakes import stored
from tests.fakes.records import DAY, NOON, HandClock, record

pytestmark = pytest.mark.process


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gw.db"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A machine that runs tests may stand still for longer than a user should wait for a report.

    Other tests may keep its cores busy for a minute: the process takes its turn with them here, rather than when nothing else runs.
    """
    monkeypatch.setitem(ReportProcess.__init__.__kwdefaults__, "patience_s", 50.0)
    program = f"import os; os.sched_setscheduler = lambda *_: None; {report_process._PROGRAM}"
    monkeypatch.setattr(report_process, "_PROGRAM", program)


async def until(condition):
    """The process tells nobody when it is ready or gone, so this looks."""
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.005)


async def _all_reports(store):
    reports = [await stored.costs(store, DAY), await stored.latency(store, DAY)]
    return [*reports, await stored.totals(store), await stored.logs(store)]


async def ready(store):
    """The first report is made in a thread, and starts the process."""
    await stored.totals(store)
    await until(lambda: store._report_process.ready)


def _pid(context):
    return os.getpid()


def _variables(context):
    return sorted(os.environ)


def _names(records):
    return [one.id for one in records]


def _bug(context):
    raise ZeroDivisionError("a bug")


def _long(context):
    """Run until stopped: the process is given time only when nothing else runs, so a test cannot wait for the usual limit."""
    reporter.READ_LIMIT_S = 60.0
    return context.db.execute("with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n").get


async def test_the_answers_are_those_of_a_thread(path):
    async with open_store(path, clock=HandClock(), processes=True) as store:
        for n in range(3):
            store.finish(record(f"r{n}", timestamp=NOON + n))
        await store.flush()
        in_a_thread = await _all_reports(store)
        await ready(store)
        assert await store.read(_pid) != os.getpid()
        assert in_a_thread == await _all_reports(store)
        store.finish(record("r3", timestamp=NOON + 3))
        await store.flush()
        assert (await stored.latency(store, DAY))["openai/gpt-x"].requests == 4  # what was kept there is known to be old
        assert await store.read_as(_names, queries.log, 2, "r3", LogFilter(status="success")) == ["r2", "r1"]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's scheduling")
def test_it_runs_when_nothing_else_does(monkeypatch):
    set_here, (read_end, write_end) = [], os.pipe()
    monkeypatch.setattr(os, "sched_setscheduler", lambda pid, policy, _: set_here.append((pid, policy)))
    monkeypatch.setattr(sys, "argv", ["reporter", str(write_end)])
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO()))
    reporter.main()
    os.close(read_end)
    assert set_here == [(0, os.SCHED_IDLE)]


async def test_it_inherits_no_secret(path, monkeypatch):
    for name in ("GW_SECRET", "GW_MCP_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "s")
    async with open_store(path, clock=HandClock(), processes=True) as store:
        await ready(store)
        names = await store.read(_variables)
    assert "PATH" in names
    assert not {"GW_SECRET", "GW_MCP_TOKEN", "OPENAI_API_KEY"} & set(names)


async def test_errors_cross(path):
    async with open_store(path, clock=HandClock(), processes=True) as store:
        await ready(store)
        with pytest.raises(queries.NoSuchRecord):
            await stored.logs(store, before="nothing")
        with pytest.raises(RuntimeError, match="ZeroDivisionError: a bug"):
            await store.read(_bug)
        assert (await stored.totals(store)).requests == 0


async def test_one_who_leaves_stops_the_query(path):
    async with open_store(path, clock=HandClock(), processes=True) as store:
        await ready(store)
        with trio.move_on_after(0.05) as left:
            await store.read(_long)
        assert left.cancelled_caught
        with trio.fail_after(40):  # and not in the 60 s that this query may take
            assert (await stored.totals(store)).requests == 0


def _long_elsewhere(context, pid):
    return 1 if os.getpid() == pid else _long(context)


async def test_a_process_that_is_killed_is_done_without_and_replaced(path):
    process = ReportProcess(SqliteSource(path), restart_s=0.01)
    async with open_store(path, clock=HandClock()), trio.open_nursery() as nursery:
        await nursery.start(process.run)
        past = RecordReader(SqliteReaders(path, HandClock()), report_process=process)
        await stored.totals(past)
        await until(lambda: process.ready)
        first = await past.read(_pid)
        async with trio.open_nursery() as asking:

            async def ask():
                assert await past.read(_long_elsewhere, os.getpid()) == 1

            asking.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked(0.05)
            os.kill(first, signal.SIGKILL)
        await stored.totals(past)
        await until(lambda: process.ready)
        assert await past.read(_pid) not in (first, os.getpid())
        past.close()
        nursery.cancel_scope.cancel()


async def test_one_that_gets_no_time_is_done_without_for_a_while(path):
    process = ReportProcess(SqliteSource(path), patience_s=0.05)
    async with open_store(path, clock=HandClock()), trio.open_nursery() as nursery:
        await nursery.start(process.run)
        past = RecordReader(SqliteReaders(path, HandClock()), report_process=process)
        await stored.totals(past)
        await until(lambda: process.ready)
        with trio.fail_after(60):
            assert await past.read(_long_elsewhere, os.getpid()) == 1
        assert process.ready
        assert await past.read(_pid) == os.getpid()
        past.close()
        nursery.cancel_scope.cancel()


async def test_it_goes_when_nobody_needs_it(path):
    process = ReportProcess(SqliteSource(path), idle_s=0.05)
    async with open_store(path, clock=HandClock()), trio.open_nursery() as nursery:
        await nursery.start(process.run)
        assert process.submit(_pid, None) is None
        await until(lambda: process.ready)
        await until(lambda: not process.ready)
        assert process.submit(_pid, None) is None
        await until(lambda: process.ready)
        nursery.cancel_scope.cancel()


def _encoded(context, size):
    return Encoded((b"a" * (size // 2), b"b" * (size - size // 2)))


def _length(context, text):
    return len(text), os.getpid()


@pytest.mark.parametrize("size", [0, 1, 700_000, 3 * 2**20])
async def test_what_is_encoded_comes_in_pieces_and_other_answers_after_it(path, size):
    async with open_store(path, clock=HandClock(), processes=True) as store:
        await ready(store)
        for _ in range(3):
            matches = await store.read(_encoded, size)
            assert bytes(matches) == bytes(_encoded(None, size))
            assert all(len(piece) <= PIECE_BYTES for piece in matches.pieces)
        assert await store.read(_pid) != os.getpid()


async def test_who_leaves_in_the_middle_of_a_long_answer_leaves_nothing_behind(path):
    async with open_store(path, clock=HandClock(), processes=True) as store:
        await ready(store)
        for passes in range(1, 30):
            requested = store._report_process.submit(partial(_encoded, size=700_000), None)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(requested.result)
                for _ in range(passes):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        assert bytes(await store.read(_encoded, 10)) == b"aaaaabbbbb"


async def test_a_question_that_a_pipe_might_take_in_parts_only_is_answered_here(path):
    async with open_store(path, clock=HandClock(), processes=True) as store:
        await ready(store)
        assert (await store.read(_length, "x" * 1_000))[1] != os.getpid()
        assert await store.read(_length, "x" * LONGEST) == (LONGEST, os.getpid())


async def test_no_more_questions_are_given_to_it_than_it_may_have(path):
    async with open_store(path, clock=HandClock(), processes=True) as store:
        await ready(store)
        requested = [store._report_process.submit(_long, None) for _ in range(WAITING)]
        assert None not in requested
        assert await store.read(_pid) == os.getpid()


def test_what_has_changed_fits_beside_a_question():
    changes = RollupVersions()
    changes._count = 2**31  # commits of a year
    for hour in range(_REMEMBERED):
        changes.note([int(NOON // 3_600) + hour])
    job = QueryJob(2**31, Query(queries.log, (1_000, "x" * 32, LogFilter(project="p" * 100)), {}, _names), changes)
    assert len(framed(job)) < LONGEST


async def test_several_questions_on_one_way(path):
    async with open_store(path, clock=HandClock(), processes=True) as store:
        await ready(store)
        one, two, three = await store.read_together(
            query_as(unconverted, _pid), query_as(str, _length, "abc"), query_as(_names, queries.log, 2)
        )
        assert one != os.getpid()
        assert two == str((3, one))
        assert three == []
        assert await store.read(_pid) == one


async def test_ctrl_c_in_a_terminal_does_not_reach_the_process(path):
    """A terminal signals the group of its program, also while Python still loads modules."""
    async with open_store(path, clock=HandClock(), processes=True) as store:
        await ready(store)
        pid = await store.read(_pid)
        assert os.getpgid(pid) == pid
