"""Measure duplex audio sessions: many callers who send a frame every 20 ms and are answered on each, with and without gw.

    python bench/duplex.py [--sessions 200] [--seconds 60] [--workers N] [--tick MS] [--together] [--alone] [--python PATH]

Needs Linux, gcc and two cores: the gateway has core 0, callers and the vendor have core 1. The vendor speaks Deepgram's live
transcription and so do the callers, so frames pass through. With `--workers 2` or more nothing has a core of its own: the gateway's
processes, callers and vendor run where the kernel puts them.

Prints frames sent, answered, lost and out of order; the time of a frame from when it was due to be sent until its answer was read,
directly and through the gateway; how much later than due frames were sent; and the CPU of each process. Nothing is subtracted: what makes
callers or vendor late, this program included, is part of "added". "gateway" is the least that was spent outside of callers and
vendor: the time from when a frame was sent, less all that it may have waited until they looked at their sockets.

Callers and vendor look at their sockets once in `--tick` milliseconds and sleep in between, so half of a tick to two of them are in each
time. `--tick 0`: they never sleep, and take a core. Each caller gets a final transcript once a second, and callers begin in the course of
a second; with `--together` they begin within 20 ms, so that the finals of all are due in the same 20 ms, again and again. With `--alone`
(needs root) other programs of this machine wait, and callers and vendor, who would be on other machines, come first. A run of which the
host of this machine has taken more than a percent or two says more about its other guests than about the gateway.
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
from typing import TypedDict

from fleet import helpers, status_of
from run import build, cpu_s, free_port, pinned, rss_mb, run_alone, stolen_s

PATH = "/v1/listen?model=nova-3&encoding=linear16&sample_rate=16000&interim_results=true"


OPENING_S = 3
"""For all sessions to be open, before the first frame."""


class Quantiles(TypedDict):
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class Results(TypedDict):
    """What `duplex.c` prints."""

    sent: int
    answered: int
    disordered: int
    took: Quantiles
    late: Quantiles
    passed: Quantiles


class Sides:
    """The callers and the vendor, one process. `core`: it has this one."""

    def __init__(self, tool: str, vendor: int, tick_ms: float, core: int | None, *, together: bool, first: bool) -> None:
        """`first`: they run whenever they are ready, before the gateway's processes."""
        pipe, command = subprocess.PIPE, [*(["chrt", "--fifo", "10"] if first else []), tool, str(vendor)]
        self.tick_us, self.together = round(tick_ms * 1000), int(together)
        self.process = subprocess.Popen(
            command if core is None else pinned(core, *command), stdin=pipe, stdout=pipe, text=True, bufsize=1
        )

    def begin(self, port: int, sessions: int, seconds: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{port} {PATH} {sessions} {seconds} {self.tick_us} {self.together}\n")

    def results(self) -> Results:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("callers and vendor have ended; the reason, a session that ended early perhaps, is above")
        figures: Results = json.loads(line)
        return figures

    def run(self, port: int, sessions: int, seconds: int) -> Results:
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
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
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
    parser.add_argument("--tick", type=float, default=1.0, metavar="MS", help="how often callers and vendor look at their sockets")
    parser.add_argument("--together", action="store_true", help="all callers begin within 20 ms")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--alone", action="store_true", help="callers and vendor first, other programs of this machine last (needs root)")
    options = parser.parse_args()
    if options.alone:
        run_alone()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tool, vendor, port = build(folder, "duplex"), free_port(), free_port()
        core = 1 if options.workers == 1 else None
        sides = Sides(tool, vendor, options.tick, core, together=options.together, first=options.alone)
        try:
            direct = sides.run(vendor, options.sessions, min(10, options.seconds))
            started = gateway(folder, options.python, port, vendor, options.workers)
            try:
                sides.run(port, options.sessions, 3)  # warm
                sides.begin(port, options.sessions, options.seconds)
                time.sleep(OPENING_S + options.seconds * 0.1)
                processes = {sides.process.pid: "callers and vendor", **processes_of(started.pid, port)}
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
                started.wait(60)
        finally:
            sides.process.kill()
            sides.process.wait()
    used = sum(share for name, share in shares.items() if name not in ("writer", "reports", "callers and vendor"))
    print(f"{options.sessions} sessions, {options.seconds} s, {os.uname().machine}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for label, times in (("direct", direct["took"]), ("added", through["took"]), ("late", through["late"]), ("gateway", through["passed"])):
        beyond = f"p99.9 {times['p999_ms']:.3f} ms  max {times['max_ms']:.1f} ms"
        print(f"{label:<9} p50 {times['p50_ms']:.3f} ms  p99 {times['p99_ms']:.3f} ms  {beyond}")
    print(
        f"frames    {through['sent']} sent, {through['answered']} answered, {through['sent'] - through['answered']} lost, "
        f"{through['disordered']} out of order"
    )
    print(f"host      has taken {100 * taken:.1f} % of core 0 for others")
    print(f"a frame   and its answer take {used * 1e6 / options.sessions / 50:.1f} µs of CPU")
    if sessions:
        print("sessions  " + ", ".join(f"{name} {count}" for name, count in sessions.items()))
    print("CPU       " + ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items()) + " of a core")
    print(f"gateway   {100 * used:.0f} % of a core; {before:.0f} MB when a tenth of the time was over, {after:.0f} MB near its end")


if __name__ == "__main__":
    main()
