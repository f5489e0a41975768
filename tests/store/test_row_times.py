"""Rows that are remembered get the same values as rows that are read again."""

from __future__ import annotations

from random import Random

import apsw
import psycopg
import pytest

from gw.store import row_times
from gw.store.batches import write_batch
from gw.store.postgres.pg_connection import PgConnection
from gw.store.postgres.pg_records import BatchWriter
from gw.store.row_times import RecentRows
from gw.telemetry.clock import DAY_S
from gw.telemetry.histogram import Histogram
from tests.fakes.databases import new_database
from tests.fakes.records import NOON, record
from tests.store.test_windows import made

TABLES = ("rollup_hour", "rollup_day", "sums_minute", "model_minute")


def tables(db):
    return {table: sorted(tuple(row) for row in db.execute(f"select * from {table}")) for table in TABLES}


def writing(db, now=NOON):
    """Return the function that writes batches as one connection does, at a time."""
    recent = RecentRows(lambda: now)
    if isinstance(db, PgConnection):
        writer = BatchWriter(db, 1, recent)
        return lambda records, **options: writer.write(records, from_elsewhere=options.get("ends_interrupted", False))
    return lambda records, **options: write_batch(db, records, recent=recent, **options)


def in_batches(db, records, now):
    write = writing(db, now)
    for at in range(0, len(records), 3):
        write(records[at : at + 3])
    write([record("made-up", status="error", error_code="interrupted", ttfb_ms=None)])
    write([record("made-up"), record("r1")], ends_interrupted=True)
    return tables(db)


@pytest.mark.parametrize("in_order", [True, False])
def test_rows_have_the_same_values_whether_they_are_remembered_or_not(db, kind, in_order):
    dice = Random(3)
    records = [made(dice, number) for number in range(90)]
    if in_order:
        records.sort(key=lambda one: one.timestamp)
    remembered = in_batches(db, records, NOON)
    with new_database(kind) as again:
        assert in_batches(again, records, NOON + 30 * DAY_S) == remembered


def test_a_batch_that_fails_leaves_nothing_behind(db):
    write = writing(db)
    write([record("a", ttfb_ms=10.0)])
    db.execute("alter table owner_spend rename to moved")  # which is written after the rows
    with pytest.raises((apsw.SQLError, psycopg.errors.UndefinedTable)):
        write([record("b", ttfb_ms=20.0)])
    db.execute("alter table moved rename to owner_spend")
    write([record("d", ttfb_ms=40.0)])
    expected = Histogram([10.0, 40.0]).encode()
    for table in TABLES:
        assert [ttfb for (ttfb,) in db.execute(f"select ttfb from {table}")] == [expected]


def test_only_the_newest_buckets_are_remembered_and_none_that_ended_a_day_ago():
    now = [1_000_000.0]
    recent = RecentRows(lambda: now[0])

    def is_known(table, ends_at):
        return recent.add(table, ends_at, "k", (Histogram([1.0]),)) is not None

    for ends_at in (1_000_000, 1_000_060, 1_000_120):
        recent.read("t", ends_at, "k", (Histogram([1.0]),), [])
    recent.read("t", 999_940, "k", (Histogram([1.0]),), [])
    assert [is_known("t", ends_at) for ends_at in (999_940, 1_000_000, 1_000_060, 1_000_120)] == [False, False, True, True]
    now[0] = 1_000_061.0 + DAY_S
    assert [is_known("t", ends_at) for ends_at in (1_000_060, 1_000_120)] == [False, True]
    recent.read("old", int(now[0]) - DAY_S - 1, "k", (Histogram([1.0]),), [])
    assert not is_known("old", int(now[0]) - DAY_S - 1)
    recent.clear()
    assert not is_known("t", 1_000_120)


def test_what_is_stored_is_read_once():
    recent = RecentRows(lambda: 0.0)
    stored = Histogram([5.0, 6.0]).encode()
    assert recent.read("t", 60, "k", (Histogram([7.0]),), [(stored,)]) == [Histogram([5.0, 6.0, 7.0]).encode()]
    assert recent.add("t", 60, "k", (Histogram([8.0]),)) == [Histogram([5.0, 6.0, 7.0, 8.0]).encode()]
    assert recent.add("t", 60, "other", (Histogram([8.0]),)) is None


def test_no_more_rows_are_remembered_than_memory_allows():
    recent = RecentRows(lambda: 0.0)
    for number in range(row_times.MAX_ROWS + 5):
        recent.read("t", 60, number, (Histogram(),), [])
    known = [recent.add("t", 60, number, (Histogram(),)) is not None for number in range(row_times.MAX_ROWS + 5)]
    assert known == [True] * row_times.MAX_ROWS + [False] * 5
