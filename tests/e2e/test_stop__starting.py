"""Ctrl-C while the workers start: a terminal signals the whole group of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.fakes.processes import children

FILE = """
serve: {workers: 2, port: 0}
providers: {sim: {}}
models: {llm: [sim/echo]}
"""


@pytest.mark.process
def test_ctrl_c_ends_workers_that_start(tmp_path):
    """It prints no traceback, and no other process takes the place of a worker that has stopped, which would wait for the drain's end."""
    (tmp_path / "gw.yaml").write_text(FILE)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GW_")}
    with subprocess.Popen(
        [sys.executable, "-m", "gw", "serve"], cwd=tmp_path, env=environment, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as gateway:  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while len(children(gateway.pid, "gw.workers.worker_start")) < 2:
                assert time.monotonic() < deadline
                threading.Event().wait(0.001)
        finally:
            os.killpg(gateway.pid, signal.SIGINT)
        output, _ = gateway.communicate(timeout=60)
    assert gateway.returncode == 0
    assert "Traceback" not in output
    assert '"draining"' in output
    assert '"starts":2' not in output
