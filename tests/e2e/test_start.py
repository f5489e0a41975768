"""Starting: what goes wrong before the gateway serves, as a supervisor sees it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.conftest import launch

pytestmark = pytest.mark.process

TEXT = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}\n"


def serve(folder, launcher=(), **options) -> subprocess.Popen[str]:
    (folder / "gw.yaml").write_text(TEXT)
    env = {**os.environ, "GW_CONFIG": str(folder / "gw.yaml"), "GW_DB_PATH": str(folder / "gw.db")}
    command = [*launcher, sys.executable, "-m", "gw", "serve", "--port", "0"]
    return subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True, **options)


def ignores_hangups(pid: int) -> bool:
    """Return whether SIGHUP is ignored or handled by now."""
    with open(f"/proc/{pid}/status") as status:
        masks = [int(line.split()[1], 16) for line in status if line.startswith(("SigIgn", "SigCgt"))]
    return any(mask & 1 << (signal.SIGHUP - 1) for mask in masks)


def test_sighup_at_any_moment_of_the_start_ends_nothing(tmp_path):
    process = serve(tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not ignores_hangups(process.pid):
            assert time.monotonic() < deadline
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(iter(process.stderr.readline, "")))
        reader.start()
        while not any("ready in" in line for line in lines):
            process.send_signal(signal.SIGHUP)
            assert process.poll() is None, lines
            assert time.monotonic() < deadline, lines
            time.sleep(0.005)
        while not any('"reloaded"' in line for line in lines):
            assert time.monotonic() < deadline, lines
            time.sleep(0.005)
    finally:
        process.terminate()
        reader.join(60)
        process.wait(60)
        process.stderr.close()
    assert process.returncode == 0, lines


def test_sighup_before_the_first_line_of_gw_ends_nothing(tmp_path):
    """As the unit in deploy/ starts it."""
    page = (Path(__file__).parents[2] / "deploy" / "gw.service").read_text()
    [command] = re.findall(r"^ExecStart=(.*)$", page, re.MULTILINE)
    launcher, found, arguments = command.partition(" /opt/gw/bin/gw ")
    assert (bool(found), arguments) == (True, "serve")
    process = serve(tmp_path, launcher=launcher.split())
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stderr.readline, "")))
    deadline = time.monotonic() + 60
    try:
        while not ignores_hangups(process.pid):
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGHUP)
        reader.start()
        while not any('"reloaded"' in line for line in lines):
            process.send_signal(signal.SIGHUP)
            assert process.poll() is None, lines
            assert time.monotonic() < deadline, lines
            time.sleep(0.005)
    finally:
        process.terminate()
        process.wait(60)
        reader.join(60)
        process.stderr.close()
    assert process.returncode == 0, lines


def test_a_database_in_use_can_be_tried_again_and_a_damaged_one_not(tmp_path):
    first = serve(tmp_path)
    try:
        while "ready in" not in first.stderr.readline():
            assert first.poll() is None
        second = serve(tmp_path)
        _, output = second.communicate(timeout=60)
        assert second.returncode == 1, output
        assert "is in use by process" in output
    finally:
        first.terminate()
        first.communicate(timeout=60)
    (tmp_path / "gw.db").write_bytes(b"no database " * 1000)
    damaged = serve(tmp_path)
    _, output = damaged.communicate(timeout=60)
    assert damaged.returncode == 3, output
    assert "is damaged or not a database" in output


def test_a_crash_leaves_no_core_file_with_keys_in_it(tmp_path):
    process = serve(tmp_path)
    try:
        while "ready in" not in (line := process.stderr.readline()):
            assert line, process.wait(60)
        with open(f"/proc/{process.pid}/limits") as limits:
            (core,) = [line for line in limits if line.startswith("Max core file size")]
        assert core.split()[4:6] == ["0", "0"]
        process.send_signal(signal.SIGABRT)
        assert process.wait(60) == -signal.SIGABRT
    finally:
        process.kill()
        process.stderr.close()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("core")] == []


def test_a_demo_for_others_asks_for_its_token(tmp_path):
    daemon = launch("--demo", "--host", "0.0.0.0", folder=tmp_path, GW_ADMIN_TOKEN="till-8351026789-shop")
    try:
        assert "with the value of GW_ADMIN_TOKEN" in daemon.text()
        port = daemon.url.rpartition(":")[2]
        statuses = []
        for token in ("", "another-8351026789", "till-8351026789-shop"):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/costs", headers=headers)
            try:
                with urllib.request.urlopen(request) as answer:
                    statuses.append(answer.status)
            except urllib.error.HTTPError as error:
                statuses.append(error.code)
                error.close()
        assert statuses == [401, 401, 200]
        assert "till-8351026789" not in daemon.text()
    finally:
        daemon.stop()
        daemon.reader.join()
