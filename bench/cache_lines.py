"""Count the machine instructions and the cache lines of a request, in a simulated processor (valgrind's callgrind).

    python bench/cache_lines.py [--mode chat|stream|speech] [--connections 32] [--seconds 20] [--level-2 KB] [--compiled PYTHON]

Starts a gateway in valgrind for each edition, puts it under load in a closed loop, and prints for each request, and for each library:

    instructions   that are executed
    level 1        lines of 64 bytes of which the first cache, 32 kB of instructions and 32 of data, did not have what was needed
    level 2        lines that the second had not either, of `--level-2` kB, eight lines to a set; another guest may have taken them
                   from the third

Times would say something else on each machine, and something else each minute where guests beside a virtual machine take the caches;
these counts differ by a tenth at most. `--compiled`: a Python with a compiled gw in it. Needs valgrind and gcc. The gateway takes 50
times as long as it does without, so what comes by the time and not by the request has a larger part than it has in use.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from run import CACHED, Bench, build, wait_until_it_answers

MODES = ("chat", "stream", "speech")
SIZES_KB = (128, 256, 512, 1024, 2048)  # callgrind takes powers of two
LEVEL_1 = ("I1mr", "D1mr", "D1mw")
LEVEL_2 = ("ILmr", "DLmr", "DLmw")
SMALLEST_PART = 0.02  # of all lines, below which a library is not named

Libraries = dict[str, Counter[str]]
"""Counts of each library, by callgrind's names of events."""


class SimulatedBench(Bench):
    """Gateways in valgrind, and the fake provider."""

    def start_all(self) -> None:
        self.start([build(self.folder, "fake_upstream"), str(self.upstream_port)])
        wait_until_it_answers(f"http://127.0.0.1:{self.upstream_port}/")
        self.setting("latency=0&tokens=16&interval=1000")

    def counted(self, name: str, python: str, environment: dict[str, str], options: argparse.Namespace) -> tuple[float, Libraries]:
        """Return the number of requests, and what was counted for them."""
        out = self.folder / f"{name}.callgrind"
        program = self.folder / f"{name}.sh"
        cache = f"{options.level_2 * 1024},8,64"
        program.write_text(
            f"#!/bin/sh\nexec valgrind -q --tool=callgrind --cache-sim=yes --I1=32768,8,64 --D1=32768,8,64 --LL={cache}"
            f' --instr-atstart=no --callgrind-out-file={out} {python} "$@"\n'
        )
        program.chmod(0o755)
        self.port, self.pid, _ = self.start_gateway(name, str(program), environment)
        self._load(options, 3.0)  # imports what is imported when it is first used
        self._control("--instr=on")
        requests = self._load(options, options.seconds)
        self._control("--instr=off")
        self._control("--dump")
        if not requests:
            raise SystemExit(f"no request was answered within {options.seconds:g} s: give --seconds more, as callgrind is slow")
        return requests, by_library(out.with_name(out.name + ".1"))

    def _load(self, options: argparse.Namespace, seconds: float) -> float:
        """Return the requests of `seconds` and of the second before, which the load itself does not count."""
        command = [self.load, str(self.port), options.mode, "up/bench", str(options.connections), str(seconds)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        return float(json.loads(done.stdout)["per_s"] * (seconds + 1))

    def _control(self, what: str) -> None:
        subprocess.run(["callgrind_control", what, str(self.pid)], check=True, capture_output=True)


def by_library(profile: Path) -> Libraries:
    """Add up callgrind's file by library. Lines of costs follow "fn="; one after "calls=" repeats what the called function has."""
    libraries: Libraries = {}
    names: dict[str, str] = {}
    events: list[str] = []
    library, is_of_call = "", False
    for line in profile.read_text().splitlines():
        if line.startswith("events:"):
            events = line.split()[1:]
        elif line.startswith("ob="):
            number, _, name = line.removeprefix("ob=").partition(" ")  # the name is given once
            library = names.setdefault(number, Path(name).name)
        elif line.startswith("cob="):
            number, _, name = line.removeprefix("cob=").partition(" ")
            names.setdefault(number, Path(name).name)
        elif line.startswith("calls="):
            is_of_call = True
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            if not is_of_call:
                libraries.setdefault(library, Counter()).update(dict(zip(events, map(int, line.split()[1:]), strict=False)))
            is_of_call = False
    return libraries


def rows(edition: str, requests: float, libraries: Libraries) -> list[str]:
    """Return the rows of a table: all libraries, then each of the larger ones."""
    total = sum(libraries.values(), Counter())
    lines = sum(total[event] for event in LEVEL_2)
    parts = sorted(libraries.items(), key=lambda part: -sum(part[1][event] for event in LEVEL_2))
    named = [(name, counts) for name, counts in parts if sum(counts[event] for event in LEVEL_2) > SMALLEST_PART * lines]
    return [
        f"| {edition} | {name} | {counts['Ir'] / requests:,.0f} | {sum(counts[event] for event in LEVEL_1) / requests:,.0f} |"
        f" {sum(counts[event] for event in LEVEL_2) / requests:,.0f} |"
        for name, counts in [("all", total), *named]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=MODES, default="chat")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--level-2", type=int, choices=SIZES_KB, default=512, help="kB")
    parser.add_argument("--python", default=sys.executable, help="with which gw runs")
    parser.add_argument("--compiled", default="", metavar="PYTHON")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed (Debian package: valgrind)")
    editions = {"python": (options.python, CACHED)}
    if options.compiled:
        installed = {name: value for name, value in CACHED.items() if name != "PYTHONPATH"} | {"PYTHONSAFEPATH": "1"}
        editions["compiled"] = (options.compiled, installed)
    print(f"{options.mode}, {options.connections} connections, level 2 of {options.level_2} kB; for each request\n", flush=True)
    print("| edition | library | instructions | level 1 | level 2 |\n|---|---|---|---|---|", flush=True)
    for edition, (python, environment) in editions.items():
        with tempfile.TemporaryDirectory() as folder, SimulatedBench(Path(folder), python, options.seconds) as bench:
            print("\n".join(rows(edition, *bench.counted(edition, python, environment, options))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
