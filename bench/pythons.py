"""Compare what the gateway costs with several Pythons, or with several versions of it, beside nginx, in one run.

    python bench/pythons.py [--rounds 3] [--seconds 2] [--alone] [--awake] ENVIRONMENT ...

ENVIRONMENT is the Python of an environment that has gw. Variables may go first, separated by commas:
`PYTHON_JIT=1,/opt/python3.15/bin/python`. Needs Linux, gcc, nginx and two cores, as `bench/run.py` does. All sides take their turn in
each round, and the medians of the rounds are printed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from run import CACHED, Bench, build, median, pinned, run_alone, stay_awake, wait_until_it_answers

SCENARIOS = (
    ("chat, 32 connections: CPU a request, µs", "latency=0&tokens=32&interval=0", "chat", 32, ("cpu_us",)),
    ("chat, 1 connection: p50, µs", "latency=0", "chat", 1, ("whole", "p50")),
    ("chat, 1 connection, a provider that takes 20 ms: p50, µs", "latency=20000", "chat", 1, ("whole", "p50")),
    ("first token p50, µs", "latency=2000&tokens=32&interval=2000", "stream", 1, ("first", "p50")),
    ("first audio p50, µs", "latency=2000&tokens=32&interval=2000", "speech", 1, ("first", "p50")),
    ("32 streams, a token every 1 ms: age of a token p50, µs", "latency=0&tokens=32&interval=1000", "stream", 32, ("relay", "p50")),
    ("stream, 32 connections: CPU a request, µs", "latency=0&tokens=32&interval=1000", "stream", 32, ("cpu_us",)),
)


class Comparison(Bench):
    """Runs one gateway for each environment."""

    def __init__(self, folder: Path, environments: list[str], seconds: float) -> None:
        super().__init__(folder, "", seconds)
        self.environments = environments
        self.all: dict[str, tuple[int, int | None]] = {}

    def start_all(self) -> None:
        self.start(pinned(1, build(self.folder, "fake_upstream"), str(self.upstream_port)))
        wait_until_it_answers(f"http://127.0.0.1:{self.upstream_port}/")
        self.all = {"direct": (self.upstream_port, None), "nginx": self.start_nginx()}
        installed = {name: value for name, value in CACHED.items() if name != "PYTHONPATH"} | {"PYTHONSAFEPATH": "1"}
        for number, environment in enumerate(self.environments):
            *variables, python = environment.split(",")
            values = dict(variable.split("=", 1) for variable in variables)
            port, pid, _ = self.start_gateway(f"gw{number}", python, installed | values)
            self.all[environment] = (port, pid)

    def sides(self) -> dict[str, tuple[int, int | None]]:
        return self.all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="+", metavar="ENVIRONMENT")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--alone", action="store_true", help="give all that takes part the highest priority (root)")
    parser.add_argument("--awake", action="store_true", help="keep the cores from sleeping (root)")
    options = parser.parse_args()
    if options.alone:
        run_alone()
    if options.awake:
        stay_awake()
    with tempfile.TemporaryDirectory() as folder, Comparison(Path(folder), options.environments, options.seconds) as bench:
        print(f"| figure | {' | '.join(bench.sides())} |\n|---{'|---' * len(bench.sides())}|")
        for name, setting, mode, connections, path in SCENARIOS:
            bench.setting(setting)
            results: dict[str, list[dict]] = {}
            for _ in range(options.rounds):
                for side, (port, pid) in bench.sides().items():
                    results.setdefault(side, []).append(bench.run(port, pid, mode, connections))
            print(f"| {name} | {' | '.join(f'{median(runs, *path):.1f}' for runs in results.values())} |", flush=True)


if __name__ == "__main__":
    main()
