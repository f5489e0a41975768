"""A gateway of one process, which serves requests: it loads nothing of workers, fleets and PostgreSQL."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import httpx2
import pytest

pytestmark = pytest.mark.process

PROGRAM = """
import atexit, json, sys
LOADED = ("gw.workers", "gw.fleet", "gw.policy.merged_turns", "gw.policy.lease_account", "gw.store.postgres", "glide", "psycopg")
atexit.register(lambda: print("LOADED", json.dumps(sorted(name for name in sys.modules if name.startswith(LOADED)))))
from gw.cli.main import main
main()
"""


@pytest.mark.parametrize(("workers", "loads"), [(None, False), ("2", True)], ids=["one", "workers"])
def test_one_process_loads_nothing_of_several(tmp_path, workers, loads):
    (tmp_path / "gw.yaml").write_text("providers: {sim: {}}\nmodels: {llm: [sim/echo]}\n")
    command = [sys.executable, "-c", PROGRAM, "serve", "--port", "0", *(["--workers", workers] if workers else [])]
    env = os.environ | {"GW_DB_PATH": str(tmp_path / "gw.db")}  # that of the home folder is for one gateway at a time
    process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url = ""
        while "ready in" not in (line := process.stdout.readline()):
            assert line, process.wait(60)
            url = found[1] if (found := re.search(r"API\s+(https?://\S+)/v1", line)) else url
        body = {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}
        with httpx2.Client(base_url=url) as http:
            assert http.post("/v1/chat/completions", json=body).status_code == 200
            assert http.get("/v1/status").status_code == 200
        process.terminate()
        output = process.stdout.read()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    [loaded] = [json.loads(line.removeprefix("LOADED ")) for line in output.splitlines() if line.startswith("LOADED ")]
    assert bool(loaded) == loads, loaded
