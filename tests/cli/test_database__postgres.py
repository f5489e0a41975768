"""`gw db` and commands beside a gateway, with a PostgreSQL database."""

from __future__ import annotations

import json

import msgspec
import pytest
import structlog
import trio

from gw.store.postgres import pg_schema
from gw.store.store import open_store
from gw.telemetry.clock import SystemClock
from tests.fakes import databases
from tests.fakes.records import record

CONFIG = "providers: {{sim: }}\nmodels: {{llm: [sim/echo]}}\ncost_tracking: {{database: '{url}'}}\n"


@pytest.fixture(params=databases.POSTGRES)
def url(request, tmp_path):
    url = databases.fresh_url()
    (tmp_path / "gw.yaml").write_text(CONFIG.format(url=url))
    yield url
    structlog.reset_defaults()  # a command that logs has set the stream of its run
    databases.remove_server()


def test_the_commands_of_the_database(run, url, tmp_path):
    databases.server().execute("drop schema gw cascade", "gw")
    assert "its tables will be created" in run("check").stdout
    result = run("db", "migrate")
    assert result.exit_code == 0, result.output
    assert f"schema 0 -> {pg_schema.VERSION}" in result.stderr
    assert "nothing to do" in run("db", "migrate").stderr
    assert f"schema {pg_schema.VERSION}" in run("check").stdout

    line = json.dumps({"event": "usage_record_dropped", "record": msgspec.to_builtins(record("kept", timestamp=SystemClock().now()))})
    (tmp_path / "gw.log").write_text(f"{line}\n")
    result = run("db", "import", "gw.log")
    assert result.exit_code == 0, result.output
    assert "1 of 1 records were new" in result.stderr
    facts = json.loads(run("db", "stats", "--json").stdout)
    assert (facts["requests"], facts["schema_version"]) == (1, pg_schema.VERSION)
    assert facts["path"].startswith("the PostgreSQL database gw at 127.0.0.1:")
    assert "kept" in run("logs").stdout

    result = run("db", "backup", "copy")
    assert result.exit_code == 1
    assert "pg_dump --schema=gw" in result.stderr
    result = run("projects", "add", "shop")
    assert result.exit_code == 0, result.output
    assert "changed in the PostgreSQL database gw at" in result.stderr
    assert databases.server().execute("select kind, id from gw.managed", "gw") == [("project", "shop")]



def test_a_file_is_copied_to_the_configured_database(run, url, tmp_path):
    async def fill() -> None:
        async with open_store(tmp_path / "old.db", clock=SystemClock()) as store:
            await store.load([record(f"r{n}", timestamp=SystemClock().now() - n) for n in range(7)])

    trio.run(fill)
    result = run("db", "copy", "sqlite:old.db")
    assert result.exit_code == 0, result.output
    assert "old.db -> the PostgreSQL database gw at" in result.stderr
    assert "7 records, with all sums" in result.stderr
    assert json.loads(run("db", "stats", "--json").stdout)["requests"] == 7
    assert "r6" in run("logs").stdout
    again = run("db", "copy", "old.db", url)
    assert again.exit_code == 3
    assert "already, complete" in again.stderr
    assert "there is no database" in run("db", "copy", "none.db").stderr
    assert "TARGET must begin with postgresql://" in run("db", "copy", "old.db", "mysql://x").stderr
