"""Measure the reports on a large database, and what reading them does to the data plane, in one run.

    python bench/reports.py (--db FILE | --database postgresql://…) [--rate 100] [--seconds 4] [--rounds 8] [--pollers 2] [--alone]
        [--write docs/notes/measurements.md]

FILE, or the database, comes from `bench/seed_records.py`; it is used as it is, so requests of this run are added to it. The gateway has
core 0, load, fake provider and readers have core 1 (see `bench/run.py`). First every report is asked for one at a time;
then the data plane is loaded at a fixed rate, in short turns alone and while `pollers` dashboards ask for all reports in a ring
without a pause. `--rounds 0`: only the reports; `--alone`: see `bench/run.py`. `CPU` is the least that one answer took in all processes of
the gateway and, of a server on this machine, in the sessions that it has there: what a report takes while nothing else runs, measured
also where much does.
"""

from __future__ import annotations

import argparse
import datetime
import http.client
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import quote

from run import CACHED, Bench, build, cpu_s, free_port, pinned, run_alone, wait_until_it_answers
from seed_records import models

BEGIN, END = "<!-- bench/reports.py begins -->", "<!-- bench/reports.py ends -->"
PROJECT, MODEL = "project-03", "groq/llm-small"


def reports() -> dict[str, str]:
    """Name → path. `{before}` stands for an id in the middle of the log."""
    filters = {
        "modality": "stt", "project": PROJECT, "model": MODEL, "provider": "groq", "status": "error",
        "error_code": "rate_limited", "session": "{session}", "turn": "{turn}", "q": "a1",
    }  # fmt: skip
    paths = {f"/v1/costs, {p}": f"/v1/costs?period={p}" for p in ("today", "week", "month", "all")}
    paths["/v1/costs, all, one project"] = f"/v1/costs?period=all&project={PROJECT}"
    paths |= {f"/v1/latency, {p}": f"/v1/latency?period={p}" for p in ("today", "week", "month")}
    paths["/v1/latency, month, one project"] = f"/v1/latency?period=month&project={PROJECT}"
    paths["/api/overview"] = "/api/overview"
    paths["/api/overview, one project"] = f"/api/overview?project={PROJECT}"
    paths |= {
        f"/api/series, {metric}, {period} by {by}": f"/api/series?metric={metric}&period={period}&by={by}"
        for metric, period, by in (
            ("cost", "today", "project"), ("cost", "month", "model"), ("ttfb", "today", "provider"),
            ("latency", "month", "none"), ("ttfb", "month", "model"), ("ttfb", "week", "project"),
        )
    }  # fmt: skip
    paths |= {f"/v1/costs, {p}": f"/v1/costs?period={p}" for p in ("15m", "1h", "24h", "7d", "30d")}
    paths |= {f"/api/overview, {p}": f"/api/overview?period={p}" for p in ("1h", "24h", "30d")}
    paths |= {f"/v1/first-audio, {p}": f"/v1/first-audio?period={p}" for p in ("24h", "7d", "30d")}
    paths |= {f"/api/pages/latency, {p}": f"/api/pages/latency?period={p}" for p in ("24h", "30d")}
    paths |= {
        "/api/series, cost, 24h by model": "/api/series?metric=cost&period=24h&by=model",
        "/api/series, ttfb, 1h, each 10 s": "/api/series?metric=ttfb&period=1h",
        "/api/series, ttfb, 24h, each minute": "/api/series?metric=ttfb&period=24h",
    }
    paths["/api/histogram, month"] = f"/api/histogram?period=month&model={quote(MODEL, safe='')}"
    paths["/api/forecast"] = "/api/forecast"
    paths |= {f"/api/reliability, {p}": f"/api/reliability?period={p}" for p in ("today", "month")}
    paths["/api/turns"] = "/api/turns"
    paths["/api/turns/{id}"] = "/api/turns/{turn}"
    paths["/api/turns, from the middle"] = "/api/turns?before={before_turn}"
    paths |= {f"/api/turns, {trouble}": f"/api/turns?trouble={trouble}" for trouble in ("any", "error")}
    paths["/api/turns, 15m, slowest first"] = f"/api/turns?period=15m&project={PROJECT}&sort=-duration_ms"
    paths["/v1/sessions"] = "/v1/sessions"
    paths["/v1/sessions/{id}"] = "/v1/sessions/{session}"
    paths["/v1/sessions, from the middle"] = "/v1/sessions?before={before_session}"
    paths["/v1/sessions, one project, fallback"] = f"/v1/sessions?project={PROJECT}&trouble=fallback"
    paths["/v1/sessions, 15m, most expensive first"] = f"/v1/sessions?period=15m&project={PROJECT}&sort=-cost_usd"
    paths["/v1/sessions, beginning of an id"] = "/v1/sessions?q={session}"
    paths["/v1/requests/{id}"] = "/v1/requests/{before}"
    paths["/v1/logs"] = "/v1/logs"
    paths["/v1/logs, 1000"] = "/v1/logs?limit=1000"
    paths["/v1/logs, 1000, from the middle"] = "/v1/logs?limit=1000&before={before}"
    paths |= {f"/v1/logs, 1000, one {name}": f"/v1/logs?limit=1000&{name}={value}" for name, value in filters.items()}
    paths["/v1/logs, end of an id"] = "/v1/logs?q={ending}"
    paths["/v1/logs, three rare filters"] = f"/v1/logs?status=cancelled&project={PROJECT}&model={MODEL}"
    paths["/v1/logs, 24h, errors of a provider"] = "/v1/logs?period=24h&status=error&provider=groq"
    paths["/v1/logs, 1h, slowest of a project first"] = f"/v1/logs?period=1h&project={PROJECT}&sort=-ttfb_ms"
    paths["/v1/logs, 24h, largest cost of a model first"] = f"/v1/logs?period=24h&project={PROJECT}&model={MODEL}&sort=-cost_usd"
    paths |= {f"/api/pages/costs, {p}": f"/api/pages/costs?period={p}" for p in ("today", "month", "30d")}
    paths["/api/pages/costs, month, by project"] = "/api/pages/costs?period=month&by=project"
    paths |= {f"/api/pages/{name}": f"/api/pages/{name}" for name in ("projects", "keys", "models", "providers")}
    paths |= {path: path for path in ("/v1/projects", "/v1/keys", "/v1/audit-log", "/v1/status", "/v1/compare")}
    paths["/v1/metrics"] = "/v1/metrics"
    paths["/v1/projects/{id}"] = f"/v1/projects/{PROJECT}"
    return paths


class Gateway(Bench):
    """The gateway of `bench/run.py` on an existing database, and a fake provider; no nginx."""

    def __init__(self, folder: Path, db: str, seconds: float) -> None:
        """`db`: the setting that names the database."""
        super().__init__(folder, sys.executable, seconds)
        self.db = db

    def start_all(self) -> None:
        self.start(pinned(1, build(self.folder, "fake_upstream"), str(self.upstream_port)))
        wait_until_it_answers(f"http://127.0.0.1:{self.upstream_port}/")
        self.setting("latency=20000&tokens=16&interval=0")
        config = self.folder / "gw.yaml"
        config.write_text(self.config())
        self.gw_port = free_port()
        env = CACHED | {"GW_CONFIG": str(config), "GW_LOG_LEVEL": "warning"}
        process = self.start(pinned(0, self.python, "-m", "gw", "serve", "--port", str(self.gw_port)), env=env)
        self.gw_pid = process.pid
        wait_until_it_answers(f"http://127.0.0.1:{self.gw_port}/health")

    def config(self) -> str:
        named: dict[str, list[str]] = {
            modality: [f"{m.id}: {{}}" for m in listed] for modality, listed in models().items()
        }
        named["llm"].append("up/bench: {price: {unit: 1M_tokens, input: 0.5, output: 1.5}}")
        providers = {m.id.partition("/")[0] for listed in models().values() for m in listed}
        local = f'base_url: "http://127.0.0.1:{self.upstream_port}/v1"'
        lines = [f"  {name}: {{api_key: sk-bench-0000000000000000}}" for name in sorted(providers)]
        lines.append(f"  up: {{type: openai, api_key: sk-bench-0000000000000000, {local}}}")
        entries = [f"  {modality}: {{{', '.join(listed)}}}" for modality, listed in named.items()]
        projects = [f"  project-{n:02}: {{daily_budget: 5}}" for n in range(20)]
        return "\n".join(
            ["providers:", *lines, "models:", *entries, "projects:", *projects, f"cost_tracking: {{{self.db}}}"]
        )

    def get(self, connection: http.client.HTTPConnection, path: str) -> bytes:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {body[:300]!r}")
        return body

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.gw_port)

    def paths(self) -> dict[str, str]:
        """The reports, with ids that exist."""
        connection = self.connection()
        records = json.loads(self.get(connection, "/v1/logs?limit=1000&project=project-00"))
        turn = next(record for record in records if record["turn_id"])
        ids = {"before": records[-1]["id"], "ending": records[-1]["id"][-8:], "session": turn["session_id"], "turn": turn["turn_id"]}
        for name, path in (("turn", "/api/turns"), ("session", "/v1/sessions")):
            ids[f"before_{name}"] = json.loads(self.get(connection, path))[-1]["first_request_id"]
        connection.close()
        named_paths = reports().items()
        return {name: path.format(**ids) for name, path in named_paths}


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class Processors:
    """Processor time of the gateway's processes, and of the sessions that it has at a PostgreSQL server on this machine."""

    def __init__(self, gateway: Gateway, database: str | None) -> None:
        self.gateway, self.sessions = gateway, None
        if database is not None:
            import psycopg

            self.sessions = psycopg.connect(database, autocommit=True)

    def used_ms(self) -> dict[int, float]:
        """Process → processor time since it began."""
        pids = [self.gateway.gw_pid]
        for pid in pids:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += map(int, task.read_text().split())
        if self.sessions is not None:
            query = "select pid from pg_stat_activity where application_name = 'gw'"
            pids += [pid for (pid,) in self.sessions.execute(query)]
        return {pid: spent for pid in pids if (spent := spent_ms(pid)) is not None}


def spent_ms(pid: int) -> float | None:
    """Return the processor time of a process; None if it is not on this machine, or has ended."""
    try:
        return cpu_s(pid) * 1e3
    except OSError:
        return None


def one_at_a_time(gateway: Gateway, times: int, processors: Processors) -> dict[str, dict]:
    """Report → first, p50 and p95 in ms, its CPU and its size. The first is that of a gateway that has just been started."""
    connection, measured = gateway.connection(), {}
    for name, path in gateway.paths().items():
        took, spent, size = [], [], 0
        for _ in range(times):
            before = processors.used_ms()
            began = time.perf_counter()
            size = len(gateway.get(connection, path))
            took.append((time.perf_counter() - began) * 1e3)
            spent.append(sum(after - before.get(pid, 0.0) for pid, after in processors.used_ms().items()))
        measured[name] = {
            "first": took[0], "p50": statistics.median(took), "p95": percentile(took, 0.95), "cpu": min(spent), "kb": size / 1024,
            "took": took,
        }  # fmt: skip
        shown = {key: round(value, 1) for key, value in measured[name].items() if key != "took"}
        print(f"{name}: {shown}", file=sys.stderr)
    connection.close()
    return measured


class Pollers:
    """Dashboards that ask for all reports in a ring, each on a connection of its own."""

    def __init__(self, gateway: Gateway, count: int) -> None:
        self.gateway, self.paths = gateway, list(gateway.paths().values())
        self.stopping = threading.Event()
        self.requests = 0
        self.threads = [threading.Thread(target=self.poll, args=(n,)) for n in range(count)]

    def poll(self, number: int) -> None:
        # Beside the load generator on its core: it would measure the delays that we make it.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        connection = self.gateway.connection()
        at = number * len(self.paths) // max(1, len(self.threads))
        while not self.stopping.is_set():
            self.gateway.get(connection, self.paths[at % len(self.paths)])
            self.requests += 1
            at += 1
        connection.close()

    def __enter__(self) -> Pollers:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def beside_the_data_plane(gateway: Gateway, rate: float, rounds: int, pollers: int) -> dict[str, list[dict]]:
    results: dict[str, list[dict]] = {"alone": [], "with reports": []}
    for number in range(rounds):
        results["alone"].append(gateway.run(gateway.gw_port, gateway.gw_pid, "chat", 16, rate))
        with Pollers(gateway, pollers) as polling:
            began = time.monotonic()
            results["with reports"].append(gateway.run(gateway.gw_port, gateway.gw_pid, "chat", 16, rate))
            results["with reports"][-1]["reports_per_s"] = polling.requests / (time.monotonic() - began)
        print(f"round {number + 1}: {[runs[-1] for runs in results.values()]}", file=sys.stderr)
    return results


def text(single: dict[str, dict], beside: dict[str, list[dict]], options: argparse.Namespace) -> str:
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines = [
        f"Measured {datetime.date.today()} on {machine}; {options.times} times each, over one kept connection.",
        "",
        f"All reports together: p95 {percentile(sorted(p for f in single.values() for p in f['took']), 0.95):.1f} ms, slowest report's p95 "
        f"{max(f['p95'] for f in single.values()):.1f} ms.",
        "",
        "| report | size, kB | first, ms | p50, ms | p95, ms | CPU, ms |",
        "|---|---|---|---|---|---|",
        *(
            f"| `{name}` | {f['kb']:.0f} | {f['first']:.1f} | {f['p50']:.1f} | {f['p95']:.1f} | {f['cpu']:.1f} |"
            for name, f in single.items()
        ),
    ]
    if not options.rounds:
        return "\n".join(lines)
    lines += [
        "",
        f"Chat requests at {options.rate:g} a second (provider answers after 20 ms), medians of {options.rounds} rounds:",
        "",
        "| | p50, µs | p99, µs | reports a second |",
        "|---|---|---|---|",
    ]
    for name, runs in beside.items():
        p50, p99 = (statistics.median(run["whole"][q] for run in runs) for q in ("p50", "p99"))
        per_second = statistics.median(run.get("reports_per_s", 0.0) for run in runs)
        lines.append(f"| {name} | {p50:.0f} | {p99:.0f} | {per_second:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--db", type=Path)
    where.add_argument("--database", help="address of a PostgreSQL database")
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--pollers", type=int, default=2)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.alone:
        run_alone()
    db = f"database: '{options.database}'" if options.database else f"db_path: {options.db}"
    with tempfile.TemporaryDirectory() as folder, Gateway(Path(folder), db, options.seconds) as gateway:
        single = one_at_a_time(gateway, options.times, Processors(gateway, options.database))
        beside = beside_the_data_plane(gateway, options.rate, options.rounds, options.pollers)
    report = text(single, beside, options)
    print(report)
    if options.write:
        head, _, rest = options.write.read_text().partition(BEGIN)
        options.write.write_text(f"{head}{BEGIN}\n\n{report}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
