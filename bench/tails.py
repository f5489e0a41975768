"""Measure the slowest requests for a minute at a steady rate, and name what held each of them up.

    python bench/tails.py [--seconds 60] [--rates 160 1000] [--scrape 5 --models 100] [--alone] [--awake]
                          [--write docs/notes/measurements.md]

Chat requests to a provider that answers after 20 ms, at a fixed rate, each timed from the moment at which it was due; then, for a
quarter of the time, the same without the gateway. "Added" is a quantile through the gateway less the median without it. Needs Linux,
gcc and two cores. `--alone` and `--awake` are those of `bench/run.py`. The gateway has core 0, load and provider have core 1. With
`--scrape` a process reads the gateway's metrics every so many seconds, after `--models` models have been used.

A request is slow if more than SLOW_MS are added. Its cause is what covers most of the time between due and done beyond the median:

    a task of the gateway  one step of a task took more than STEP_MS: the name is that of the task. A request that is served meanwhile waits
    collector              Python's garbage collection, by generation
    writing process        the process that commits records and adds up rollups had the core
    machine                nothing of ours had the core: other programs, or the host with its other guests
    load generator         it sent the request late: nothing of the gateway
    behind others          none of these covers half of it: the request waited for many short steps

The steps and collections are noted by an instrument in the gateway's process, which costs a request some 10 µs. Who had the core is
noted by a control process that spins on core 0 with the lowest priority there is (SCHED_IDLE) and notes each time in which it did
not run, with the processor time that the gateway and the writing process took meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import select
import signal
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from run import CACHED, Bench, build, cpu_s, pinned, run_alone, stay_awake, wait_until_it_answers, writer_of

SLOW_MS = 1.0
STEP_MS = 0.5
GAP_MS = 0.3
PROVIDER_MS = 20
CONNECTIONS = 2_000  # at most, opened as they are needed
BEGIN, END = "<!-- bench/tails.py begins -->", "<!-- bench/tails.py ends -->"
BODY = b'{"model":"up/bench","messages":[{"role":"user","content":"Will it stay dry until nine?"}]}'
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
OBSERVED = """
import gc, json, os, signal, sys, time
import trio
now, stalls = time.monotonic, []
began = collecting = 0.0
class Steps(trio.abc.Instrument):
    def before_task_step(self, task):
        global began
        began = now()
    def after_task_step(self, task):
        if (ended := now()) - began > STEP_S:
            stalls.append((began, ended, "task " + task.name.removeprefix("gw.")))
def collected(phase, info):
    global collecting
    if phase == "start":
        collecting = now()
    else:
        stalls.append((collecting, now(), "collector, generation %d" % info["generation"]))
def write(*_):
    with open(os.environ["STALLS"] + ".new", "w") as file:
        json.dump(stalls, file)
    os.replace(os.environ["STALLS"] + ".new", os.environ["STALLS"])
signal.signal(signal.SIGUSR1, write)
gc.callbacks.append(collected)
run = trio.run
trio.run = lambda *args, **options: run(*args, **options, instruments=[Steps()])
from gw.cli.main import main
main()
""".replace("STEP_S", f"{STEP_MS / 1000}")


class Stall(NamedTuple):
    begin: float
    end: float
    cause: str


class Timed(NamedTuple):
    """One request: times in seconds of the monotonic clock."""

    due: float
    sent: float
    done: float


class ObservedBench(Bench):
    """The gateway with the instrument, and the fake provider."""

    def start_all(self) -> None:
        self.start(pinned(1, build(self.folder, "fake_upstream"), str(self.upstream_port)))
        wait_until_it_answers(f"http://127.0.0.1:{self.upstream_port}/")
        self.gw_port, self.gw_pid, _ = self.start_gateway("gw", self.python, CACHED)
        until = time.monotonic() + 10
        while writer_of(self.gw_pid) is None and time.monotonic() < until:  # it starts after the first answer
            time.sleep(0.1)

    def start_gateway(self, name: str, python: str, environment: dict[str, str], program: tuple[str, ...] = ()) -> tuple[int, int, float]:
        observed, self.stalls = self.folder / "observed.py", self.folder / "stalls.json"
        observed.write_text(OBSERVED)
        environment = environment | {"STALLS": str(self.stalls), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return super().start_gateway(name, python, environment, (str(observed),))

    def stalls_of_gateway(self) -> list[Stall]:
        os.kill(self.gw_pid, signal.SIGUSR1)
        until = time.monotonic() + 20
        while not self.stalls.exists():
            if time.monotonic() > until:
                raise SystemExit("the gateway has not written what it observed")
            time.sleep(0.01)
        stalls = [Stall(*fields) for fields in json.loads(self.stalls.read_text())]
        self.stalls.unlink()
        return stalls


def spin(gateway: int, stop: multiprocessing.synchronize.Event, out: multiprocessing.connection.Connection) -> None:
    """Be the control process: send [begin, end, CPU of the gateway, CPU of the writing process] of each gap, in seconds."""
    gc.disable()
    os.sched_setaffinity(0, {0})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    gaps: list[tuple[float, float, float, float]] = []
    writer = writer_of(gateway)
    last, ours, theirs = time.monotonic(), cpu_s(gateway), cpu_s(writer) if writer else 0.0
    while not stop.is_set():
        for _ in range(100):
            now = time.monotonic()
            if now - last > GAP_MS / 1000:
                ours_now, theirs_now = cpu_s(gateway), cpu_s(writer) if writer else 0.0
                gaps.append((last, now, ours_now - ours, theirs_now - theirs))
                ours, theirs, now = ours_now, theirs_now, time.monotonic()
            elif now - last > 1e-5:
                ours, theirs = cpu_s(gateway), cpu_s(writer) if writer else 0.0
            last = now
    out.send(gaps)


def stalls_of_machine(gaps: Iterable[Sequence[float]]) -> list[Stall]:
    """Name the gaps in which the gateway had the core for less than half: its own are named by its instrument."""
    stalls = []
    for begin, end, ours, theirs in gaps:
        others = (end - begin) - ours - theirs
        if theirs >= max(ours, others):
            stalls.append(Stall(begin, end, "writing process"))
        elif others >= ours:
            stalls.append(Stall(begin, end, "machine"))
    return stalls


def cause_of(request: Timed, usual_s: float, stalls: Sequence[Stall]) -> str:
    """Return what covers most of the time that a request took beyond `usual_s`."""
    excess = request.done - request.due - usual_s
    covered: Counter[str] = Counter()
    covered["load generator"] = request.sent - request.due  # type: ignore[assignment]
    for stall in stalls:
        overlap = min(stall.end, request.done) - max(stall.begin, request.sent)
        if overlap > 0:
            covered[stall.cause] += overlap  # type: ignore[assignment]
    cause, most = covered.most_common(1)[0]
    # A collection is a part of some task's step, and is the better name for it.
    for name, seconds in covered.items():
        if name.startswith("collector") and seconds >= excess / 2:
            return name
    return cause if most >= excess / 2 else "behind others"


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def drive(port: int, rate: float, seconds: float) -> list[Timed]:
    """Make requests at a fixed rate, whatever the answers take. The first second is not counted."""
    request = REQUEST % (len(BODY), BODY)
    poll, idle, waiting = select.epoll(), deque[int](), {}
    sockets: dict[int, socket.socket] = {}
    timed: list[Timed] = []
    began = time.monotonic()
    number, count = 0, int((seconds + 1) * rate)
    while number < count or waiting:
        due = began + number / rate
        now = time.monotonic()
        if number < count and now >= due:
            if not idle:
                if len(sockets) == CONNECTIONS:
                    raise SystemExit(f"{CONNECTIONS} requests wait at once: {rate:.0f} a second are too many for this machine")
                caller = socket.create_connection(("127.0.0.1", port))
                caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sockets[caller.fileno()] = caller
                idle.append(caller.fileno())
                poll.register(caller, select.EPOLLIN)
            descriptor = idle.pop()
            sockets[descriptor].sendall(request)
            waiting[descriptor] = (due, now)
            number += 1
            continue
        if now - began > seconds + 30:
            raise SystemExit(f"{len(waiting)} requests were not answered")
        events = poll.poll(0)
        for descriptor, _ in events:
            answer = sockets[descriptor].recv(65_536)
            if not answer and descriptor not in waiting:  # it was idle for too long
                idle.remove(descriptor)
                sockets.pop(descriptor).close()
                continue
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{answer[:300]!r}")
            due, sent = waiting.pop(descriptor)
            idle.append(descriptor)
            if due - began >= 1:
                timed.append(Timed(due, sent, time.monotonic()))
        if not events:
            os.sched_yield()
    for caller in sockets.values():
        caller.close()
    return timed


def observed(bench: ObservedBench, run: Callable[[], list[Timed]]) -> tuple[list[Timed], list[Stall]]:
    stop, (ours, theirs) = multiprocessing.Event(), multiprocessing.Pipe()
    control = multiprocessing.Process(target=spin, args=(bench.gw_pid, stop, theirs), daemon=True)
    control.start()
    try:
        timed = run()
    finally:
        stop.set()
    gaps = ours.recv()
    control.join()
    return timed, [*bench.stalls_of_gateway(), *stalls_of_machine(gaps)]


def use_models(port: int, count: int) -> None:
    """Create models and call each, so that the metrics have its series."""
    for number in range(count):
        name = f"other-{number}"
        fetched(port, "/v1/models", {"modality": "llm", "provider_id": "up", "model_name": name})
        fetched(port, "/v1/chat/completions", json.loads(BODY) | {"model": f"up/{name}"})


@contextmanager
def scraped(port: int, every_s: float) -> Iterator[None]:
    """Have a process read the gateway's metrics within the block; 0: none does."""
    if not every_s:
        yield
        return
    fetched(port, "/v1/metrics")  # the first one loads what writes them
    scraper = multiprocessing.Process(target=scrape, args=(port, every_s), daemon=True)
    scraper.start()
    try:
        yield
    finally:
        scraper.terminate()
        scraper.join()


def scrape(port: int, every_s: float) -> None:
    """Read the gateway's metrics until this process is ended."""
    while True:
        time.sleep(every_s)
        fetched(port, "/v1/metrics")


def fetched(port: int, path: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def report(rate: float, timed: Sequence[Timed], direct: Sequence[Timed], stalls: Sequence[Stall]) -> list[str]:
    """Return the row of a rate for the table, and a line for each cause."""
    took, plain = ([(one.done - one.due) * 1000 for one in side] for side in (timed, direct))
    usual = statistics.median(plain)
    quantiles = [quantile(took, share) - usual for share in (0.5, 0.99, 0.999)]
    row = f"| {rate:.0f} | {len(timed)} | " + " | ".join(f"{ms:.2f}" for ms in (*quantiles, max(took) - usual))
    row += f" | {quantile(plain, 0.999) - usual:.2f}, {max(plain) - usual:.2f} |"
    usual_s = (usual + max(0.0, quantiles[0])) / 1000
    slow = [one for one in timed if one.done - one.due > (usual + SLOW_MS) / 1000]
    causes: dict[str, list[float]] = {}
    for one in slow:
        causes.setdefault(cause_of(one, usual_s, stalls), []).append((one.done - one.due) * 1000 - usual)
    by_count = sorted(causes.items(), key=lambda named: -len(named[1]))
    return [row, *[f"| {rate:.0f} | {name} | {len(added)} | {max(added):.1f} |" for name, added in by_count]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rates", type=float, nargs="+", default=[160, 1000])
    parser.add_argument("--scrape", type=float, default=0, metavar="SECONDS", help="read the gateway's metrics this often")
    parser.add_argument("--models", type=int, default=0, help="models that have been used, each with its own series in the metrics")
    parser.add_argument("--alone", action="store_true", help="let other programs of this machine wait (needs root)")
    parser.add_argument("--awake", action="store_true", help="keep the cores from sleeping (needs root)")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.alone:
        run_alone()
    if options.awake:
        stay_awake()
    gc.disable()
    os.sched_setaffinity(0, {1})
    rows, causes = [], []
    with tempfile.TemporaryDirectory(prefix="gw-tails-") as folder, ObservedBench(Path(folder), sys.executable, 1) as bench:
        use_models(bench.gw_port, options.models)
        bench.setting(f"latency={PROVIDER_MS * 1000}")
        for rate in options.rates:
            with scraped(bench.gw_port, options.scrape):
                timed, stalls = observed(bench, lambda rate=rate: drive(bench.gw_port, rate, options.seconds))
            row, *named = report(rate, timed, drive(bench.upstream_port, rate, options.seconds / 4), stalls)
            rows.append(row)
            causes += named
    head = "| requests a second | requests | p50 added, ms | p99 | p99.9 | max | without gw: p99.9, max |\n|---|---|---|---|---|---|---|"
    slow = f"| requests a second | cause | requests slower by {SLOW_MS:g} ms | slowest, ms |\n|---|---|---|---|"
    text = "\n".join([head, *rows, "", slow, *causes])
    print(text)
    if options.write:
        before, _, rest = options.write.read_text().partition(BEGIN)
        options.write.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
