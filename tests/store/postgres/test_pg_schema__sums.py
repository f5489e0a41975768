"""Sums that a later version of the schema has are made of those that an earlier one had."""

from __future__ import annotations

import pytest

from gw.store import rollups
from gw.store.latency import MergedBuckets, QueryContext
from gw.store.postgres import pg_schema
from gw.telemetry.clock import DAY_S
from tests.fakes import databases
from tests.fakes.records import NOON, record
from tests.store.test_attempt_rollups import made
from tests.store.test_first_audio import turns, write_turns

pytestmark = pytest.mark.parametrize("kind", databases.POSTGRES)


def rows(db):
    return sorted(tuple(row) for row in db.execute("select * from rollup_attempt_day"))


def test_attempts_by_day(db):
    for slot in (1, 2):
        databases.write(db, made(50 * slot), slot=slot)
    days = rows(db)
    assert len(days) > 30
    with db.raw.transaction(force_rollback=True):
        db.raw.execute("drop table rollup_attempt_day; drop index first_audio_hour_projects; drop index first_audio_day_projects")
        pg_schema._attempts_by_day(db)
        assert rows(db) == days


def test_minutes_of_the_last_days(db):
    databases.write(db, [record("old", timestamp=NOON - 9 * DAY_S)])
    write_turns(db, turns(30))
    tables, since = ("sums_minute", "first_audio_minute", "turn_waits"), int(NOON // DAY_S - 3) * DAY_S

    def shown():
        return {table: sorted(tuple(row) for row in db.execute(f"select * from {table}")) for table in tables}

    expected = shown()
    slot = 2  # the third column of the sums, the fourth of first audio
    expected["sums_minute"] = [(*row[:slot], 0, *row[slot + 1 :]) for row in expected["sums_minute"] if row[0] * 60 >= since]
    expected["first_audio_minute"] = [(*row[:3], 0, row[4]) for row in expected["first_audio_minute"]]
    with db.raw.transaction(force_rollback=True):
        db.raw.execute("drop table sums_minute; drop table first_audio_minute; drop table turn_waits")
        databases.drop_totals(db)
        for table in databases.WITH_LATER_COLUMN:
            db.raw.execute(f"alter table {table} drop column saved_nusd")
        pg_schema._minutes(db)
        pg_schema._saved(db)
        assert shown() == expected
        assert QueryContext(db, MergedBuckets(None)).minutes_since == since // 60


def test_the_sums_of_all_projects_together(db):
    def shown():
        return {table: sorted(tuple(row) for row in db.execute(f"select * from {table}")) for table in rollups.TOTALS.values()}

    for slot in (0, 1, 2):
        records = [record(f"{slot} {n}", project=f"p{n % 3}", model_id=f"a/{n % 2}", timestamp=NOON + n * 3_000) for n in range(12)]
        databases.write(db, records, slot=slot)
    before = shown()
    assert [len(rows) for rows in before.values()] == [3 * 12, 3 * 2]
    assert {sum(row[5] for row in rows) for rows in before.values()} == {36}
    with db.raw.transaction(force_rollback=True):
        databases.drop_totals(db)
        pg_schema._totals(db)
        assert shown() == before
