"""A SQLite database that is copied to PostgreSQL, also in several goes, shows the same afterwards."""

from __future__ import annotations

from contextlib import closing

import apsw
import pytest

from gw.admin.demo_history import sample_records
from gw.errors import DatabaseUnusable
from gw.pricing.rate_tables import load_book
from gw.store import entity_rows, first_audio, requests, rollups
from gw.store.batches import write_batch
from gw.store.entity_rows import Change
from gw.store.latency import MergedBuckets, QueryContext, latencies
from gw.store.migrations import migrate
from gw.store.postgres import copy_over
from gw.store.postgres.pg_connection import connect
from gw.store.postgres.pg_database import PostgresRecords
from gw.store.window_pieces import TimeWindow
from gw.types.entities import AuditEntry, Project
from gw.types.secret import Secret
from tests.fakes import databases
from tests.fakes.records import NOON, record

pytestmark = pytest.mark.parametrize("kind", databases.POSTGRES)
CHANGE = Change(
    put=(Project(id="p", name="P\0"),), meta=(("key_check", "x"),),
    audit=tuple(
        AuditEntry(timestamp=NOON, entity_type="project", entity_id="p", action="create", changes={"n": n}, source="api", actor="me")
        for n in range(3)
    ),
    transcripts=(entity_rows.StoredTranscript("t", "p", NOON + 9, b"\0body"),), callbacks=(entity_rows.StoredCallback("c", NOON, b"x"),),
)  # fmt: skip


@pytest.fixture
def url(postgres):
    return Secret(databases.fresh_url())


@pytest.fixture
def source(tmp_path, monkeypatch):
    path = tmp_path / "gw.db"
    monkeypatch.setattr(copy_over, "BATCH", 100)
    with closing(apsw.Connection(str(path))) as db:
        db.pragma("journal_mode", "wal")
        migrate(db)
        write_batch(db, [record("gone", timestamp=NOON - 10 * 86_400)])
        write_batch(db, list(sample_records(NOON, 3, book=load_book(tmp_path))))
        requests.prune(db, before=NOON - 5 * 86_400, limit=1)  # its sums stay
        entity_rows.apply(db, CHANGE)
    return path


def times(histogram):
    return histogram.count, histogram.quantiles(0.5, 0.95, 0.99)


def shown(db):
    context = QueryContext(db, MergedBuckets(None))
    audit = entity_rows.audit_page(db, limit=99, entity_type=None, entity_id=None, action=None, before=None)
    return {
        "costs": [(row.model_id, row.cost_nusd, row.requests, round(row.audio_seconds, 6)) for row in rollups.costs(db, None, None)],
        "totals": [rollups.totals(db, None, None, grain=grain) for grain in rollups.TABLES],
        "points": rollups.points(db, "hour", 0, 2**40, by="model"),
        "latency": {name: (times(row.ttfb), times(row.total)) for name, row in latencies(context, None, None).items()},
        "first audio": {name: times(one) for name, one in first_audio.by_name(context, TimeWindow(), "stack", "demo-history").items()},
        "spend": sorted(tuple(row) for row in db.execute("select owner, id, day, nusd from owner_spend")),
        "log": requests.page(db, limit=10_000),
        "entities": entity_rows.entities(db), "audit": audit, "meta": entity_rows.meta(db, "key_check"),
        "transcripts": entity_rows.transcripts(db, NOON), "callbacks": entity_rows.callbacks(db),
    }  # fmt: skip


class Interrupted(Exception):
    pass


def test_everything_is_copied_in_as_many_goes_as_it_takes(kind, source, url):
    with closing(apsw.Connection(str(source))) as sqlite:
        expected = shown(sqlite)
    goes, seen = 0, []

    def interrupt(done, total):
        seen.append((done, total))
        if len(seen) % 5 == 0:
            raise Interrupted

    while True:
        goes += 1
        try:
            mark = copy_over.copy_over(source, url, on_progress=interrupt)
            break
        except Interrupted:
            with pytest.raises(DatabaseUnusable, match=r"has an unfinished copy of .*: run `gw db copy` again"):
                PostgresRecords(url, "gw")
    assert goes > 3
    assert seen[-1][0] == seen[-1][1]
    assert mark.records == len(expected["log"]) > 300
    with closing(connect(url)) as db:
        assert shown(db) == expected
    with pytest.raises(DatabaseUnusable, match="already, complete"):
        copy_over.copy_over(source, url, on_progress=interrupt)
    database = PostgresRecords(url, "gw")
    assert database.write([expected["log"][0], record("new", timestamp=NOON)])[0] == 1
    database.change(CHANGE)
    assert database.run(lambda db: db.execute("select max(seq) from audit").get) == 6
    database.close()


def test_a_database_with_records_takes_no_copy(kind, source, url):
    database = PostgresRecords(url, "gw")
    database.write([record()])
    database.close()
    with pytest.raises(DatabaseUnusable, match="has records already"):
        copy_over.copy_over(source, url, on_progress=lambda done, total: None)
