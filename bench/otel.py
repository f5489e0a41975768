"""Cost of exporting by OTLP: processor time of each process for a chat request, with `telemetry.otlp` and without.

    python bench/otel.py [--blocks 4] [--block 400] [--signals traces,metrics] [--mode chat|stream]

Two gateways are sent the same requests in turn, in blocks. Reported is what the kernel has accounted to each of their processes (all
threads, `/proc/PID/task/*/schedstat`), for a request: the median of the blocks of each, and the median of the differences within a
round, so that what changes slowly on the machine is in neither. A block lasts until its spans have arrived, and as long without an export,
since an idle gateway uses processor time, too. Spans share exports as they do by default, so smaller blocks cost more a request. The
collector decodes every export in this program. Needs two cores: the gateways' processes have core 0, all else core 1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from operator import sub
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bytecodes import answers
from run import CACHED, Bench, build, pinned, wait_until_it_answers

from tests.fakes.otlp_receiver import Receiver, otlp_receiver

PROGRAMS = {"commit_program": "commits", "export_program": "exports", "report": "reports"}
SETTLED_S = 8.0  # from the last request of a block to the end of its commit and its export; both gateways idle for as long
ARRIVED_S = 15.0  # until an export that is late has arrived


class OtelBench(Bench):
    """Two gateways and the fake provider; `telemetry` is what the second has beside the first."""

    def __init__(self, folder: Path, receiver: Receiver, signals: str) -> None:
        super().__init__(folder, sys.executable, 1)
        self.telemetry = f'telemetry: {{otlp: {{endpoint: "{receiver.url}", signals: [{signals}]}}}}\n'

    def start_all(self) -> None:
        self.start(pinned(1, build(self.folder, "fake_upstream"), str(self.upstream_port)))
        wait_until_it_answers(f"http://127.0.0.1:{self.upstream_port}/")
        self.gateways: dict[str, tuple[int, int]] = {}
        for name in ("off", "on"):
            port, pid, _ = self.start_gateway(name, sys.executable, CACHED, more=self.telemetry if name == "on" else "")
            self.gateways[name] = port, pid


def children(pid: int) -> Iterator[tuple[str, int]]:
    """Yield what each process of a gateway does, and its id."""
    yield "serves", pid
    started = [thread.read_text().split() for thread in Path(f"/proc/{pid}/task").glob("*/children")]  # trio starts some in another thread
    for child in [child for of_thread in started for child in of_thread]:
        command = Path(f"/proc/{child}/cmdline").read_text()
        yield next((does for name, does in PROGRAMS.items() if name in command), "else"), int(child)


def cpu_ns(pid: int) -> int:
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--block", type=int, default=400, help="requests in a block")
    parser.add_argument("--signals", default="traces,metrics", help="what is exported (the default of gw.yaml)")
    parser.add_argument("--mode", default="chat", choices=("chat", "stream"), help="a whole answer, or one in 16 pieces")
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory() as folder, otlp_receiver() as receiver, OtelBench(Path(folder), receiver, options.signals) as bench:
        bench.setting("poll=0&latency=0&tokens=16&interval=20000")
        requests = {name: answers(port, options.mode) for name, (port, _) in bench.gateways.items()}
        used: dict[str, dict[str, list[float]]] = {name: {} for name in requests}
        expected = 0  # spans
        for block in range(-1, options.blocks):  # one to warm up
            for name in sorted(requests, reverse=bool(block % 2)):
                pid = bench.gateways[name][1]
                before = {does: cpu_ns(process) for does, process in children(pid)}
                for _ in range(options.block):
                    next(requests[name])
                time.sleep(SETTLED_S)
                if name == "on":
                    expected += 2 * options.block
                    receiver.wait_for(lambda least=expected: len(receiver.spans) >= least, ARRIVED_S)
                after = {does: cpu_ns(process) for does, process in children(pid)}
                if block >= 0:
                    for does, total in after.items():
                        used[name].setdefault(does, []).append((total - before.get(does, 0)) / options.block / 1e3)
        for does in sorted({*used["off"], *used["on"]}, reverse=True):
            off, on = used["off"].get(does, [0.0] * options.blocks), used["on"].get(does, [0.0] * options.blocks)
            added = statistics.median(map(sub, on, off))
            print(f"{does:8} off {statistics.median(off):7.1f} us   on {statistics.median(on):7.1f} us a request   {added:+7.1f} us")
        rounds = {name: [sum(each) for each in zip(*by_process.values(), strict=True)] for name, by_process in used.items()}
        shares = [on / off - 1 for off, on in zip(rounds["off"], rounds["on"], strict=True)]
        exports = statistics.median(used["on"].get("exports", [0.0])) / statistics.median(rounds["off"])
        print(f"all processes: {statistics.median(shares):+.1%} a request; the one that exports: {exports:+.1%}")
        print(f"{len(receiver.spans)} spans of {expected} expected")


if __name__ == "__main__":
    main()
