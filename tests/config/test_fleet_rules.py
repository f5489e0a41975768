"""What a gateway says at its start where the client of the fleet's server, or of PostgreSQL, is not installed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.modules[sys.argv.pop(1)] = None  # as if it were not installed
from gw.cli.main import main
main()
"""
BASE = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}\n"


@pytest.mark.parametrize(
    ("module", "text", "place"),
    [
        ("glide", "fleet:\n  valkey: valkey://127.0.0.1:1", "gw.yaml:4:"),
        ("psycopg", "cost_tracking:\n  database: postgresql://127.0.0.1:1/gw", "gw.yaml:4:"),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.process
def test_a_client_that_is_not_installed_is_one_error_with_its_line(tmp_path, module, text, place, workers):
    (tmp_path / "gw.yaml").write_text(BASE + text)
    command = [sys.executable, "-c", PROGRAM, module, "serve", "--port", "0", "--workers", workers]
    env = {**os.environ, "GW_DB_PATH": str(tmp_path / "gw.db")}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert place in done.stderr
    assert "install gw with its extra 'fleet': pip install '.[fleet]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("gw.yaml:") == 1


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.process
def test_two_places_for_the_records_are_one_error_with_its_line(tmp_path, workers):
    (tmp_path / "gw.yaml").write_text(BASE + "cost_tracking:\n  db_path: gw.db\n  database: postgresql://me:hunter2@127.0.0.1:1/gw\n")
    command = [sys.executable, "-m", "gw", "serve", "--port", "0", "--workers", workers]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "gw.yaml:5:" in done.stderr
    assert "cost_tracking has both database and db_path" in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
    assert done.stderr.count("gw.yaml:") == 1
