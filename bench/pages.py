"""Measure the dashboard on a large database: until each page is drawn, and what opening them does to the data plane.

    python bench/pages.py --db FILE [--rate 100] [--seconds 4] [--rounds 8] [--times 5] [--every 1] [--alone]
                          [--write docs/notes/measurements.md]

FILE comes from `bench/seed_records.py`; requests of this run are added to it. Needs Playwright and a Chromium beside what
`bench/run.py` needs. The gateway has core 0, everything else core 1. First each page is opened alone, in a profile that has
seen the dashboard before; the first of all is that of a gateway and a browser which have just been started. Then the data
plane is loaded at a fixed rate, in short turns alone and while one page `--every` so many seconds is asked for: what the
browser asked for, without the browser, which would take the load generator's core. `--alone`: see `bench/run.py`.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from reports import Gateway, percentile
from run import run_alone

BEGIN, END = "<!-- bench/pages.py begins -->", "<!-- bench/pages.py ends -->"
CHROMIUM = "/usr/bin/chromium"
DRAWN = "main:not(:has([aria-busy=true])) h1"
"""Nothing on the page waits for data any more."""
PAGES = (
    "/", "/?project=project-03", "/live", "/turns", "/turns/{turn}", "/logs", "/logs?status=error", "/logs?q=a1", "/latency",
    "/latency?period=month", "/costs", "/costs?period=month&by=project", "/reliability", "/reliability?period=month",
    "/providers", "/models", "/projects", "/keys", "/playground", "/audit", "/settings",
)  # fmt: skip
_FRAME = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
"""Milliseconds since the navigation began, after the next frame has been painted."""


@contextmanager
def browser(folder: Path) -> Any:
    """A page of a Chromium on core 1."""
    script = folder / "chromium"
    script.write_text(f'#!/bin/sh\nexec taskset -c 1 {CHROMIUM} "$@"\n')
    script.chmod(0o755)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(script), args=["--no-sandbox"])
        yield chromium.new_context(viewport={"width": 1280, "height": 860}).new_page()
        chromium.close()


def open_page(page: Page, url: str) -> float:
    """Milliseconds until it is drawn."""
    page.goto(url, wait_until="commit")
    page.locator(DRAWN).first.wait_for()
    if page.get_by_role("alert").count():
        raise SystemExit(f"{url}: {page.get_by_role('alert').first.inner_text()}")
    return float(page.evaluate(_FRAME))


def one_at_a_time(page: Page, base: str, paths: list[str], times: int) -> tuple[dict[str, list[float]], dict[str, list[str]]]:
    """Path → milliseconds of each time; and what its last time asked the gateway for."""
    durations: dict[str, list[float]] = {path: [] for path in paths}
    requested: dict[str, list[str]] = {path: [] for path in paths}
    now = paths[0]
    page.on("request", lambda request: requested[now].append(request.url.removeprefix(base)))
    for _ in range(times):
        for path in paths:
            now = path
            requested[now].clear()
            durations[path].append(open_page(page, base + path))
    for path, took in durations.items():
        print(f"{path}: {[round(one) for one in took]}", file=sys.stderr)
    return durations, requested


class Reader:
    """Asks for what pages ask for, one page `every` so many seconds; a stream lasts until the next page."""

    def __init__(self, gateway: Gateway, pages: Iterator[list[str]], every: float) -> None:
        self.gateway, self.pages, self.every = gateway, pages, every
        self.opened = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.read)

    def read(self) -> None:
        # Beside the load generator on its core: it would measure the delays that we make it.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        connection, began = self.gateway.connection(), time.monotonic()
        while not self.stopping.wait(max(0.0, began + self.opened * self.every - time.monotonic())):
            streams = []
            for target in next(self.pages):
                if target == "/api/live":
                    streams.append(self.gateway.connection())
                    streams[-1].request("GET", target)
                    streams[-1].getresponse().readline()
                else:
                    self.gateway.get(connection, target)
            self.opened += 1
            for stream in streams:
                self.stopping.wait(self.every / 2)
                stream.close()
        connection.close()

    def __enter__(self) -> Reader:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.thread.join()


def beside_the_data_plane(gateway: Gateway, requests: dict[str, list[str]], options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    runs_by_name: dict[str, list[dict[str, Any]]] = {"alone": [], "with pages": []}
    ring = cycle(requests.values())
    for number in range(options.rounds):
        runs_by_name["alone"].append(gateway.run(gateway.gw_port, gateway.gw_pid, "chat", 16, options.rate))
        with Reader(gateway, ring, options.every) as reader:
            began = time.monotonic()
            runs_by_name["with pages"].append(gateway.run(gateway.gw_port, gateway.gw_pid, "chat", 16, options.rate))
            runs_by_name["with pages"][-1]["pages_per_s"] = reader.opened / (time.monotonic() - began)
        print(f"round {number + 1}: {[runs[-1] for runs in runs_by_name.values()]}", file=sys.stderr)
    return runs_by_name


def text(drawn: dict[str, list[float]], beside: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> str:
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines = [
        f"Measured {datetime.date.today()} on {machine}; each page drawn {options.times} times.",
        "",
        "| page | first, ms | p50, ms | slowest, ms |",
        "|---|---|---|---|",
        *(f"| `{path}` | {took[0]:.0f} | {statistics.median(took):.0f} | {max(took):.0f} |" for path, took in drawn.items()),
    ]
    if not options.rounds:
        return "\n".join(lines)
    lines += [
        "",
        f"Chat requests at {options.rate:g} a second (provider answers after 20 ms), medians of {options.rounds} rounds:",
        "",
        "| | p50, µs | p99, µs | pages a second |",
        "|---|---|---|---|",
    ]
    for name, runs in beside.items():
        p50, p99 = (statistics.median(run["whole"][q] for run in runs) for q in ("p50", "p99"))
        opened = statistics.median(run.get("pages_per_s", 0.0) for run in runs)
        lines.append(f"| {name} | {p50:.0f} | {p99:.0f} | {opened:.1f} |")
    calm = {name: percentile([run["whole"]["p99"] for run in runs], 0.25) for name, runs in beside.items()}
    lines += ["", "Lower quartiles of p99: " + ", ".join(f"{name} {value:.0f} µs" for name, value in calm.items()) + "."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=8, help="0: only draw the pages")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.alone:
        run_alone()
    with tempfile.TemporaryDirectory() as name, Gateway(Path(name), options.db, options.seconds) as gateway:
        turn = gateway.paths()["/api/turns/{id}"].rpartition("/")[2]
        paths = [path.format(turn=turn) for path in PAGES]
        with browser(Path(name)) as page:
            drawn, requests = one_at_a_time(page, f"http://127.0.0.1:{gateway.gw_port}", paths, options.times)
        beside = beside_the_data_plane(gateway, requests, options)
    report = text({path.replace(turn, "{id}"): took for path, took in drawn.items()}, beside, options)
    print(report)
    if options.write:
        head, _, rest = options.write.read_text().partition(BEGIN)
        options.write.write_text(f"{head}{BEGIN}\n\n{report}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
