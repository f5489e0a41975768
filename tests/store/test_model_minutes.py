"""Times by minute and model are those of the records, which the page Latency of a day therefore does not read."""

from __future__ import annotations

import re
from random import Random

import pytest

from gw.store import migrations, model_minutes, windows
from gw.store.latency import MODEL_MINUTES_SINCE, MergedBuckets, QueryContext
from gw.store.migrations import migrate
from gw.store.postgres import pg_schema
from gw.store.window_pieces import DAY_S, TimeWindow
from gw.types.usage import AttemptRecord
from tests.fakes import databases
from tests.fakes.databases import drop_totals, prune, write
from tests.fakes.records import NOON, record
from tests.store.test_attempt_rollups import Noting
from tests.store.test_windows import made

MINUTE_S = 60
SINCE = int(NOON // DAY_S - 3) * DAY_S
CACHED = (AttemptRecord(model_id="a/x", outcome="ok", started_ms=0.0, duration_ms=1.0, cache="hit"),)


def context(db):
    return QueryContext(db, MergedBuckets(None))


def rows(db):
    table = model_minutes.TABLE
    return sorted(tuple(row) for row in db.execute(f"select {', '.join(table.columns)} from {table.name}"))


def fill(db, count=120):
    dice = Random(9)
    write(db, [record("old", timestamp=NOON - 9 * DAY_S), record("spoken", model_id="a/x", provider="a", attempts=CACHED)])
    records = [made(dice, number) for number in range(count)]
    for at in range(0, count, 7):
        write(db, records[at : at + 7])
    return records


def shown(db, window):
    """Return what the page Latency shows of times, in numbers."""
    quantiles = {}
    for model_id in (None, "a/x"):
        split = {"by": "model and modality", "project": None, "model_id": model_id}
        for (at, name), row in windows.latency_points(context(db), window, MINUTE_S, **split).items():
            quantiles[model_id, at, name] = row.requests, row.ttfb.count, row.total.count
    for name, row in windows.latencies_apart(context(db), window, None).items():
        quantiles[name] = row.requests, row.ttfb.quantiles(0.5, 0.99), row.total.quantiles(0.5, 0.99)
    return quantiles


@pytest.mark.parametrize("model_id", [None, "a/x"])
def test_a_day_of_models_reads_no_records(db, model_id):
    fill(db)
    noting = Noting(db)
    asked = QueryContext(noting, MergedBuckets(None))
    for by in ("none", "model", "model and modality", "provider"):
        if model_id is not None or by != "none":
            windows.latency_points(asked, TimeWindow(NOON - DAY_S, None), MINUTE_S, by=by, project=None, model_id=model_id)
    windows.latencies(asked, TimeWindow(NOON - DAY_S + 120, None), None)
    windows.latencies_apart(asked, TimeWindow(NOON - DAY_S + 120, NOON + 60), None)
    read = [sql for sql in noting.statements if re.search(r"\bfrom requests\b", sql)]
    assert read == ["select min(timestamp) from requests"]
    assert len(noting.statements) > 5


def test_what_the_phrase_cache_spoke_counts_without_its_times(db):
    fill(db, 0)
    points = windows.latency_points(
        context(db), TimeWindow(NOON, NOON + MINUTE_S), MINUTE_S, by="model", project=None, model_id="a/x"
    )
    assert [(row.requests, row.ttfb.count, row.total.count) for row in points.values()] == [(1, 0, 0)]


def test_a_made_up_end_that_is_replaced_leaves_nothing(db):
    write(db, [record("r1", status="error", error_code="interrupted", ttfb_ms=None, model_id="a/x")])
    write(db, [record("r1")], ends_interrupted=True)
    assert [(row[1], row[4]) for row in rows(db)] == [("openai/gpt-x", 1)]


def test_records_from_before_there_were_minutes_are_read(db):
    fill(db)
    window = TimeWindow(NOON - 2.5 * DAY_S + 100, NOON + 1)
    complete = shown(db, window)
    since = int((NOON - DAY_S) // MINUTE_S)
    before = len(rows(db))
    db.execute("insert into meta (name, value) values (?, ?)", (MODEL_MINUTES_SINCE, str(since)))
    db.execute("delete from model_minute where bucket < ?", (since,))
    assert 0 < len(rows(db)) < before
    assert shown(db, window) == complete


def test_they_go_with_their_records(db):
    fill(db)
    before = len(rows(db))
    prune(db, before=NOON - DAY_S // 2)
    model_minutes.TABLE.prune(db)
    oldest = db.execute("select min(timestamp) from requests").get
    assert oldest > NOON - 5 * DAY_S
    assert 0 < len(rows(db)) < before
    assert min(rows(db))[0] * MINUTE_S + MINUTE_S >= oldest


def test_an_earlier_database_gets_those_of_its_last_days(sqlite_db):
    db = sqlite_db
    fill(db)
    expected = [row for row in rows(db) if row[0] * MINUTE_S >= SINCE]
    drop_totals(db)
    db.execute("drop table model_minute")
    db.pragma("user_version", migrations.MIGRATIONS.index(migrations.sum_migrations.model_minutes))
    migrate(db)
    assert rows(db) == expected
    assert context(db).model_minutes_since == SINCE // MINUTE_S


@pytest.mark.parametrize("kind", databases.POSTGRES)
def test_an_earlier_postgresql_database_does_so_too(db):
    fill(db)
    expected = [row for row in rows(db) if row[0] * MINUTE_S >= SINCE]
    with db.raw.transaction(force_rollback=True):
        db.raw.execute("drop table model_minute")
        pg_schema._model_minutes(db)
        assert rows(db) == expected
        assert context(db).model_minutes_since == SINCE // MINUTE_S
