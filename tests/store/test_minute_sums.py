"""Sums by minute are those of the records, which a report of a day in minutes therefore does not read."""

from __future__ import annotations

import re
from random import Random

import pytest

from gw.store import first_audio, migrations, minute_sums, requests, windows
from gw.store.latency import MINUTES_SINCE, MergedBuckets, QueryContext
from gw.store.migrations import migrate
from gw.store.minute_table import Minutes
from gw.store.window_pieces import DAY_S, Rows, TimeWindow, pieces, pieces_by_step
from tests.fakes.databases import WITH_LATER_COLUMN, drop_totals, prune, write
from tests.fakes.records import NOON, record
from tests.store.test_attempt_rollups import Noting
from tests.store.test_first_audio import turns, write_turns
from tests.store.test_windows import made

MINUTE_S, HOUR_S = 60, 3_600
ALL = {"project": None, "model_id": None}


def context(db):
    return QueryContext(db, MergedBuckets(None))


def rows(db, table):
    return sorted(tuple(row) for row in db.execute(f"select * from {table}"))


def test_minutes_have_what_their_records_have(db):
    dice = Random(7)
    records = [made(dice, number) for number in range(120)]
    for at in range(0, 120, 7):
        write(db, records[at : at + 7])
    window = TimeWindow(NOON - DAY_S, NOON + 1)
    chosen = [one for one in records if one.timestamp >= NOON - DAY_S]
    assert len(chosen) > 20
    steps = sorted(int(one.timestamp // MINUTE_S) for one in chosen)
    points = windows.points(context(db), window, MINUTE_S, "requests", by="none", **ALL)
    assert [point.bucket for point in points for _ in range(point.value)] == steps
    costs = windows.points(context(db), window, MINUTE_S, "cost", by="modality", **ALL)
    assert sum(point.value for point in costs) == sum(one.cost_nusd or 0 for one in chosen)
    trend = windows.trend(context(db), window, MINUTE_S, None)
    assert sum(trend.counts["errors"].values()) == sum(one.failed for one in chosen)
    assert sum(row.ttfb.count for row in trend.latency.values()) == sum(one.ttfb_ms is not None for one in chosen)
    exact = requests.between(db, NOON - DAY_S, NOON + 1, None)[0]
    first = int((NOON - DAY_S) // MINUTE_S)
    assert minute_sums.totals(db, Minutes(first, None)) == exact


def test_a_made_up_end_that_is_replaced_leaves_nothing(db):
    interrupted = record("r1", status="error", error_code="interrupted", ttfb_ms=None, modality="stt")
    write(db, [interrupted])
    write(db, [record("r1")], ends_interrupted=True)
    assert [tuple(row) for row in db.execute("select modality, requests, errors from sums_minute")] == [("llm", 1, 0)]


@pytest.mark.parametrize("by", ["none", "modality"])
def test_a_day_in_minutes_reads_no_records(db, by):
    write(db, [record("old", timestamp=NOON - 9 * DAY_S)])
    write_turns(db, turns(20))
    noting = Noting(db)
    asked = QueryContext(noting, MergedBuckets(None))
    window = TimeWindow(NOON - DAY_S, None)
    windows.points(asked, window, MINUTE_S, "requests", by=by, **ALL)
    windows.latency_points(asked, window, MINUTE_S, by=by, **ALL)
    windows.trend(asked, window, MINUTE_S, None)
    windows.totals(asked, TimeWindow(NOON - DAY_S + MINUTE_S, None), None)
    windows.latency_by(asked, TimeWindow(NOON - DAY_S + MINUTE_S, None), by, None)
    first_audio.by_step(asked, window, MINUTE_S, None)
    for name in ("none", "project", "stack"):
        first_audio.by_name(asked, TimeWindow(NOON - DAY_S + 7.5, None), name, None)
    read = [sql for sql in noting.statements if re.search(r"\bfrom requests\b", sql)]
    assert read == ["select min(timestamp) from requests"]
    assert len(noting.statements) > 10


def test_the_seconds_at_the_ends_are_read_from_records(db):
    write(db, [record("old", timestamp=0.0)])
    minute = int(NOON // MINUTE_S)
    assert set(pieces(context(db), TimeWindow(NOON - 90, NOON + 130), minutes_since=0)) == {
        Rows(NOON - 90, NOON - 60), Minutes(minute - 1, minute - 1), Minutes(minute, minute + 1), Rows(NOON + 120, NOON + 130),
    }  # fmt: skip
    assert list(pieces_by_step(context(db), TimeWindow(NOON, None), 60, minutes_since=0)) == [Minutes(minute, None)]
    for step_s in (10, 60):
        assert list(pieces_by_step(context(db), TimeWindow(NOON, None), step_s)) == [Rows(NOON, float("inf"))]
    assert list(pieces_by_step(context(db), TimeWindow(NOON, None), 10, minutes_since=0)) == [Rows(NOON, float("inf"))]


def test_records_from_before_there_were_minutes_are_read(db):
    """A database that is older than these tables has the minutes of its last days only."""
    made_of = turns(40)
    write_turns(db, made_of)
    since = int((NOON - DAY_S) // MINUTE_S)
    before = {table: rows(db, table) for table in ("sums_minute", "first_audio_minute", "turn_waits")}
    window = TimeWindow(NOON - 2.5 * DAY_S + 100, NOON)

    def shown():
        asked = context(db)
        counts = windows.trend(asked, window, MINUTE_S, None).counts
        waits = {name: one.count for name, one in first_audio.by_name(asked, window, "stack", None).items()}
        steps = {step: {at: one.count for at, one in first_audio.by_step(asked, window, step, None).items()} for step in (10, 60)}
        return counts, waits, steps

    complete = shown()
    assert sum(complete[1].values()) > 20
    db.execute("insert into meta (name, value) values (?, ?)", (MINUTES_SINCE, str(since)))
    for table, column in (("sums_minute", "bucket"), ("first_audio_minute", "bucket"), ("turn_waits", "began / 60")):
        db.execute(f"delete from {table} where {column} < ?", (since,))
        assert 0 < len(rows(db, table)) < len(before[table])
    assert shown() == complete


def test_they_go_with_their_records(db):
    write_turns(db, turns(40))
    before = {table: len(rows(db, table)) for table in ("sums_minute", "first_audio_minute", "turn_waits")}
    prune(db, before=NOON - DAY_S // 2)
    minute_sums.TABLE.prune(db)
    first_audio.prune(db)
    oldest = db.execute("select min(timestamp) from requests").get
    assert oldest > NOON - 3 * DAY_S
    for table, column in (("sums_minute", "bucket * 60 + 60"), ("first_audio_minute", "bucket * 60 + 60"), ("turn_waits", "began")):
        assert 0 < len(rows(db, table)) < before[table]
        assert db.execute(f"select min({column}) from {table}").get >= oldest


def drop_later(db):
    drop_totals(db)
    db.execute("drop table sums_minute")
    db.execute("drop table first_audio_minute")
    db.execute("drop table turn_waits")
    db.execute("drop table model_minute")
    for table in WITH_LATER_COLUMN:
        db.execute(f"alter table {table} drop column saved_nusd")


def test_an_earlier_database_gets_the_minutes_of_its_last_days(sqlite_db):
    db = sqlite_db
    write(db, [record("old", timestamp=NOON - 9 * DAY_S)])
    write_turns(db, turns(40))
    tables = ("sums_minute", "first_audio_minute", "turn_waits")
    since = int(NOON // DAY_S - 3) * DAY_S
    expected = {table: rows(db, table) for table in tables}
    expected["sums_minute"] = [row for row in expected["sums_minute"] if row[0] * 60 >= since]
    drop_later(db)
    db.pragma("user_version", migrations.MIGRATIONS.index(migrations.sum_migrations.minutes))
    migrate(db)
    assert {table: rows(db, table) for table in tables} == expected
    assert context(db).minutes_since == since // 60
