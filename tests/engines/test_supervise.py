from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process
GUARD = [sys.executable, "-m", "gw.engines.supervise"]


def test_it_ends_with_its_server():
    command = [*GUARD, sys.executable, "-c", "raise SystemExit(7)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as guard:
        assert guard.wait(60) == 7


def test_its_server_ends_when_nobody_holds_its_input():
    """Close the pipe, like a killed gateway."""
    server = "import sys, time; print('begun', file=sys.stderr, flush=True); time.sleep(3600)"
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*GUARD, sys.executable, "-c", server], **pipes) as guard:
        assert guard.stderr.readline() == b"begun\n"
        guard.stdin.close()
        assert guard.wait(60) != 0


def test_its_server_gets_no_secret():
    server = "import os, sys; print(*os.environ, file=sys.stderr, flush=True)"
    env = {**os.environ, "GW_SECRET": "s", "OPENAI_API_KEY": "s", "HF_TOKEN": "s", "MKL_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*GUARD, sys.executable, "-c", server], env=env, **pipes) as guard:
        names = set(guard.stderr.readline().decode().split())
    assert "MKL_NUM_THREADS" in names
    assert not {"GW_SECRET", "OPENAI_API_KEY", "HF_TOKEN"} & names


def test_its_server_dies_with_it():
    server = "import sys, time; print('begun', file=sys.stderr, flush=True); time.sleep(3600)"
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*GUARD, sys.executable, "-c", server], **pipes) as guard:
        assert guard.stderr.readline() == b"begun\n"
        guard.kill()
        assert guard.stderr.read() == b""  # to its end, which comes when the server has ended, too
