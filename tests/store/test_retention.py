"""Retention alone, by the hour; and inside an open store, with a clock that is set by hand."""

import threading
from contextlib import closing
from itertools import pairwise

import apsw
import pytest
import trio
from structlog.testing import capture_logs

from gw.store.batches import write_batch
from gw.store.retention import Retention
from gw.store.sqlite import open_writer
from gw.store.store import open_store
from gw.telemetry.clock import DAY_S
from tests.fakes import stored
from tests.fakes.records import NOON, HandClock, record

HOUR_S = 3600.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gw.db"


async def left_after(path, clock):
    """Open the store, let it delete once; return the ids that are left and whether it was held."""
    async with open_store(path, clock=clock) as store:
        await until_pruned(store)
        return sorted(r.id for r in await stored.logs(store, limit=1000)), store.retention_held


async def until_pruned(store):
    while store._writer._prune_due <= trio.current_time():
        await trio.to_thread.run_sync(threading.Event().wait, 0.001)


async def fill(path, clock, ages):
    async with open_store(path, clock=clock) as store:
        for age in ages:
            store.finish(record(f"{age:03}", timestamp=clock.time - age * DAY_S))
        await store.flush()
        await until_pruned(store)


async def test_a_clock_91_days_ahead_deletes_nothing(path, mock_clock):
    clock = HandClock()
    await fill(path, clock, range(0, 90, 10))
    clock.time += 91 * DAY_S
    with capture_logs() as logs:
        left, held = await left_after(path, clock)
    assert left == [f"{age:03}" for age in range(0, 90, 10)]
    assert "the clock is 91 days ahead" in held
    [line] = [line for line in logs if line["event"] == "retention_held"]
    assert line["clock_ahead_days"] == 91.0
    await fill(path, clock, (1,))  # what is recorded under the wrong time changes nothing at the next start
    left, held = await left_after(path, clock)
    assert len(left) == 10
    assert held
    clock.time = NOON + HOUR_S
    left, held = await left_after(path, clock)
    assert (len(left), held) == (10, "")


async def test_a_database_of_an_older_gw_is_judged_by_its_newest_record(path, mock_clock):
    clock = HandClock()
    await fill(path, clock, (0, 50))
    with closing(apsw.Connection(str(path))) as db:
        db.execute("delete from meta where name = 'retention_time'")
    clock.time += 365 * DAY_S
    left, held = await left_after(path, clock)
    assert left == ["000", "050"]
    assert "365 days ahead" in held


async def test_a_long_pause_after_which_nothing_is_too_old_is_no_matter(path, mock_clock):
    clock = HandClock()
    await fill(path, clock, (0, 50))
    clock.time += 30 * DAY_S
    assert await left_after(path, clock) == (["000", "050"], "")


async def test_a_week_off_and_a_machine_without_a_clock_are_no_leap(path, mock_clock):
    clock = HandClock()
    await fill(path, clock, (0, 85))
    clock.time += 6.5 * DAY_S
    assert await left_after(path, clock) == (["000"], "")
    other = path.with_name("other.db")
    clock = HandClock(1000.0)
    await fill(other, clock, (0,))
    clock.time = NOON
    assert await left_after(other, clock) == ([], "")


def test_retention_catches_up_with_a_clock_that_stays_ahead(path):
    """A gateway that was really off for 30 days deletes two days' worth a day, until it is a week behind."""
    with closing(open_writer(path)) as db:
        assert Retention(90).cutoff(db, NOON, 5.0) == NOON - 90 * DAY_S
        write_batch(db, [record(timestamp=NOON - 89 * DAY_S)])
        back, retention, cutoffs = NOON + 30 * DAY_S, Retention(90), []
        for hour in range(24 * 24):
            cutoff = retention.cutoff(db, back + hour * HOUR_S, hour * HOUR_S)
            cutoffs.append((cutoff - NOON) / DAY_S + 90)
            assert bool(retention.why_held) == (hour <= 23 * 24), hour
        assert cutoffs[:48:24] == pytest.approx([0.0, 2.0])
        assert cutoffs[-1] == pytest.approx(30 + 23 + 23 / 24)
        steps = [later - earlier for earlier, later in pairwise(cutoffs)]
        assert max(steps) < 7.1
        assert sorted(steps)[-2] == pytest.approx(2 / 24)


def test_a_clock_that_went_back_deletes_less_and_not_more_afterwards(path):
    with closing(open_writer(path)) as db:
        retention = Retention(2)
        assert retention.allowed_s == DAY_S
        assert retention.cutoff(db, NOON, 0.0) == NOON - 2 * DAY_S
        assert retention.cutoff(db, NOON - 9 * DAY_S, HOUR_S) == NOON - 11 * DAY_S
        assert retention.cutoff(db, NOON + 2 * HOUR_S, 2 * HOUR_S) == NOON + 2 * HOUR_S - 2 * DAY_S
        assert retention.why_held == ""
