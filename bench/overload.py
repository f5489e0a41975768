"""What is left of the service when callers ask for several times as much as it can do.

    python bench/overload.py [--seconds 20] [--times 4] [--awake] [--write docs/notes/measurements.md]

Needs Linux, gcc and two cores; the gateway has core 0, load and fake provider have core 1. Ten projects with a key each. The capacity
is `serve.max_in_flight` ÷ the provider's latency (100 ÷ 0.4 s, which is far below what a core can answer). Measured are: the
capacity, all ten together at `--times` the capacity, the first seconds after that, and one project at ten times its share beside
nine at theirs. Prints a table; the exit code is 1 if a target is missed. Run it with `nice -n -5` on a machine that does something
else as well.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from run import CACHED, build, cpu_s, free_port, pinned, stay_awake, stolen_s, wait_until_it_answers

PROJECTS = 10
PLACES = 100
LATENCY_S = 0.4
CAPACITY = PLACES / LATENCY_S
BEGIN, END = "<!-- bench/overload.py begins -->", "<!-- bench/overload.py ends -->"


def key(project: int) -> str:
    return f"bench-key-of-project-{project}"


def config(folder: Path, upstream: int) -> str:
    keys = ", ".join(f"{{key: {key(n)}, project: p{n}}}" for n in range(PROJECTS))
    return f"""
providers: {{up: {{type: openai, api_key: sk-bench-0000000000000000, base_url: "http://127.0.0.1:{upstream}/v1"}}}}
models: {{llm: {{up/bench: {{price: {{unit: 1M_tokens, input: 0.5, output: 1.5}}}}}}}}
projects: {{{", ".join(f"p{n}: {{daily_budget: 100000, budget_action: block}}" for n in range(PROJECTS))}}}
auth: {{admin_token: bench-5b1f9c04e7a2d836, keys: [{keys}]}}
cost_tracking: {{db_path: {folder}/overload.db}}
serve: {{max_in_flight: {PLACES}}}
"""


def waited_s(pid: int) -> float:
    """Return how long the process's main thread was ready to run while something else had the core."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


class Bench:
    def __init__(self, folder: Path) -> None:
        self.load, upstream = build(folder, "load"), build(folder, "fake_upstream")
        self.upstream_port, self.port = free_port(), free_port()
        self.processes = [subprocess.Popen(pinned(1, upstream, str(self.upstream_port)))]
        wait_until_it_answers(f"http://127.0.0.1:{self.upstream_port}/")
        urllib.request.urlopen(f"http://127.0.0.1:{self.upstream_port}/set?latency={LATENCY_S * 1e6:.0f}").read()
        (folder / "gw.yaml").write_text(config(folder, self.upstream_port))
        env = CACHED | {"GW_CONFIG": str(folder / "gw.yaml"), "GW_LOG_LEVEL": "warning", "PYTHONPATH": str(Path(__file__).parents[1])}
        command = pinned(0, sys.executable, "-m", "gw", "serve", "--port", str(self.port))
        self.processes.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL))
        wait_until_it_answers(f"http://127.0.0.1:{self.port}/health")

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait(60)

    def run(self, rates: list[float], seconds: float) -> tuple[list[dict], dict]:
        """Let each project ask at its rate, for a second that is not counted and `seconds` that are; return its results, and /health's."""
        loads = []
        for n, rate in enumerate(rates):
            connections = max(20, int(rate * 1.5))  # as many as wait at most: nobody waits longer than a second
            command = (self.load, str(self.port), "chat", "up/bench", str(connections), str(seconds), str(rate), "0", key(n))
            loads.append(subprocess.Popen(pinned(1, *command), stdout=subprocess.PIPE))
        health = pinned(1, self.load, str(self.port), "health", "-", "4", str(seconds), "50", "0")
        answers = [json.loads(process.communicate()[0]) for process in (*loads, subprocess.Popen(health, stdout=subprocess.PIPE))]
        return answers[:-1], answers[-1]


def total(results: list[dict], name: str) -> int:
    return sum(result[name] for result in results)


def worst(results: list[dict], name: str, q: str = "p99") -> float:
    """Return the worst project's quantile, in ms; 0 where there is nothing."""
    return max([result[name][q] / 1e3 for result in results if name in result], default=0.0)


def measure(bench: Bench, seconds: float, times: float) -> list[tuple[str, str, str, bool]]:
    """Return what was measured: figure, value, target, whether it is met."""
    share, pid = CAPACITY / PROJECTS, bench.processes[1].pid
    rows: list[tuple[str, str, str, bool]] = []
    before = cpu_s(pid)
    full, _ = bench.run([1.1 * share] * PROJECTS, seconds)
    cpu_full = (cpu_s(pid) - before) / (seconds + 1)
    capacity = total(full, "good") / seconds
    rows.append(("capacity, requests a second", f"{capacity:.0f}", f"{CAPACITY:.0f} in theory", True))
    before, waited = cpu_s(pid), waited_s(pid)
    results, health = bench.run([times * share] * PROJECTS, seconds)
    cpu, waited = (cpu_s(pid) - before) / (seconds + 1), waited_s(pid) - waited
    goodput, refused, failed = total(results, "good") / seconds, total(results, "refused"), total(results, "bad")
    name = f"{times:g} times the capacity"
    rows += [
        (f"{name}: goodput", f"{goodput / capacity:.1%} of the capacity", "≥ 95 %", goodput >= 0.95 * capacity),
        (f"{name}: refused", f"{refused} ({refused / seconds:.0f} a second)", "", True),
        (f"{name}: failed otherwise", f"{failed}", "0", not failed),
        (f"{name}: refusals p99", f"{worst(results, 'shed'):.1f} ms", "≤ 20 ms", worst(results, "shed") <= 20),
        (f"{name}: /health p99", f"{health['whole']['p99'] / 1e3:.1f} ms", "≤ 20 ms", health["whole"]["p99"] <= 20_000),
        (f"{name}: of the core", f"{cpu:.0%}, of it {cpu_full:.0%} for what is answered", "", True),
        (f"{name}: other programs had the core", f"{waited:.1f} s of {seconds + 1:g}, while gw was ready", "", True),
        ("a refusal takes", f"{(cpu - cpu_full) * 1e6 * seconds / max(1, refused - total(full, 'refused')):.0f} µs of the core", "", True),
    ]
    after, _ = bench.run([0.7 * share] * PROJECTS, 5)
    slow = worst(after, "whole") - LATENCY_S * 1e3
    calm = not total(after, "refused") and not total(after, "bad") and slow <= 50
    text = f"{total(after, 'refused')} refused, p99 {slow:.0f} ms above the provider's"
    rows.append(("a second after it, at 70 % of the capacity", text, "0, ≤ 50 ms", calm))
    one, _ = bench.run([10 * share] + [share] * (PROJECTS - 1), seconds)
    greedy, others = one[0]["good"] / seconds, one[1:]
    served = total(others, "good") / (total(others, "good") + total(others, "refused") + total(others, "bad"))
    goodput = total(one, "good") / seconds
    rows += [
        ("one project at 10 shares: it gets", f"{greedy / share:.2f} of its share", "≤ 1.05", greedy <= 1.05 * share),
        ("one project at 10 shares: the nine at one get", f"{served:.2%} of what they ask for", "≥ 99 %", served >= 0.99),
        ("one project at 10 shares: goodput", f"{goodput / capacity:.1%} of the capacity", "≥ 95 %", goodput >= 0.95 * capacity),
    ]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--times", type=float, default=4)
    parser.add_argument("--awake", action="store_true", help="keep the cores from sleeping (needs root)")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.awake:
        stay_awake()
    stolen = stolen_s(0)
    with tempfile.TemporaryDirectory(prefix="gw-overload-") as folder:
        bench = Bench(Path(folder))
        try:
            rows = measure(bench, options.seconds, options.times)
        finally:
            bench.stop()
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    taken = f"the host took {stolen_s(0) - stolen:.1f} s of the core"
    awake = ", cores awake" if options.awake else ""
    text = f"Measured {datetime.date.today()} on {machine}; {options.seconds:g} s each{awake}; {taken}.\n\n"
    text += "| figure | value | target |\n|---|---|---|\n"
    text += "\n".join(f"| {figure} | {value}{'' if met else ' (missed)'} | {target} |" for figure, value, target, met in rows)
    print(text)
    if options.write:
        head, _, rest = options.write.read_text().partition(BEGIN)
        options.write.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
