"""Rows of several gateways, and their merging, change nothing in what reports show."""

from __future__ import annotations

from contextlib import closing

import msgspec
import pytest

from gw.admin.demo_history import sample_records
from gw.pricing.rate_tables import load_book
from gw.store import attempt_rollups, first_audio, rollups
from gw.store.latency import MergedBuckets, QueryContext, latencies
from gw.store.postgres import slot_rollups
from gw.store.postgres.pg_connection import connect
from gw.store.window_pieces import TimeWindow
from gw.telemetry.clock import DAY_S
from gw.types.secret import Secret
from tests.fakes import databases
from tests.fakes.records import NOON
from tests.fakes.records import record as made

pytestmark = pytest.mark.parametrize("kind", databases.POSTGRES)
QUANTILES = (0.5, 0.95, 0.99)
COUNTED = (
    "rollup_hour", "rollup_day", "rollup_attempt", "rollup_attempt_day", "first_audio_hour", "first_audio_day", "sums_minute",
    "model_minute", "totals_hour", "totals_day",
)  # fmt: skip


def reports(db):
    context = QueryContext(db, MergedBuckets(None))
    waits = {name: first_audio.by_name(context, TimeWindow(), name, None) for name in ("none", "project", "stack")}
    return {
        "costs": [
            msgspec.structs.replace(row, audio_seconds=round(row.audio_seconds, 6))  # fractions are added up in another order
            for grain in rollups.TABLES
            for row in rollups.costs(db, None, None, grain=grain)
        ],
        "points": [rollups.points(db, "hour", 0, 2**40, by=by) for by in ("model", "project")],
        "totals": [rollups.totals(db, None, project, grain=grain) for grain in rollups.TABLES for project in (None, "demo-history")],
        "latency": {
            model: (row.requests, row.ttfb.count, row.ttfb.quantiles(*QUANTILES), row.total.quantiles(*QUANTILES))
            for model, row in sorted(latencies(context, None, None).items())
        },
        "health": attempt_rollups.health(db, 0, 24),
        "errors": attempt_rollups.last_errors(db, 0),
        "moves": attempt_rollups.moves(db, 0),
        "first audio": {
            (by, name): (one.count, one.quantiles(*QUANTILES)) for by, rows in waits.items() for name, one in sorted(rows.items())
        },
    }


def rows(db, table, slots):
    return db.execute(f"select count(*) from {table} where slot {slots}").get


def test_old_rows_are_merged_into_one_and_new_ones_added_to_it(db, tmp_path):
    records = sorted(sample_records(NOON, 4, book=load_book(tmp_path)), key=lambda record: record.timestamp)
    turns = {}
    for record in records:  # a turn's requests are of one gateway
        turns.setdefault(record.turn_id, []).append(record)
    for number, batch in enumerate(turns.values()):
        databases.write(db, batch, slot=1 + number % 3)
    before = reports(db)
    assert rows(db, "rollup_hour", "= 3") > 20
    cut = NOON - 2 * DAY_S
    assert slot_rollups.compact(db, before=cut) > 100
    assert reports(db) == before
    assert [rows(db, table, "= 0") > 0 for table in COUNTED] == [True] * len(COUNTED)
    assert rows(db, "rollup_hour", f"> 0 and bucket < {int(cut // 3_600)}") == 0
    assert rows(db, "rollup_hour", "> 0") > 0
    assert slot_rollups.compact(db, before=cut) == 0

    assert databases.write(db, records[:3], slot=2) == 0, "known already"
    assert slot_rollups.compact(db, before=NOON + DAY_S) > 0
    assert reports(db) == before
    assert sum(rows(db, table, "> 0") for table in COUNTED) == 0


def test_a_slot_belongs_to_its_name_and_to_one_connection(db):
    url = Secret(databases.server().url("gw"))
    with closing(connect(url)) as one, closing(connect(url)) as two, closing(connect(url)) as three:
        assert slot_rollups.lease_slot(one, "a") == 1
        assert slot_rollups.lease_slot(two, "b") == 2
        assert slot_rollups.lease_slot(three, "a") == 3, "while another one has its own"
        one.close()
        with closing(connect(url)) as again:
            assert slot_rollups.lease_slot(again, "c") == 4, "1 is kept for a"
            assert slot_rollups.lease_slot(again, "a") == 1


def test_each_instance_has_its_own_spend_of_projects_and_keys_and_one_what_belongs_to_none(db):
    url, day = Secret(databases.server().url("gw")), int(NOON // DAY_S)
    with closing(connect(url)) as one, closing(connect(url)) as two:
        slots = [slot_rollups.lease_slot(one, "a"), slot_rollups.lease_slot(two, "b")]
    for number, (slot, cost) in enumerate([(slots[0], 10), (slots[1], 200), (0, 3_000), (slots[1], 40_000)]):
        timestamp = NOON - number // 3 * DAY_S
        databases.write(db, [made(str(number), timestamp=timestamp, cost_nusd=cost, key_id="till")], slot=slot)
    for instance, today, before in (("a", 3_010, 0), ("b", 200, 40_000), ("c", 0, 0)):
        spend = slot_rollups.owner_spend_of(db, day, instance)
        for owners, id_ in ((spend.projects, "default"), (spend.keys, "till")):
            found = owners.get(id_)
            assert ((0, 0) if found is None else (found.today, found.earlier.total)) == (today, before)
