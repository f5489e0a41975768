"""Measure whether the CPU of a request grows with what the gateway holds: models, projects, keys, records, idle connections.

    python bench/growth.py [--pairs 5] [--rounds 30] [--requests 400] [--rows 1000000] [--write FILE] [case ...]

Needs Linux and gcc. Two gateways run at a time, one with little and one with much of something. Both get the same chat requests in turn, in
short rounds, so that what else runs on the machine hits both, and the CPU of each round (kernel accounting, all threads and child
processes, so the record writer is in it) is compared with that of the other's round beside it. The growth is the median of these ratios.
Two equal gateways differ by some percent as well, by where their memory happens to lie: so several pairs run one after the other, and the
median of their growths counts. Target: at most 5 % more. For streams and sockets it also prints what these cost while nobody makes a
request. The cases:

    nothing    as the other: how exact the comparison is
    models     1,000 models with prices           projects   1,000 projects with budgets
    keys       1,000 keys of callers              records    --rows requests in the database (bench/seed_records.py)
    streams    1,000 streams after a first token  sockets    1,000 live transcriptions before the first audio
    answers    1,000 answers of the last two minutes that nobody has spoken; the request is speech there, which is compared with them
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import trio
from idle_memory import REQUESTS, Vendor, open_all
from run import CACHED, build, cpu_s, free_port, wait_until_it_answers
from seed_records import seed

MANY = 1_000
CONNECTIONS = 8
MOST = 0.05
CASES = ("nothing", "models", "projects", "keys", "records", "streams", "sockets", "answers")


def key(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()[:40]


KEY = key(0)
BEGIN, END = "<!-- bench/growth.py begins -->", "<!-- bench/growth.py ends -->"


def post(path: bytes, body: bytes) -> bytes:
    return (
        b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %b\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (path, KEY.encode(), len(body), body)
    )


CHAT = post(
    b"/v1/chat/completions", b'{"model":"up/bench","messages":[{"role":"user","content":"Will it stay dry until nine?"}]}'
)
SPEECH = post(
    b"/v1/audio/speech", b'{"model":"up/bench","voice":"alloy","response_format":"pcm","input":"No answer has these words in it."}'
)
OPENED_S, IDLE_S = 2.0, 10.0
"""After the idle connections were opened, and for which their own cost is measured, in seconds."""
UNSPOKEN = 250
"""Answers before each round of speech: after 256 without any speech in between, a key is taken to have no voice app."""


class IdleConnections:
    """A vendor that stays silent and the callers that wait for it, in a thread of their own."""

    def __init__(self) -> None:
        self.port = 0
        self._ready = threading.Event()
        self._stop = trio.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)
        self._open: trio.MemorySendChannel[tuple[str, int, threading.Event]]

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def open(self, kind: str, port: int) -> None:
        """Open MANY connections through the gateway at `port`; they stay open until `close`."""
        opened = threading.Event()
        trio.from_thread.run_sync(self._open.send_nowait, (kind, port, opened), trio_token=self._token)
        opened.wait()

    def close(self) -> None:
        trio.from_thread.run_sync(self._stop.set, trio_token=self._token)
        self._thread.join()

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._open, orders = trio.open_memory_channel[tuple[str, int, threading.Event]](4)
        held: list[trio.SocketStream] = []
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(trio.serve_tcp, Vendor().serve, 0)
            self.port = listeners[0].socket.getsockname()[1]
            nursery.start_soon(self._open_when_ordered, orders, held)
            self._ready.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    async def _open_when_ordered(
        self, orders: trio.MemoryReceiveChannel[tuple[str, int, threading.Event]], held: list[trio.SocketStream]
    ) -> None:
        async for kind, port, opened in orders:
            request = REQUESTS[kind].replace(b"Host: 127.0.0.1\r\n", b"Host: 127.0.0.1\r\nAuthorization: Bearer %b\r\n" % KEY.encode())
            held += await open_all(kind, port, MANY, request)
            opened.set()


class Gateway:
    """A gateway in a process of its own. `case`: of which it has many; `records`: a database to begin with."""

    def __init__(self, folder: Path, upstream: int, idle: int, case: str, records: Path | None) -> None:
        folder.mkdir()
        many = {name: MANY if name == case else 1 for name in CASES}
        price = "{price: {unit: 1M_tokens, input: 0.5, output: 1.5}}"
        models = "".join(f"    up/other-{n}: {price}\n" for n in range(many["models"] - 1))
        projects = "".join(f"  other-{n}: {{daily_budget: 100, budget_action: block}}\n" for n in range(many["projects"] - 1))
        keys = "".join(f"    - {{key: {key(n)}, project: default}}\n" for n in range(1, many["keys"]))
        self.port = 0  # chosen by the gateway: one that is chosen here may be another program's when it starts
        (folder / "gw.yaml").write_text(f"""
providers:
  up: {{type: openai, api_key: k, base_url: "http://127.0.0.1:{upstream}/v1"}}
  openai: {{api_key: k, base_url: "http://127.0.0.1:{idle}/v1"}}
  deepgram: {{api_key: k, base_url: "http://127.0.0.1:{idle}"}}
models:
  llm:
    up/bench: {price}
    openai/gpt-4o-mini: {price}
{models}  stt: [deepgram/nova-3]
  tts: {{up/bench: {{price: {{unit: 1M_characters, usd: 15}}}}}}
projects:
  default: {{daily_budget: 100000, budget_action: block}}
{projects}auth:
  admin_token: {key(-1)}
  keys:
    - {{key: {KEY}, project: default}}
{keys}cost_tracking: {{db_path: {folder}/gw.db}}
routing: {{idle_s: 600}}
serve: {{port: 0, max_in_flight: {3 * MANY}}}
""")
        if records is not None:
            shutil.copyfile(records, folder / "gw.db")
        self.log = folder / "gw.log"
        command = [sys.executable, "-m", "gw", "serve", "--config", str(folder / "gw.yaml")]
        self.process = subprocess.Popen(command, stdout=self.log.open("wb"), stderr=subprocess.STDOUT, env=CACHED)
        self.callers: list[socket.socket] = []

    def wait_ready(self) -> None:
        until = time.monotonic() + 60
        while (address := re.search(r"API +http://127\.0\.0\.1:(\d+)/v1", self.log.read_text())) is None:
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(self.log.read_text())
            time.sleep(0.05)
        self.port = int(address[1])

    def connect(self) -> None:
        self.callers = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(CONNECTIONS)]

    def cpu_s(self) -> float:
        """Return the time of this process and its children."""
        pids, total = [self.process.pid], 0.0
        while pids:
            pid = pids.pop()
            total += cpu_s(pid)
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += map(int, children.read_text().split())
        return total

    def exchange(self, requests: int, request: bytes, end: bytes) -> None:
        """Make requests over all connections at once. `end`: of an answer."""
        for _ in range(requests // CONNECTIONS):
            for caller in self.callers:
                caller.sendall(request)
            for caller in self.callers:
                answer = caller.recv(65_536)
                if not answer.startswith(b"HTTP/1.1 200"):
                    raise SystemExit(f"{answer[:400]!r}")
                while not answer.endswith(end):
                    answer += caller.recv(65_536)

    def round(self, requests: int, request: bytes, end: bytes) -> float:
        """Return the CPU of a request, in µs."""
        before = self.cpu_s()
        self.exchange(requests, request, end)
        time.sleep(0.06)  # the records of the round are written, too
        return (self.cpu_s() - before) / (requests // CONNECTIONS * CONNECTIONS) * 1e6

    def idle_load(self) -> float:
        """Return the part of a core that it takes while nobody makes a request."""
        before, began = self.cpu_s(), time.monotonic()
        time.sleep(IDLE_S)
        return (self.cpu_s() - before) / (time.monotonic() - began)

    def close(self) -> None:
        for caller in self.callers:
            caller.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()


def measured_pair(case: str, options: argparse.Namespace, records: Path | None) -> tuple[list[float], list[float]]:
    """Return the CPU of a request in µs, in each round of a gateway with little and of one with much."""
    with tempfile.TemporaryDirectory(prefix="gw-growth-") as name, ExitStack() as stack:
        folder, upstream = Path(name), free_port()
        vendor = subprocess.Popen([build(folder, "fake_upstream"), str(upstream)], stdout=subprocess.DEVNULL)
        stack.callback(vendor.wait)
        stack.callback(vendor.kill)
        wait_until_it_answers(f"http://127.0.0.1:{upstream}/")
        urllib.request.urlopen(f"http://127.0.0.1:{upstream}/set?latency=0&tokens=2&interval=0").read()
        idle = IdleConnections()
        idle.start()
        stack.callback(idle.close)
        sides = [
            Gateway(folder / label, upstream, idle.port, holds, database)
            for label, holds, database in (("little", "nothing", None), ("much", case, records))
        ]
        for side in sides:
            stack.callback(side.close)
        for side in sides:
            side.wait_ready()
        if case in ("streams", "sockets"):
            idle.open({"streams": "stream", "sockets": "session"}[case], sides[1].port)
            time.sleep(OPENED_S)
            loads = " and ".join(f"{100 * side.idle_load():.1f}" for side in sides)
            print(f"{case} alone: {loads} % of a core with little and much", flush=True)
        for side in sides:
            side.connect()
        costs: tuple[list[float], list[float]] = ([], [])
        measured, end = (SPEECH, b"0\r\n\r\n") if case == "answers" else (CHAT, b"}")
        for number in range(options.rounds + 5):
            for at in random.sample((0, 1), 2):
                if case == "answers" and at:
                    sides[at].exchange(UNSPOKEN, CHAT, b"}")
                    time.sleep(0.3)  # until their records are written
                cost = sides[at].round(options.requests, measured, end)
                if number >= 5:  # the others warm up
                    costs[at].append(cost)
    return costs


def measure(case: str, options: argparse.Namespace) -> tuple[float, float, list[float]]:
    """Return the CPU of a request in µs, with little and with much, and the growth in each pair of gateways, sorted."""
    costs: tuple[list[float], list[float]] = ([], [])
    growths = []
    with tempfile.TemporaryDirectory(prefix="gw-records-") as name:
        records = Path(name) / "gw.db" if case == "records" else None
        if records is not None:
            seed(records, options.rows, end=time.time(), progress=True)
        for _ in range(options.pairs):
            pair = measured_pair(case, options, records)
            growths.append(statistics.median(much / little for little, much in zip(*pair, strict=True)) - 1)
            for all_rounds, rounds in zip(costs, pair, strict=True):
                all_rounds += rounds
    return statistics.median(costs[0]), statistics.median(costs[1]), sorted(growths)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help="one of " + ", ".join(CASES))
    parser.add_argument("--pairs", type=int, default=5, help="of gateways, one after the other")
    parser.add_argument("--rounds", type=int, default=30, help="with each pair")
    parser.add_argument("--requests", type=int, default=400, help="in a round")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    columns = f"| {MANY} / {options.rows} of | µs with little | µs with much | growth | of each pair | target |"
    lines = [columns, "|---|---|---|---|---|---|"]
    met = True
    for case in options.cases or CASES:
        little, much, growths = measure(case, options)
        growth = statistics.median(growths)
        met = met and growth <= MOST
        pairs = ", ".join(f"{100 * pair:+.1f}" for pair in growths)
        lines.append(f"| {case} | {little:.0f} | {much:.0f} | {growth:+.1%} | {pairs} | ≤ {MOST:+.0%} |")
        print(lines[-1], flush=True)
    load = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    how = f"{options.pairs} pairs, {options.rounds} rounds of {options.requests} requests, {load}"
    text = f"Measured {datetime.date.today()}, {how}.\n\n" + "\n".join(lines)
    print(f"\n{text}")
    if options.write:
        head, _, rest = options.write.read_text().partition(BEGIN)
        options.write.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
