"""Measure duplex audio sessions: many callers who send a frame every 20 ms and are answered on each, with and without gw.

    python bench/duplex.py [--sessions 200] [--seconds 60] [--workers N] [--alone] [--python PATH]

Needs Linux, gcc and two cores: the gateway has core 0, callers and the vendor have core 1. The vendor speaks Deepgram's live
transcription and so do the callers, so frames pass through. Prints frames sent and answered, how long an answer took, CPU and
memory; "added" is the difference of the same quantile with and without the gateway.

With `--workers 2` or more, the processes of the gateway have no core of their own: they run where the kernel puts them, core 1 included.
Then the CPU of each is printed, and how many sessions each worker has. Nothing is subtracted, so a machine with fewer cores than workers
and callers together shows what it does with all of them at once.

Callers and vendor never sleep, so that no frame pays for waking them. A run of which the host of this machine has taken
more than a percent or two says more about its other guests than about the gateway.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from fleet import helpers, status_of
from run import build, cpu_s, free_port, pinned, rss_mb, run_alone, stolen_s

PATH = "/v1/listen?model=nova-3&encoding=linear16&sample_rate=16000&interim_results=true"


OPENING_S = 3
"""For all sessions to be open, before the first frame."""


class Sides:
    """The callers and the vendor, one process on core 1."""

    def __init__(self, tool: str, vendor: int) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(pinned(1, tool, str(vendor)), stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def begin(self, port: int, sessions: int, seconds: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{port} {PATH} {sessions} {seconds}\n")

    def results(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a session ended early")
        figures: dict[str, float] = json.loads(line)
        return figures

    def run(self, port: int, sessions: int, seconds: int) -> dict[str, float]:
        self.begin(port, sessions, seconds)
        return self.results()


def gateway(folder: Path, python: str, port: int, vendor: int, workers: int) -> subprocess.Popen[bytes]:
    config = folder / "gw.yaml"
    config.write_text(
        f"providers: {{deepgram: {{api_key: k, base_url: 'http://127.0.0.1:{vendor}'}}}}\n"
        "models: {stt: [deepgram/nova-3]}\n"
        f"cost_tracking: {{db_path: {folder}/gw.db}}\n"
        f"serve: {{port: {port}, workers: {workers}}}\n"
    )
    log = (folder / "gw.log").open("wb")
    command = [python, "-m", "gw", "serve", "--config", str(config)]
    started = subprocess.Popen(pinned(0, *command) if workers == 1 else command, stdout=log, stderr=log)
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return started
        except OSError:
            time.sleep(0.1)
    raise SystemExit((folder / "gw.log").read_text())


def processes_of(gateway: int, port: int) -> dict[int, str]:
    """Return the processes of a gateway with their names."""
    workers = {int(str(worker["pid"])): f"worker {worker['worker']}" for worker in status_of(port)}
    return {gateway: "keeper" if workers else "gateway", **workers, **helpers(gateway)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--alone", action="store_true", help="let other programs of this machine wait (needs root)")
    options = parser.parse_args()
    if options.alone:
        run_alone()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tool, vendor, port = build(folder, "duplex"), free_port(), free_port()
        sides = Sides(tool, vendor)
        try:
            direct = sides.run(vendor, options.sessions, min(10, options.seconds))
            started = gateway(folder, options.python, port, vendor, options.workers)
            try:
                sides.run(port, options.sessions, 3)  # warm
                sides.begin(port, options.sessions, options.seconds)
                time.sleep(OPENING_S + options.seconds * 0.1)
                processes = processes_of(started.pid, port)
                sessions = {f"worker {worker['worker']}": worker["in_flight"] for worker in status_of(port)}
                before, began = rss_mb(started.pid), time.monotonic()
                cpu = {pid: cpu_s(pid) for pid in processes}
                stolen = stolen_s(0)
                time.sleep(options.seconds * 0.85)
                passed_s = time.monotonic() - began
                shares = {name: (cpu_s(pid) - cpu[pid]) / passed_s for pid, name in processes.items()}
                taken = (stolen_s(0) - stolen) / passed_s
                after = rss_mb(started.pid)
                through = sides.results()
            finally:
                started.send_signal(signal.SIGTERM)
                started.wait(15)
        finally:
            sides.process.kill()
            sides.process.wait()
    used = sum(share for name, share in shares.items() if name not in ("writer", "reports"))
    lost = through["sent"] - through["answered"]
    print(f"{options.sessions} sessions, {options.seconds} s, {os.uname().machine}")
    print(f"direct    p50 {direct['p50_ms']:.3f} ms  p99 {direct['p99_ms']:.3f} ms")
    print(f"through   p50 {through['p50_ms']:.3f} ms  p99 {through['p99_ms']:.3f} ms  max {through['max_ms']:.1f} ms")
    print(f"added     p50 {through['p50_ms'] - direct['p50_ms']:.3f} ms  p99 {through['p99_ms'] - direct['p99_ms']:.3f} ms")
    print(f"frames    {through['sent']:.0f} sent, {lost:.0f} not answered")
    print(f"host      has taken {100 * taken:.1f} % of that core for others")
    print(f"a frame   and its answer take {used * 1e6 / options.sessions / 50:.1f} µs of CPU")
    if sessions:
        print("sessions  " + ", ".join(f"{name} {count}" for name, count in sessions.items()))
        print("CPU       " + ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items()) + " of a core")
    print(f"gateway   {100 * used:.0f} % of a core; {before:.0f} MB when a tenth of the time was over, {after:.0f} MB near its end")


if __name__ == "__main__":
    main()
