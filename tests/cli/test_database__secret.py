from __future__ import annotations

import fcntl

import pytest
import structlog
import trio

from gw.admin import providers
from gw.types.entities import Actor
from tests.fakes.registrar import open_registrar

KEY = "sk-canary-0123456789"
CONFIG = "providers: {sim: }\nmodels: {llm: [sim/echo]}\ncost_tracking: {db_path: gw.db}\n"


@pytest.fixture
def stored(tmp_path):
    """`gw.db` with one stored key, and a way to read it back with given secrets."""
    (tmp_path / "gw.yaml").write_text(CONFIG)

    def store(secret: str) -> None:
        async def make() -> None:
            async with open_registrar(tmp_path, CONFIG, secret=secret) as registrar:
                body = {"provider_id": "mine", "provider_type": "openai", "api_key": KEY}
                await providers.create(registrar, body, Actor(source="api", name="admin"))

        trio.run(make)

    def read(secret: str) -> str:
        async def decrypt() -> str:
            async with open_registrar(tmp_path, CONFIG, secret=secret) as registrar:
                return registrar.catalog.provider("mine").api_key.reveal()

        return trio.run(decrypt)

    store.read = read
    yield store
    structlog.reset_defaults()


def test_with_the_variables(run, stored):
    stored("old")
    result = run("secret", "rotate", GW_SECRET="new", GW_SECRET_PREVIOUS="old")
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert result.stderr == "1 stored keys are encrypted with the new secret (GW_SECRET; GW_SECRET_PREVIOUS is no longer needed)\n"
    assert stored.read("new") == KEY


def test_with_the_file(run, stored, tmp_path):
    folder = tmp_path / "gw"
    folder.mkdir()
    (folder / ".secret").write_text("old\n")
    stored("old")
    result = run("secret", "rotate")
    assert result.exit_code == 0, result.output
    assert str(folder) in result.stderr
    new = (folder / ".secret").read_text().strip()
    assert new != "old"
    assert stored.read(new) == KEY


def test_a_variable_without_the_one_before_it_is_told_what_to_do(run, stored):
    stored("old")
    result = run("secret", "rotate", GW_SECRET="old")
    assert result.exit_code == 3
    assert "GW_SECRET_PREVIOUS" in result.stderr
    assert stored.read("old") == KEY


def test_a_key_that_nobody_can_read_stops_it(run, stored):
    stored("lost")
    result = run("secret", "rotate", GW_SECRET="new", GW_SECRET_PREVIOUS="old")
    assert result.exit_code == 1
    assert "the stored key of provider 'mine' cannot be decrypted" in result.stderr
    assert KEY not in result.output
    assert stored.read("lost") == KEY


def test_not_while_a_gateway_runs(run, stored, tmp_path):
    stored("old")
    with (tmp_path / "gw.db.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        result = run("secret", "rotate", GW_SECRET="new", GW_SECRET_PREVIOUS="old")
    assert result.exit_code == 1
    assert "database is locked" in result.stderr
    assert stored.read("old") == KEY


def test_without_a_database_there_is_nothing_to_do(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(CONFIG)
    result = run("secret", "rotate")
    assert result.exit_code == 1
    assert "no stored keys" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["gw.yaml"]
