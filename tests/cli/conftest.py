from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from gw.cli.main import main
from tests.fakes.gateway_http import fake_gateway


@pytest.fixture
def gateway():
    with fake_gateway() as fake:
        yield fake


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `gw ARGS` in an empty folder, with nothing configured but what `env` says."""
    monkeypatch.chdir(tmp_path)
    base = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}
    empty = dict.fromkeys(("GW_CONFIG", "GW_DB_PATH", "GW_URL", "GW_API_KEY", "GW_SECRET", "PORT"))

    def invoke(*args: object, stdin: str | None = None, **env: str) -> Result:
        runner = CliRunner(env=base | empty | env)
        return runner.invoke(main, [str(arg) for arg in args], input=stdin)

    return invoke
