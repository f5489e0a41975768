from __future__ import annotations

import json

import pytest
import trio

from gw.store.entity_rows import Change
from gw.store.store import open_store
from gw.telemetry.clock import SystemClock
from gw.types.entities import Project
from gw.types.usage import RequestRecord

CONFIG = "providers: {sim: }\nmodels: {llm: [sim/echo]}\nprojects: {demo: {}}\ncost_tracking: {db_path: gw.db}\n"
NOBODY = "http://127.0.0.1:1"


def _record(number: int, **changes: object) -> RequestRecord:
    facts = {
        "id": f"r{number}",
        "timestamp": SystemClock().now() - 1 + number / 100,
        "project": "demo",
        "modality": "llm",
        "model_id": "sim/echo",
        "provider": "sim",
        "requested_model": "sim/echo",
        "status": "success",
        "total_latency_ms": 20.0,
        "cost_nusd": 2_000,
    }
    return RequestRecord(**(facts | changes))


@pytest.fixture
def database(tmp_path):
    """A configuration whose database holds three records, and no gateway that runs."""
    (tmp_path / "gw.yaml").write_text(CONFIG)

    async def fill() -> None:
        async with open_store(tmp_path / "gw.db", clock=SystemClock()) as store:
            for record in (_record(1), _record(2, status="error", cost_nusd=0), _record(3, project="default")):
                store.finish(record)
            await store.change(Change(put=(Project(id="app"),)))

    trio.run(fill)
    return tmp_path / "gw.db"


def test_costs_are_read_from_the_database_and_that_is_said(run, database):
    result = run("costs", "--url", NOBODY)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:] == ["sim\t3\t0.000004000"]
    assert result.stderr == f"no gateway answers at {NOBODY}; read from {database}\n"


def test_costs_of_one_project_as_json(run, database):
    report = json.loads(run("costs", "--url", NOBODY, "--project", "demo", "--json", "--period", "all").stdout)
    assert report["by_project"] == {"demo": {"cost": 0.000002, "requests": 2}}


def test_logs_are_filtered_and_newest_first(run, database):
    every = json.loads(run("logs", "--url", NOBODY, "--json").stdout)
    failed = json.loads(run("logs", "--url", NOBODY, "--json", "--status", "error").stdout)
    assert [record["id"] for record in every] == ["r3", "r2", "r1"]
    assert [record["id"] for record in failed] == ["r2"]


def test_a_project_made_through_the_api_is_known(run, database):
    report = json.loads(run("costs", "--url", NOBODY, "--project", "app", "--json").stdout)
    assert report["project"] == "app"


def test_reading_changes_nothing(run, database):
    before = database.read_bytes()
    assert run("logs", "--url", NOBODY).exit_code == 0
    assert database.read_bytes() == before


def test_an_unknown_project_lists_the_known_ones(run, database):
    result = run("costs", "--url", NOBODY, "--project", "nobody")
    assert result.exit_code == 1
    assert "unknown project 'nobody'; available: default, demo, app" in result.stderr


@pytest.mark.parametrize("config", [None, CONFIG, "providers: {openai: {api_key: '${NOT_SET}'}}\nmodels: {}\n"])
def test_without_a_database_the_message_is_about_the_gateway(run, tmp_path, config):
    if config:
        (tmp_path / "gw.yaml").write_text(config)
    result = run("costs", "--url", NOBODY)
    assert result.exit_code == 1
    assert f"no gateway answers at {NOBODY}" in result.stderr
