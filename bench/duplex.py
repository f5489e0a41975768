"""Measure duplex audio sessions: many callers who send a frame every 20 ms and are answered on each, with and without gw.

    python bench/duplex.py [--sessions 200] [--seconds 60] [--alone] [--python PATH]

Needs Linux, gcc and two cores: the gateway has core 0, callers and the vendor have core 1. The vendor speaks Deepgram's live
transcription and so do the callers, so frames pass through. Prints frames sent and answered, how long an answer took, CPU and
memory; "added" is the difference of the same quantile with and without the gateway.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from run import build, cpu_s, free_port, pinned, rss_mb, run_alone, stolen_s

PATH = "/v1/listen?model=nova-3&encoding=linear16&sample_rate=16000&interim_results=true"


OPENING_S = 3
"""For all sessions to be open, before the first frame."""


def wait_until_it_listens(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise SystemExit("the fake vendor does not listen")


def load(tool: str, port: int, sessions: int, seconds: int) -> dict[str, float]:
    return results(begin_load(tool, port, sessions, seconds))


def begin_load(tool: str, port: int, sessions: int, seconds: int) -> subprocess.Popen[str]:
    command = pinned(1, tool, "load", str(port), PATH, str(sessions), str(seconds))
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def results(running: subprocess.Popen[str]) -> dict[str, float]:
    out, _ = running.communicate()
    if running.returncode:
        raise SystemExit("a session ended early")
    found: dict[str, float] = json.loads(out)
    return found


def gateway(folder: Path, python: str, port: int, vendor: int) -> subprocess.Popen[bytes]:
    config = folder / "gw.yaml"
    config.write_text(
        f"providers: {{deepgram: {{api_key: k, base_url: 'http://127.0.0.1:{vendor}'}}}}\n"
        "models: {stt: [deepgram/nova-3]}\n"
        f"cost_tracking: {{db_path: {folder}/gw.db}}\n"
        f"serve: {{port: {port}}}\n"
    )
    log = (folder / "gw.log").open("wb")
    started = subprocess.Popen(pinned(0, python, "-m", "gw", "serve", "--config", str(config)), stdout=log, stderr=log)
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return started
        except OSError:
            time.sleep(0.1)
    raise SystemExit((folder / "gw.log").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--alone", action="store_true", help="let other programs of this machine wait (needs root)")
    told = parser.parse_args()
    if told.alone:
        run_alone()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tool, vendor, port = build(folder, "duplex"), free_port(), free_port()
        serving = subprocess.Popen(pinned(1, tool, "serve", str(vendor)))
        try:
            wait_until_it_listens(vendor)
            direct = load(tool, vendor, told.sessions, min(10, told.seconds))
            started = gateway(folder, told.python, port, vendor)
            try:
                load(tool, port, told.sessions, 3)  # warm
                loading = begin_load(tool, port, told.sessions, told.seconds)
                time.sleep(OPENING_S + told.seconds * 0.1)
                before, cpu, began = rss_mb(started.pid), cpu_s(started.pid), time.monotonic()
                stolen = stolen_s(0)
                time.sleep(told.seconds * 0.85)
                used = (cpu_s(started.pid) - cpu) / (time.monotonic() - began)
                taken = (stolen_s(0) - stolen) / (time.monotonic() - began)
                after = rss_mb(started.pid)
                through = results(loading)
            finally:
                started.send_signal(signal.SIGTERM)
                started.wait(15)
        finally:
            serving.kill()
            serving.wait()
    lost = through["sent"] - through["answered"]
    print(f"{told.sessions} sessions, {told.seconds} s, {os.uname().machine}")
    print(f"direct    p50 {direct['p50_ms']:.3f} ms  p99 {direct['p99_ms']:.3f} ms")
    print(f"through   p50 {through['p50_ms']:.3f} ms  p99 {through['p99_ms']:.3f} ms  max {through['max_ms']:.1f} ms")
    print(f"added     p50 {through['p50_ms'] - direct['p50_ms']:.3f} ms  p99 {through['p99_ms'] - direct['p99_ms']:.3f} ms")
    print(f"frames    {through['sent']:.0f} sent, {lost:.0f} not answered")
    print(f"host      has taken {100 * taken:.1f} % of that core for others")
    print(f"gateway   {100 * used:.0f} % of a core; {before:.0f} MB when a tenth of the time was over, {after:.0f} MB near its end")


if __name__ == "__main__":
    main()
