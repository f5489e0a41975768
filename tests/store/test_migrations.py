import apsw
import msgspec
import pytest

from gw.store import migrations
from gw.telemetry.histogram import Histogram
from tests.fakes.records import DAY, NOON


@pytest.fixture
def db():
    connection = apsw.Connection(":memory:")
    yield connection
    connection.close()


def _schema(db):
    return list(db.execute("select type, name, sql from sqlite_schema order by name"))


def test_from_empty_to_the_present(db):
    assert migrations.migrate(db) == migrations.VERSION
    assert db.pragma("user_version") == migrations.VERSION
    assert db.pragma("application_id") == migrations.APPLICATION_ID
    tables = {name for kind, name, _ in _schema(db) if kind == "table"}
    assert {"requests", "rollup_hour", "rollup_day"} <= tables


def test_a_second_run_changes_nothing(db):
    migrations.migrate(db)
    before = _schema(db)
    assert migrations.migrate(db) == 0
    assert _schema(db) == before


def test_a_new_database_waits_for_the_disk_once(db):
    transactions = []
    migrations.migrate(db, on_progress=lambda *done: transactions.append(done))
    assert transactions == [(migrations.VERSION, migrations.VERSION)]


def test_a_step_that_fails_leaves_the_version_before_it(db):
    db.execute("create table rollup_day (x)")  # in the way of the first step's last statement
    with pytest.raises(apsw.SQLError):
        migrations.migrate(db)
    assert db.pragma("user_version") == 0
    assert [name for _, name, _ in _schema(db)] == ["rollup_day"]
    assert not db.in_transaction


def test_how_far_it_is_is_told_after_each_step(db):
    decoded = []
    migrations.MIGRATIONS[0](db)
    db.pragma("user_version", 1)
    migrations.migrate(db, on_progress=lambda done, total: decoded.append((done, total)))
    steps = migrations.VERSION - 1
    assert decoded == [(n, steps) for n in range(1, steps + 1)]


def _before_parts(db):
    """Return a database of the version before vendors had parts, with its own insert."""
    for step in migrations.MIGRATIONS[:6]:
        step(db)
    db.pragma("user_version", 6)

    def insert(number, model_id, cost, seconds, attempts, modality="stt"):
        provider = model_id.partition("/")[0]
        columns = {
            "id": f"{number}", "timestamp": NOON, "project": "p", "modality": modality, "model_id": model_id,
            "provider": provider, "requested_model": model_id, "status": "fallback", "total_latency_ms": 1.0,
            "cost_nusd": cost, "pricing_source": "config", "input_tokens": 0, "cached_input_tokens": 0,
            "cache_write_tokens": 0, "output_tokens": 0, "input_audio_tokens": 0, "output_audio_tokens": 0,
            "audio_seconds": seconds, "characters": 0, "usage_source": "measured",
            "attempts": msgspec.json.encode(attempts).decode(), "stream": 1, "endpoint": "",
        }  # fmt: skip
        db.execute(f"insert into requests ({', '.join(columns)}) values ({', '.join('?' * len(columns))})", tuple(columns.values()))
        for table, bucket in (("rollup_hour", DAY * 24 + 12), ("rollup_day", DAY)):
            db.execute(
                f"insert into {table} values (?, 'p', ?, ?, ?, 1, 0, 1, 0, ?, 0, 0, 0, 0, ?, 0, ?, ?, 0) "
                "on conflict do update set requests = requests + 1, cost_nusd = cost_nusd + excluded.cost_nusd, "
                "audio_seconds = audio_seconds + excluded.audio_seconds",
                (bucket, provider, model_id, modality, cost or 0, seconds, Histogram([5.0]).encode(), Histogram([9.0]).encode()),
            )

    return insert


@pytest.mark.parametrize("table", ["rollup_hour", "rollup_day"])
def test_costs_booked_on_the_last_vendor_move_to_the_one_that_charges_them(db, table):
    insert = _before_parts(db)
    insert(1, "b/x", 75, 10.0, [
        {"model_id": "a/x", "outcome": "cut", "audio_seconds": 7.0, "cost_nusd": 70},
        {"model_id": "b/x", "outcome": "ok", "audio_seconds": 3.0, "cost_nusd": 5},
    ])  # a live session: its units were the sum  # fmt: skip
    insert(2, "b/x", 12, 4.0, [
        {"model_id": "a/x", "outcome": "slow", "audio_seconds": 4.0, "cost_nusd": 2},
        {"model_id": "b/x", "outcome": "ok"},
    ])  # a recording: its units were those of the answer  # fmt: skip
    insert(3, "b/x", 1, 1.0, [{"model_id": "b/x", "outcome": "ok"}])
    insert(4, "b/x", None, 1.0, [
        {"model_id": "a/x", "outcome": "cut", "cost_nusd": 50}, {"model_id": "b/x", "outcome": "ok"},
    ])  # nothing was booked: the sum was unknown  # fmt: skip
    migrations.migrate(db)
    rows = db.execute(f"select model_id, requests, calls, cost_nusd, audio_seconds from {table} order by model_id").get
    assert rows == [("a/x", 0, 2, 72, 7.0), ("b/x", 4, 4, 16, 9.0)]


def test_rollups_without_records_stay_as_they_are(db):
    insert = _before_parts(db)
    insert(1, "b/x", 75, 10.0, [])
    db.execute("delete from requests")
    migrations.migrate(db)
    rows = db.execute("select model_id, requests, calls, cost_nusd, audio_seconds, estimated_nusd from rollup_day").get
    assert rows == ("b/x", 1, 1, 75, 10.0, 0)
