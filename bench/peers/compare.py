"""Set other gateways up from their packages and run the same load against each of them and gw: one table.

    python bench/peers/compare.py [--rounds 7] [--requests 320] [--keep FOLDER] [--download] [peer ...]

Needs Linux, gcc, and for the peers npm and uv with access to package indexes of your choice. Each peer is installed into a temporary
folder (`--keep`: into FOLDER, to be used again) with its newest version, and runs with its defaults, which for gw means with records,
prices, a rate limit and a budget. A peer that cannot be installed or started is named with the reason. Some packages are only programs
that download the gateway from their vendor when they start; they are started with `--download` only.

Each round sends chat requests over 32 connections to every gateway in turn, all with the same provider behind them
(bench/fake_upstream.c, which answers at once), then some over one connection. The gateway has core 0, load and provider have core 1. CPU
is the kernel's accounting of the process and its children; medians of the rounds. Ratios are what counts: other programs hit all sides
alike.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).parents[1]))
from run import CACHED, build, cpu_s, free_port, pinned, wait_until_it_answers

ROOT = Path(__file__).parents[2]
CONNECTIONS = 32
START_S = 90.0
INSTALL_S = 600.0
ANSWER_S = 30.0
KEY = "sk-" + secrets.token_hex(24)
BODY = b'{"model":"%b","messages":[{"role":"system","content":"Answer in one sentence."},{"role":"user","content":"Will it stay dry?"}]}'


class NotInstalled(Exception):
    """A peer is left out; the text is the reason."""


@attrs.frozen
class Peer:
    """A gateway that can be started. `headers` go with each request."""

    name: str
    version: str
    command: list[str]
    model: str = "up/bench"
    headers: dict[str, str] = attrs.field(factory=dict)
    environment: dict[str, str] = attrs.field(factory=dict)


def run_or_leave_out(command: list[str], what: str) -> str:
    """Run a command and return what it prints. Raises NotInstalled with its last line."""
    if shutil.which(command[0]) is None:
        raise NotInstalled(f"{command[0]} is not installed")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{what} took more than {INSTALL_S:.0f} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise NotInstalled(f"{what} failed: {lines[-1] if lines else 'no output'}")
    return done.stdout.strip()


def npm(folder: Path, package: str) -> str:
    """Install an npm package and return its version."""
    run_or_leave_out(["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), package], f"npm install {package}")
    show = "process.stdout.write(require(process.argv[1]).version)"
    return run_or_leave_out(["node", "-e", show, str(folder / "node_modules" / package / "package.json")], "node")


def gw(folder: Path, upstream: int, port: int, download: bool) -> Peer:
    (folder / "gw.yaml").write_text(f"""
providers: {{up: {{type: openai, api_key: k, base_url: "http://127.0.0.1:{upstream}/v1"}}}}
models: {{llm: {{up/bench: {{price: {{unit: 1M_tokens, input: 0.5, output: 1.5}}}}}}}}
rate_limiting: {{up: {{requests_per_minute: 100000000}}}}
projects: {{default: {{daily_budget: 100000, budget_action: block}}}}
cost_tracking: {{db_path: {folder}/gw.db}}
""")
    command = [sys.executable, "-m", "gw", "serve", "--config", str(folder / "gw.yaml"), "--port", str(port)]
    version = run_or_leave_out([sys.executable, "-c", "from importlib.metadata import distribution; import gw; "
                                "print(getattr(gw, '__version__', 'of this checkout'))"], "gw")  # fmt: skip
    return Peer("gw", version, command, environment={"PYTHONPATH": str(ROOT), "GW_LOG_LEVEL": "warning"})


def litellm(folder: Path, upstream: int, port: int, download: bool) -> Peer:
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        run_or_leave_out(["uv", "venv", "-q", "--python", sys.executable, str(folder / "venv")], "uv venv")
        run_or_leave_out(["uv", "pip", "install", "-q", "--python", str(python), "litellm[proxy]"], "uv pip install litellm")
    version = run_or_leave_out([str(python), "-c", "from importlib.metadata import version; print(version('litellm'))"], "litellm")
    (folder / "config.yaml").write_text(f"""
model_list:
  - model_name: up/bench
    litellm_params: {{model: openai/bench, api_base: "http://127.0.0.1:{upstream}/v1", api_key: k}}
general_settings: {{master_key: {KEY}}}
""")
    program = str(python.with_name("litellm"))
    command = [program, "--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    return Peer("LiteLLM", version, command, environment={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"})


def portkey(folder: Path, upstream: int, port: int, download: bool) -> Peer:
    version = npm(folder, "@portkey-ai/gateway")
    program = folder / "node_modules/@portkey-ai/gateway/build/start-server.js"
    headers = {"x-portkey-provider": "openai", "x-portkey-custom-host": f"http://127.0.0.1:{upstream}/v1"}
    environment = {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    return Peer("Portkey", version, ["node", str(program), f"--port={port}", "--headless"], "bench", headers, environment)


def bifrost(folder: Path, upstream: int, port: int, download: bool) -> Peer:
    version = npm(folder, "@maximhq/bifrost")
    if not download:
        raise NotInstalled("its npm package holds no gateway, but downloads one from the vendor when it starts (--download allows that)")
    home = folder / "data"
    home.mkdir(exist_ok=True)
    (home / "config.json").write_text(
        '{"providers":{"openai":{"keys":[{"name":"k","value":"k","models":["bench"],"weight":1}],'
        f'"network_config":{{"base_url":"http://127.0.0.1:{upstream}"}}}}}}}}'
    )
    program = folder / "node_modules/.bin/bifrost"
    return Peer("Bifrost", version, [str(program), "-app-dir", str(home), "-host", "127.0.0.1", "-port", str(port)], "openai/bench")


PEERS: dict[str, Callable[[Path, int, int, bool], Peer]] = {"gw": gw, "litellm": litellm, "portkey": portkey, "bifrost": bifrost}


class Running:
    """A peer that runs, and connections to it."""

    def __init__(self, peer: Peer, port: int, folder: Path) -> None:
        self.peer, self.port, self.log = peer, port, folder / "log"
        self.process = subprocess.Popen(
            pinned(0, *peer.command), cwd=folder, env=CACHED | peer.environment, stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        body = BODY % peer.model.encode()
        headers = {"Host": f"127.0.0.1:{port}", "Authorization": f"Bearer {KEY}", "Content-Type": "application/json",
                   "Content-Length": str(len(body)), **peer.headers}  # fmt: skip
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.request = f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode() + body
        self.connections: list[socket.socket] = []
        self.times_us: list[float] = []
        self.cpu_us: list[float] = []
        self.per_s: list[float] = []

    def wait_ready(self) -> None:
        """Wait for the first good answer. Raises NotInstalled."""
        until, why = time.monotonic() + START_S, "no answer"
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                    connection.sendall(self.request)
                    status, body = answer_of(connection)
                if status == 200:
                    return
                why = f"it answers {status}: {body[:160]!r}"
            except OSError as error:
                why = str(error)
            time.sleep(0.3)
        lines = self.log.read_text(errors="replace").strip().splitlines()
        raise NotInstalled(f"it does not start: {why}; {lines[-1][:160] if lines else ''}")

    def connect(self) -> None:
        """Open new connections, since some gateways close those that are idle for a few seconds, and use each once."""
        self.disconnect()
        address = ("127.0.0.1", self.port)
        self.connections = [socket.create_connection(address, timeout=ANSWER_S) for _ in range(CONNECTIONS)]
        self.ask_on_each()

    def disconnect(self) -> None:
        for connection in self.connections:
            connection.close()
        self.connections = []

    def ask_on_each(self) -> None:
        for connection in self.connections:
            connection.sendall(self.request)
        for connection in self.connections:
            try:
                self.check(*answer_of(connection))
            except OSError as error:
                raise SystemExit(f"{self.peer.name}: {error}") from None

    def processes_cpu_s(self) -> float:
        pids, total = [self.process.pid], 0.0
        while pids:
            pid = pids.pop()
            total += cpu_s(pid)
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += map(int, children.read_text().split())
        return total

    def memory_mb(self) -> float:
        pids, total = [self.process.pid], 0.0
        while pids:
            pid = pids.pop()
            status = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += sum(int(line.split()[1]) / 1_000 for line in status if line.startswith("VmRSS"))
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += map(int, children.read_text().split())
        return total

    def round(self, requests: int) -> None:
        turns = requests // CONNECTIONS
        self.connect()
        before, began = self.processes_cpu_s(), time.monotonic()
        for _ in range(turns):
            self.ask_on_each()
        self.per_s.append(turns * CONNECTIONS / (time.monotonic() - began))
        time.sleep(0.1)  # what is written behind the answers
        self.cpu_us.append((self.processes_cpu_s() - before) / (turns * CONNECTIONS) * 1e6)
        connection = self.connections[0]
        for _ in range(2 * turns):
            asked = time.perf_counter()
            connection.sendall(self.request)
            self.check(*answer_of(connection))
            self.times_us.append((time.perf_counter() - asked) * 1e6)

    def check(self, status: int, body: bytes) -> None:
        if status != 200:
            raise SystemExit(f"{self.peer.name} answered {status}: {body[:300]!r}")

    def close(self) -> None:
        self.disconnect()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def answer_of(connection: socket.socket) -> tuple[int, bytes]:
    """Read one answer; return its status and body. Raises OSError when the connection ends within it."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += (piece := connection.recv(65_536))
        if not piece:
            raise ConnectionResetError("the connection ended within an answer")
    head, body = data[:end].lower(), data[end + 4 :]
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), None)
    while not (body.endswith(b"0\r\n\r\n") if length is None else len(body) >= length):
        body += (piece := connection.recv(65_536))
        if not piece:
            raise ConnectionResetError(f"the connection ended within an answer: {data[:400]!r}")
    return int(head.split()[1]), body


def table(running: list[Running], direct_us: float, left_out: dict[str, str]) -> str:
    columns = ("gateway", "version", "CPU a request, µs", "times gw", "requests a second", "p50 added at one connection, µs", "memory, MB")
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    own = next((statistics.median(side.cpu_us) for side in running if side.peer.name == "gw"), None)
    for side in running:
        cpu = statistics.median(side.cpu_us)
        times = "" if own is None else f"{cpu / own:.1f}"
        added = statistics.median(side.times_us) - direct_us
        per_s = statistics.median(side.per_s)
        figures = (side.peer.name, side.peer.version, f"{cpu:.0f}", times, f"{per_s:.0f}", f"{added:.0f}", f"{side.memory_mb():.0f}")
        lines.append(f"| {' | '.join(figures)} |")
    lines += [f"| {name} | | not measured: {reason} | | | | |" for name, reason in left_out.items()]
    return "\n".join(lines)


def direct(port: int, requests: int) -> float:
    """Return the median time of a request to the provider itself, in µs."""
    body = BODY % b"bench"
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    request = head % len(body) + body
    times = []
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as connection:
        for _ in range(requests):
            asked = time.perf_counter()
            connection.sendall(request)
            answer_of(connection)
            times.append((time.perf_counter() - asked) * 1e6)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="peer", help="one of " + ", ".join(PEERS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=320)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--download", action="store_true")
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended
    with tempfile.TemporaryDirectory(prefix="gw-peers-") as temporary:
        folder, upstream = (options.keep or Path(temporary)).resolve(), free_port()
        folder.mkdir(parents=True, exist_ok=True)
        program = build(Path(temporary), "fake_upstream")
        vendor = subprocess.Popen([program, str(upstream)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        running: list[Running] = []
        left_out: dict[str, str] = {}
        try:
            wait_until_it_answers(f"http://127.0.0.1:{upstream}/")
            urllib.request.urlopen(f"http://127.0.0.1:{upstream}/set?latency=0").read()
            for name in options.peers or PEERS:
                own, port = folder / name, free_port()
                own.mkdir(exist_ok=True)
                started = None
                try:
                    print(f"{name}: installing and starting", file=sys.stderr)
                    started = Running(PEERS[name](own, upstream, port, options.download), port, own)
                    started.wait_ready()
                    running.append(started)
                except NotInstalled as reason:
                    left_out[name] = str(reason)
                    if started is not None:
                        started.close()
            for number in range(options.rounds + 1):
                print(f"round {number}", file=sys.stderr)
                for side in random.sample(running, len(running)):
                    side.round(options.requests)
                    if number == 0:  # the first one warms up
                        side.cpu_us.clear(), side.times_us.clear(), side.per_s.clear()
            text = table(running, direct(upstream, 200), left_out)
        finally:
            for side in running:
                side.close()
            vendor.kill()
            vendor.wait()
    print(f"{options.rounds} rounds of {options.requests} requests, load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores\n\n{text}")


if __name__ == "__main__":
    main()
