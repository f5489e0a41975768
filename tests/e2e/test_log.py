"""The daemon while its log cannot be written: it serves, reloads and stops as ever, and counts the lines."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from tests.fakes.ports import free_port

pytestmark = pytest.mark.process

TEXT = """
providers: {sim: {latency_ms: 0, token_ms: 0}}
models: {llm: {sim/echo: {price: {unit: 1M_tokens, input: 1000, output: 1000}}}}
projects: {default: {daily_budget: 0.000001}}
"""
CALLS = 60
"""Each logs that the budget was exceeded, some 170 bytes: twice what the pipe holds."""


def ask(url: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def wait_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None
        try:
            ask(f"{url}/ready")
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def broken_stream(kind: str):
    """Return the process's end, and what must be kept open."""
    if kind == "full disk":
        return os.open("/dev/full", os.O_WRONLY), ()
    reading, writing = os.pipe()
    if kind == "closed pipe":
        os.close(reading)
        return writing, ()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    return writing, (reading,)


def lines_dropped(url: str) -> float:
    metrics = ask(f"{url}/v1/metrics").decode()
    [dropped] = [line for line in metrics.splitlines() if line.startswith("gw_log_lines_dropped_total ")]
    return float(dropped.split()[1])


@pytest.mark.parametrize("kind", ["pipe that nobody reads", "closed pipe", "full disk"])
def test_the_daemon_goes_on(kind, tmp_path):
    port = free_port()
    (tmp_path / "gw.yaml").write_text(TEXT)
    env = {**os.environ, "GW_CONFIG": str(tmp_path / "gw.yaml"), "GW_DB_PATH": str(tmp_path / "gw.db")}
    stream, kept = broken_stream(kind)
    command = [sys.executable, "-m", "gw", "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=env, stdout=stream, stderr=stream)
    os.close(stream)
    url = f"http://127.0.0.1:{port}"
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}
    try:
        wait_ready(url, process)
        for n in range(CALLS):
            assert b"hi" in ask(f"{url}/v1/chat/completions", body), n
            if n == 10:
                process.send_signal(signal.SIGHUP)
        if kind != "pipe that nobody reads":  # there the queue is far from full
            assert json.loads(ask(f"{url}/health"))["problems"] == ["log_not_written"]
            deadline = time.monotonic() + 60
            while lines_dropped(url) < CALLS:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0  # a log that takes no lines does not hold it
    finally:
        process.kill()
        process.wait()
        for descriptor in kept:
            os.close(descriptor)
