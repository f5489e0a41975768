import apsw
import pytest

from gw.store import migrations


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
