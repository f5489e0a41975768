import apsw
import pytest
import trio

from gw.errors import StoreUnavailable
from gw.store.reader_pool import ReaderPool
from gw.store.sqlite import READ_LIMIT_S, open_writer
from tests.fakes.records import HandClock

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "gw.db"
    open_writer(path).close()
    return path


async def test_connections_are_used_again(path):
    pool = ReaderPool(path, HandClock())
    first = await pool.read(id)
    assert await pool.read(id) == first
    pool.close()


async def test_a_cancelled_report_stops_its_statement(path):
    pool = ReaderPool(path, HandClock())
    ended = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def report(db):
        trio.from_thread.run_sync(left.cancel, trio_token=token)
        try:
            db.execute(ENDLESS)
        finally:
            trio.from_thread.run_sync(ended.set, trio_token=token)

    with trio.fail_after(60):
        with trio.CancelScope() as left:
            await pool.read(report)
        await ended.wait()
    assert left.cancelled_caught
    pool.close()


async def test_a_report_that_runs_away_is_ended(path):
    clock = HandClock()

    def report(db):
        clock.time += READ_LIMIT_S + 1
        return db.execute(ENDLESS).get

    pool = ReaderPool(path, clock)
    with pytest.raises(StoreUnavailable, match="took longer than 5 s"):
        await pool.read(report)
    assert await pool.read(lambda db: db.execute("select 1").get) == 1
    pool.close()


async def test_a_connection_lent_out_while_the_pool_closes_is_closed_by_its_thread(path):
    pool = ReaderPool(path, HandClock())
    lent = []

    def report(db):
        pool.close()
        lent.append(db)

    await pool.read(report)
    with pytest.raises(apsw.ConnectionClosedError):
        lent[0].execute("select 1")
