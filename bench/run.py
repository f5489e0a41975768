"""Measure what the gateway costs, beside nginx and beside no proxy at all, in one run.

    python bench/run.py [--rounds 3] [--seconds 4] [--alone] [--awake] [--write docs/notes/measurements.md] [--python PATH]
                        [--compiled PATH]

Needs Linux, gcc, nginx and two cores: whatever is measured has core 0, load and fake provider have core 1. Sides are
interleaved and the medians of the rounds are printed, so that a noisy minute hits all of them. `--alone` (root) gives all that
takes part the highest priority: whatever else runs on this machine waits meanwhile. And no connection over loopback is paced by a timer
of the kernel, as with BBR, which would cost all sides alike. `--awake` (root) keeps the cores from sleeping, as on a machine set up for
low latency; without it, waking them is part of what a request costs. `--compiled` is the Python of an environment that has the compiled
wheel: that gateway is measured as well, in the same rounds.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import datetime
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
CACHED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment, with compiled modules kept as they are on any installed system."""
CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
BEGIN, END = "<!-- bench/run.py begins -->", "<!-- bench/run.py ends -->"


def run_alone() -> None:
    """Run this process, and those it starts from now on, before all others of the machine, alike for every side.

    Until it ends, new connections get Reno where BBR is the default: that paces each connection by a timer of the kernel.
    """
    os.nice(-20)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # else what it has changed would stay so
    if (default := CONGESTION_CONTROL.read_text().strip()) == "bbr":
        CONGESTION_CONTROL.write_text("reno")
        atexit.register(CONGESTION_CONTROL.write_text, default)


def stay_awake() -> None:
    """Ask the kernel for cores that wake at once, until this process ends: the request is as long as the open file."""
    latency = os.open("/dev/cpu_dma_latency", os.O_WRONLY)
    os.write(latency, (0).to_bytes(4, sys.byteorder))  # microseconds that waking may take


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def pinned(core: int, *command: str) -> list[str]:
    return ["taskset", "-c", str(core), *command]


def build(folder: Path, name: str) -> str:
    out = folder / name
    subprocess.run(["gcc", "-O2", "-D_GNU_SOURCE", "-o", str(out), str(HERE / f"{name}.c"), "-lpthread"], check=True)
    return str(out)


def stolen_s(core: int) -> float:
    """What the host of this virtual machine has given of a core to others, since it was started. A run in which this grows
    by more than a percent says more about them."""
    fields = next(line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{core} "))
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, threads that have ended included."""
    return time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid(3) makes it


def writer_of(gateway: int) -> int | None:
    """Return the process that writes the records of a gateway, None before its first record, or if it writes them itself."""
    for path in Path(f"/proc/{gateway}/task").glob("*/children"):
        for child in path.read_text().split():
            with contextlib.suppress(OSError):
                if b"gw.store.commit_program" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
    return None


def rss_mb(pid: int) -> float:
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def wait_until_it_answers(url: str, data: bytes | None = None, process: subprocess.Popen | None = None) -> None:
    """Return at the first answer, whatever it is. Raise OSError after a minute without one, or when `process`, if given, has ended."""
    deadline = time.monotonic() + 60
    while True:
        try:
            request = urllib.request.Request(url, data, {"content-type": "application/json"})
            urllib.request.urlopen(request).read()
            return
        except urllib.error.HTTPError:
            return  # it answers, that is all we wait for
        except OSError:
            if time.monotonic() > deadline or (process is not None and process.poll() is not None):
                raise
            time.sleep(0.002)


class Bench:
    def __init__(self, folder: Path, python: str, seconds: float, compiled: str = "") -> None:
        self.folder, self.python, self.seconds, self.compiled = folder, python, seconds, compiled
        self.load = build(folder, "load")
        self.cache_walk = build(folder, "cache_walk")
        self.processes: list[subprocess.Popen] = []
        self.upstream_port = free_port()

    def __enter__(self) -> Bench:
        try:
            self.start_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_all(self) -> None:
        folder = self.folder
        self.start(pinned(1, build(folder, "fake_upstream"), str(self.upstream_port)))
        wait_until_it_answers(f"http://127.0.0.1:{self.upstream_port}/")
        self.nginx_port, self.nginx_pid = self.start_nginx()
        self.gw_port, self.gw_pid, self.first_answer_s = self.start_gateway("gw", self.python, CACHED)
        if self.compiled:
            installed = {name: value for name, value in CACHED.items() if name != "PYTHONPATH"} | {"PYTHONSAFEPATH": "1"}
            self.compiled_port, self.compiled_pid, _ = self.start_gateway("compiled", self.compiled, installed)
            health = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{self.compiled_port}/health").read())
            if health["edition"] != "compiled":
                raise SystemExit(f"{self.compiled} has no compiled gw, but the {health['edition']} edition")
        self.idle_mb = rss_mb(self.gw_pid)
        time.sleep(2.0)  # the process that writes starts after the first answer
        self.writer_mb = rss_mb(writer) if (writer := writer_of(self.gw_pid)) else None

    def start(self, command: list[str], **kw) -> subprocess.Popen:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)
        self.processes.append(process)
        return process

    def start_nginx(self) -> tuple[int, int]:
        port = free_port()
        config = self.folder / "nginx.conf"
        config.write_text(f"""
daemon off; worker_processes 1; pid {self.folder}/nginx.pid; error_log /dev/null;
events {{ worker_connections 4096; }}
http {{ access_log off; client_body_temp_path {self.folder}/body; proxy_temp_path {self.folder}/proxy;
  fastcgi_temp_path {self.folder}/f; uwsgi_temp_path {self.folder}/u; scgi_temp_path {self.folder}/s; keepalive_requests 100000000;
  client_max_body_size 0; proxy_request_buffering off;
  upstream provider {{ server 127.0.0.1:{self.upstream_port}; keepalive 512; keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port};
    location / {{ proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }} }} }}
""")
        master = self.start(
            pinned(0, shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(config), "-p", str(self.folder))
        )
        wait_until_it_answers(f"http://127.0.0.1:{port}/")
        worker = int(Path(f"/proc/{master.pid}/task/{master.pid}/children").read_text().split()[0])
        return port, worker

    def start_gateway(
        self, name: str, python: str, environment: dict[str, str], program: tuple[str, ...] = ("-m", "gw"), more: str = ""
    ) -> tuple[int, int, float]:
        port = free_port()
        config = self.folder / f"{name}.yaml"
        config.write_text(f"""
providers: {{up: {{type: openai, api_key: sk-bench-0000000000000000, base_url: "http://127.0.0.1:{self.upstream_port}/v1"}}}}
models:
  llm: {{up/bench: {{price: {{unit: 1M_tokens, input: 0.5, output: 1.5}}}}}}
  stt: {{up/bench-stt: {{price: {{unit: minute, usd: 0.006}}}}}}
  tts: {{up/bench: {{price: {{unit: 1M_characters, usd: 15}}}}}}
rate_limiting: {{up: {{requests_per_minute: 100000000}}}}
projects: {{default: {{daily_budget: 100000, budget_action: block}}}}
cost_tracking: {{db_path: {self.folder}/{name}.db}}
{more}""")
        env = environment | {"GW_CONFIG": str(config), "GW_LOG_LEVEL": "warning"}
        subprocess.run([python, "-c", "import gw.serve"], env=env, check=True)  # compiles, as an installation does
        began = time.monotonic()
        process = self.start(pinned(0, python, *program, "serve", "--port", str(port)), env=env)
        wait_until_it_answers(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            b'{"model":"up/bench","messages":[{"role":"user","content":"hi"}]}',
        )
        return port, process.pid, time.monotonic() - began

    def setting(self, query: str) -> None:
        urllib.request.urlopen(f"http://127.0.0.1:{self.upstream_port}/set?poll=1&{query}").read()

    def run(self, port: int, pid: int | None, mode: str, connections: int, rate: float = 0) -> dict:
        command = pinned(1, self.load, str(port), mode, "up/bench", str(connections), str(self.seconds), str(rate), "1")
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            time.sleep(1.0)  # the load's own warm-up
            writer = writer_of(pid) if pid else None
            before, writer_before = (cpu_s(p) if p else 0.0 for p in (pid, writer))
            time.sleep(self.seconds)
            spent, writer_spent = (cpu_s(p) if p else 0.0 for p in (pid, writer))
            out = json.loads(process.communicate()[0])
        if out["bad"] or out["refused"]:
            raise SystemExit(f"failed requests in {command}: {out}")
        out["cpu_us"] = (spent - before) * 1e6 / max(1, out["good"])
        out["writer_us"] = (writer_spent - writer_before) * 1e6 / max(1, out["good"])
        return out

    def walk_through_cache(self) -> dict:
        """Return how long a walk through 512 kB of memory takes on core 0, at once and after 66 ms, as `bench/cache_walk.c` prints it."""
        return json.loads(subprocess.run([self.cache_walk, "0"], check=True, stdout=subprocess.PIPE).stdout)

    def sides(self) -> dict[str, tuple[int, int | None]]:
        sides: dict[str, tuple[int, int | None]] = {
            "direct": (self.upstream_port, None),
            "nginx": (self.nginx_port, self.nginx_pid),
            "gw": (self.gw_port, self.gw_pid),
        }
        if self.compiled:
            sides["compiled"] = (self.compiled_port, self.compiled_pid)
        return sides

    def close(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


CACHE_WALK = "the machine itself"
"""Scenario in which nothing of the gateway takes part: what a core's caches keep between two requests of one connection."""


def measure(bench: Bench, rounds: int) -> dict[str, dict[str, list[dict]]]:
    """scenario → side → one result a round."""
    scenarios = {
        "chat, 32 connections": ("latency=0&tokens=32&interval=0", "chat", 32, 0),
        "chat, 1 connection": ("latency=0", "chat", 1, 0),
        "stream, 1 connection": ("latency=2000&tokens=32&interval=2000", "stream", 1, 0),
        "stream, 100 a second": ("latency=2000&tokens=32&interval=2000", "stream", 64, 100),
        "stream, 32 connections": ("latency=0&tokens=32&interval=1000", "stream", 32, 0),
        "speech, 1 connection": ("latency=2000&tokens=32&interval=2000", "speech", 1, 0),
        "chat, 256 in flight at 160/s": ("latency=1600000", "chat", 320, 160),
    }
    results: dict[str, dict[str, list[dict]]] = {}
    for name, (setting, mode, connections, rate) in scenarios.items():
        bench.setting(setting)
        for number in range(rounds):
            if name == "stream, 1 connection":
                results.setdefault(CACHE_WALK, {}).setdefault("machine", []).append(bench.walk_through_cache())
            for side, (port, pid) in bench.sides().items():
                print(f"{name}: round {number + 1}, {side}", file=sys.stderr)
                results.setdefault(name, {}).setdefault(side, []).append(bench.run(port, pid, mode, connections, rate))
    return results


def median(runs: list[dict], *path: str) -> float:
    values = []
    for run in runs:
        value: object = run
        for key in path:
            value = value[key]  # type: ignore[index]
        values.append(value)
    return statistics.median(values)


def table(bench: Bench, results: dict, help_s: float) -> str:
    lines = ["| scenario | figure | direct | nginx | gw | gw adds |", "|---|---|---|---|---|---|"]

    def row(scenario: str, label: str, *path: str) -> None:
        sides = {side: median(runs, *path) for side, runs in results[scenario].items()}
        added = sides["gw"] - sides["direct"]
        lines.append(
            f"| {scenario} | {label} | {sides['direct']:.0f} | {sides['nginx']:.0f} | {sides['gw']:.0f} | {added:+.0f} |"
        )
        if "compiled" in sides:
            lines.append(f"| {scenario}, compiled | {label} | | | {sides['compiled']:.0f} | {sides['compiled'] - sides['direct']:+.0f} |")

    chat32 = results["chat, 32 connections"]
    nginx_cpu, gw_cpu = median(chat32["nginx"], "cpu_us"), median(chat32["gw"], "cpu_us")
    lines.append(
        f"| chat, 32 connections | CPU a request, µs | | {nginx_cpu:.1f} | {gw_cpu:.0f} | {gw_cpu / nginx_cpu:.1f} × nginx |"
    )
    lines.append(
        f"| chat, 32 connections | CPU a request of the process that writes records, µs | | | {median(chat32['gw'], 'writer_us'):.0f} | |"
    )
    rps = {side: median(runs, "per_s") for side, runs in chat32.items()}
    lines.append(
        f"| chat, 32 connections | requests a second | {rps['direct']:.0f} | {rps['nginx']:.0f} | {rps['gw']:.0f} | |"
    )
    for q in ("p50", "p99"):
        row("chat, 1 connection", f"{q}, µs", "whole", q)
        row("stream, 1 connection", f"first token {q}, µs", "first", q)
        row("stream, 100 a second", f"first token {q}, µs", "first", q)
        row("stream, 1 connection", f"age of a token on arrival {q}, µs", "relay", q)
        row("speech, 1 connection", f"first audio {q}, µs", "first", q)
        row("chat, 256 in flight at 160/s", f"{q}, µs", "whole", q)
    nginx_stream_cpu = median(results["stream, 32 connections"]["nginx"], "cpu_us")
    stream_cpu = median(results["stream, 32 connections"]["gw"], "cpu_us")
    lines.append(
        f"| stream of 32 tokens, 32 connections | CPU a request, µs | | {nginx_stream_cpu:.0f} | {stream_cpu:.0f} | |"
    )
    writer_cpu = median(results["stream, 32 connections"]["gw"], "writer_us")
    lines.append(
        f"| stream of 32 tokens, 32 connections | CPU a request of the process that writes records, µs | | | {writer_cpu:.0f} | |"
    )
    if bench.compiled:
        for scenario in ("chat, 32 connections", "stream, 32 connections"):
            cpu, writer = (median(results[scenario]["compiled"], figure) for figure in ("cpu_us", "writer_us"))
            lines.append(f"| {scenario}, compiled | CPU a request, and of the process that writes, µs | | | {cpu:.0f} + {writer:.0f} | |")
    lines.append(f"| start | process start to first answer, s | | | {bench.first_answer_s:.2f} | |")
    lines.append(f"| idle | memory after the first answer, MB | | | {bench.idle_mb:.0f} | |")
    if bench.writer_mb:
        lines.append(f"| idle | memory of the process that writes records, MB | | | {bench.writer_mb:.0f} | |")
    at_once, later = (median(results[CACHE_WALK]["machine"], when, "p50") for when in ("at_once", "later"))
    lines.append(f"| {CACHE_WALK} | walk through 512 kB of memory, at once and 66 ms later, µs | {at_once:.0f}, {later:.0f} | | | |")
    lines.append(f"| `gw --help` | wall time, s | | | {help_s:.2f} | |")
    return "\n".join(lines)


def help_time(python: str) -> float:
    gw = Path(python).with_name("gw")
    command = [str(gw)] if gw.exists() else [python, "-m", "gw"]
    times = []
    for _ in range(5):
        began = time.monotonic()
        subprocess.run([*command, "--help"], check=True, stdout=subprocess.DEVNULL, env=CACHED)
        times.append(time.monotonic() - began)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--alone", action="store_true", help="let other programs of this machine wait (needs root)")
    parser.add_argument("--awake", action="store_true", help="keep the cores from sleeping (needs root)")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--compiled", default="", metavar="PYTHON", help="measure the compiled wheel of this environment as well")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.alone:
        run_alone()
    if options.awake:
        stay_awake()
    with tempfile.TemporaryDirectory() as folder, Bench(
        Path(folder), options.python, options.seconds, options.compiled
    ) as bench:
        text = table(bench, measure(bench, options.rounds), help_time(options.python))
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    how = "".join(f", {word}" for word, enabled in (("alone", options.alone), ("cores awake", options.awake)) if enabled)
    rounds = f"medians of {options.rounds} rounds of {options.seconds:g} s{how}"
    text = f"Measured {datetime.date.today()} on {machine}; {rounds}.\n\n{text}"
    print(text)
    if options.write:
        page = options.write.read_text()
        head, _, rest = page.partition(BEGIN)
        tail = rest.partition(END)[2]
        options.write.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}")


if __name__ == "__main__":
    main()
