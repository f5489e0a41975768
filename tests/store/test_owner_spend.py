from __future__ import annotations

from gw.policy.spend_periods import PERIODS
from gw.store import migrations, owner_spend, rollups
from gw.store.postgres import pg_schema
from gw.store.postgres.pg_connection import PgConnection
from tests.fakes.databases import drop_later, write
from tests.fakes.records import record

DAY_S = 86_400
MONDAY = 20_000 + 3  # 2024-10-07
"""UTC day number."""


def spent(id_: str, day: int, nusd: int | None, key_id: str | None = None, **changes):
    return record(id_, timestamp=day * DAY_S + 60.0, cost_nusd=nusd, key_id=key_id, **changes)


RECORDS = [
    spent("a", MONDAY + 2, 10, "till"),
    spent("b", MONDAY + 2, 5, "till", estimated_nusd=2),
    spent("c", MONDAY, 100),
    spent("d", MONDAY - 1, 1_000, "till"),
    spent("e", MONDAY - 40, 10_000, "till"),
    spent("f", MONDAY + 2, None, "desk"),
]


def sums(spend: owner_spend.OwnerSpend) -> list[int]:
    return [spend.today + (spend.earlier.of(period)) for period in PERIODS]


def test_spend_of_projects_and_keys_by_period(db):
    write(db, RECORDS)
    found = owner_spend.spend(db, MONDAY + 2)
    assert {id_: sums(spend) for id_, spend in found.keys.items()} == {"till": [17, 17, 1_017, 11_017]}
    assert {id_: sums(spend) for id_, spend in found.projects.items()} == {"default": [17, 117, 1_117, 11_117]}
    assert {id_: spend.today for id_, spend in found.projects.items()} == {
        id_: spend.total for id_, spend in rollups.spend(db, MONDAY + 2).items()
    }


def test_a_record_that_takes_the_place_of_an_interrupted_one_takes_its_estimate_back(db):
    write(db, [spent("a", MONDAY, None, "till", status="error", error_code="interrupted", estimated_nusd=50, ttfb_ms=None)])
    assert sums(owner_spend.spend(db, MONDAY).keys["till"]) == [50] * 4
    write(db, [spent("a", MONDAY, 7, "till")], ends_interrupted=True)
    assert sums(owner_spend.spend(db, MONDAY).keys["till"]) == [7] * 4


def test_an_earlier_database_gets_the_spend_of_its_records(db):
    rows = "select owner, id, day, nusd from owner_spend order by 1, 2, 3"
    write(db, RECORDS)
    before = list(db.execute(rows))
    of_postgres = ["alert_sightings"] if isinstance(db, PgConnection) else []
    for table in ("owner_spend", "alert_incidents", "alert_outbox", "alert_mutes", *of_postgres):  # of this step and those after it
        db.execute(f"drop table {table}")
    drop_later(db)
    if isinstance(db, PgConnection):
        db.raw.execute("drop index first_audio_hour_projects, first_audio_day_projects")
        db.raw.execute("update schema_version set version = %s", (pg_schema.MIGRATIONS.index(pg_schema._owner_spend),))
        pg_schema.migrate(db, "the database")
    else:
        db.pragma("user_version", migrations.MIGRATIONS.index(migrations._owner_spend))
        migrations.migrate(db)
    assert list(db.execute(rows)) == before
