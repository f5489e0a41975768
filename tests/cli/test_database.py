from __future__ import annotations

import json

import apsw
import pytest
import structlog
import trio

from gw.store import migrations
from gw.store.entity_rows import Change
from gw.store.store import open_store
from gw.telemetry.clock import SystemClock
from gw.types.entities import Project, StoredChain

CONFIG = "providers: {sim: }\nmodels: {llm: [sim/echo]}\ncost_tracking: {db_path: gw.db}\n"


@pytest.fixture
def database(tmp_path):
    """A configuration whose database holds two projects and a chain."""
    (tmp_path / "gw.yaml").write_text(CONFIG)

    async def fill() -> None:
        async with open_store(tmp_path / "gw.db", clock=SystemClock()) as store:
            entities = (Project(id="a"), Project(id="b"), StoredChain(modality="llm"))
            await store.change(Change(put=entities))

    trio.run(fill)
    yield tmp_path / "gw.db"
    structlog.reset_defaults()  # a command that logs has set the stream of its run


def set_schema(path, version: int) -> None:
    db = apsw.Connection(str(path))
    db.pragma("user_version", version)
    db.close()


def test_a_backup_to_a_file_and_to_a_folder(run, database, tmp_path):
    result = run("db", "backup", "copy.db")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert "checked" in result.stderr
    (tmp_path / "folder").mkdir()
    assert run("db", "backup", "folder").exit_code == 0
    for copy in (tmp_path / "copy.db", tmp_path / "folder" / "gw.db"):
        facts = json.loads(run("db", "--db", copy, "stats", "--json").stdout)
        assert (facts["path"], facts["project_entries"]) == (str(copy), 2)


def test_a_backup_replaces_nothing(run, database, tmp_path):
    (tmp_path / "copy.db").write_text("precious")
    result = run("db", "backup", "copy.db")
    assert result.exit_code == 1
    assert "does not replace a file" in result.stderr
    assert (tmp_path / "copy.db").read_text() == "precious"


def test_a_database_named_on_the_command_line_needs_no_configuration(run, database, tmp_path):
    (tmp_path / "gw.yaml").write_text("broken: [")
    assert run("db", "stats").exit_code == 3
    assert run("db", "--db", database, "backup", "copy.db").exit_code == 0


@pytest.mark.parametrize("command", [["stats"], ["migrate"], ["backup", "x"]])
def test_without_a_database_none_is_made(run, tmp_path, command):
    result = run("db", "--db", "none.db", *command)
    assert result.exit_code == 1
    assert "there is no database at none.db" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_stats_as_lines_and_as_json(run, database):
    lines = dict(line.split("\t") for line in run("db", "stats").stdout.splitlines())
    facts = json.loads(run("db", "stats", "--json").stdout)
    assert (lines["project_entries"], lines["fallbacks_entries"], lines["requests"]) == ("2", "1", "0")
    assert {name: str(value) for name, value in facts.items()} == {k: v for k, v in lines.items() if k != "what"}


def test_upgrading_is_done_once(run, database):
    database.unlink()
    db = apsw.Connection(str(database))
    migrations.MIGRATIONS[0](db)
    db.pragma("application_id", migrations.APPLICATION_ID)
    db.close()
    set_schema(database, 1)
    result = run("db", "migrate")
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert f"schema 1 -> {migrations.VERSION}" in result.stderr
    assert "nothing to do" in run("db", "migrate").stderr


def test_an_old_database_can_be_backed_up_but_not_read(run, database):
    set_schema(database, 1)
    assert "gw db migrate" in run("db", "stats").stderr
    assert run("db", "backup", "copy.db").exit_code == 0


def test_nobody_upgrades_a_database_in_use(run, database):
    set_schema(database, 1)
    import fcntl

    with (database.parent / "gw.db.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        lock_file.write('{"pid": 4711}')
        lock_file.flush()
        result = run("db", "migrate")
    assert result.exit_code == 1
    assert "in use by process 4711" in result.stderr
