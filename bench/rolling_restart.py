"""Rolling restarts of two gateways behind haproxy and nginx, with the files of docs/operations.md: how many requests fail.

    python bench/rolling_restart.py [--restarts 4] [--clients 24] [--sockets 8] [--requests 0] [--proxy haproxy]

Needs haproxy, nginx and openssl. The files are those of the page; only addresses and the path of the certificate are changed. The gateways
are restarted in turn, `--restarts` times, or until `--requests` requests were sent. `--sockets` callers speak over WebSockets, one
utterance after the other; a gateway that drains closes theirs with 1001 between two utterances, and they connect anew. An utterance that
finds the socket closed, or meets the close on its way, is said again and counted; one that began and did not end is a failure.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "operations.md"
HOST = "gw.example.com"
CONFIG = """
providers: {sim: {latency_ms: 20, token_ms: 10}}
models: {llm: [sim/echo], tts: [sim/tone]}
serve: {predrain_s: 5, drain_s: 30, allowed_hosts: [gw.example.com]}
"""
LOG_LINES = 20  # of the proxy's log, printed where requests failed
MESSAGES = [{"role": "user", "content": "one two three four five"}]
REQUESTS = (
    ("/v1/chat/completions", {"model": "sim/echo", "messages": MESSAGES}, b'"finish_reason"'),
    ("/v1/chat/completions", {"model": "sim/echo", "messages": MESSAGES, "stream": True}, b"data: [DONE]"),
    ("/v1/audio/speech", {"model": "sim/tone", "input": "one two three", "voice": "alloy", "response_format": "pcm"}, b""),
)
"""Path, body, and what the end of a complete answer contains."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def block(language: str, folder: Path, ports: list[int], front: int) -> str:
    """Return the page's file with the addresses of this run."""
    match = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert match, language
    text = match[1]
    for documented, port in zip((8080, 8081), ports, strict=True):
        assert f"127.0.0.1:{documented}" in text
        text = text.replace(f"127.0.0.1:{documented}", f"127.0.0.1:{port}")
    text = text.replace("bind :443", f"bind 127.0.0.1:{front}").replace("/etc/haproxy/gw.pem", str(folder / "gw.pem"))
    listen = f"listen 127.0.0.1:{front} ssl; ssl_certificate {folder}/gw.pem; ssl_certificate_key {folder}/gw.pem"
    return text.replace("listen 443 ssl", listen)


class Gateways:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = [free_port(), free_port()]
        (folder / "gw.yaml").write_text(CONFIG)
        self.processes = [self.start(port) for port in self.ports]

    def start(self, port: int) -> subprocess.Popen[bytes]:
        env = {**os.environ, "GW_CONFIG": str(self.folder / "gw.yaml"), "GW_DB_PATH": str(self.folder / f"{port}.db")}
        env["PYTHONPATH"] = str(ROOT)
        log = (self.folder / f"{port}.log").open("ab")
        process = subprocess.Popen([sys.executable, "-m", "gw", "serve", "--port", str(port)], env=env, stderr=log, stdout=log)
        deadline = time.monotonic() + 30
        while not self.is_ready(port):
            assert process.poll() is None, (self.folder / f"{port}.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return process

    def is_ready(self, port: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def restart(self, n: int) -> float:
        """Restart one gateway; return the seconds that its stop took."""
        began = time.monotonic()
        self.processes[n].send_signal(signal.SIGTERM)
        assert self.processes[n].wait(60) == 0
        took_s = time.monotonic() - began
        self.processes[n] = self.start(self.ports[n])
        return took_s

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


class Client(threading.Thread):
    """Sends one request after the other over a kept connection; a failure of any kind is counted."""

    def __init__(self, front: int, done: threading.Event, first: int) -> None:
        super().__init__(daemon=True)
        self.front, self.done, self.n = front, done, first
        self.sent = 0
        self.failures: Counter[str] = Counter()

    def run(self) -> None:
        context = ssl._create_unverified_context()  # a certificate of our own
        connection = http.client.HTTPSConnection("127.0.0.1", self.front, timeout=30, context=context)
        while not self.done.is_set():
            path, body, end = REQUESTS[self.n % len(REQUESTS)]
            self.n += 1
            self.sent += 1
            try:
                connection.request("POST", path, json.dumps(body), {"host": HOST, "content-type": "application/json"})
                response = connection.getresponse()
                answer = response.read()
                if response.status != 200 or end not in answer or not answer:
                    self.failures[f"{path}: {response.status} {answer[:80]!r}"] += 1
            except (OSError, http.client.HTTPException) as error:
                self.failures[f"{path}: {type(error).__name__}"] += 1
                connection.close()


class Speaker(threading.Thread):
    """Says one utterance after the other over a WebSocket, in Deepgram's protocol."""

    def __init__(self, front: int, done: threading.Event) -> None:
        super().__init__(daemon=True)
        self.front, self.done = front, done
        self.sent = self.again = 0
        self.failures: Counter[str] = Counter()
        self.open = ExitStack()

    def run(self) -> None:
        with self.open:
            self.speak()

    def speak(self) -> None:
        speaker: ClientConnection | None = None
        while not self.done.is_set():
            self.sent += 1
            for attempt in range(3):
                self.again += attempt > 0
                try:
                    speaker = speaker or self.connect()
                    said = self.say(speaker)
                except (OSError, InvalidStatus, TimeoutError) as error:
                    self.failures[f"WebSocket: {type(error).__name__} {error}"] += 1
                    speaker = None
                    break
                if said:
                    break
                speaker = None
            else:
                self.failures["WebSocket: closed three times before an utterance began"] += 1
            self.done.wait(0.05)

    def connect(self) -> ClientConnection:
        self.open.close()
        context = ssl._create_unverified_context()
        raw = socket.create_connection(("127.0.0.1", self.front), 30)
        target = f"wss://{HOST}/v1/speak?model=sim/tone&encoding=linear16&sample_rate=16000"
        return self.open.enter_context(connect(target, sock=raw, ssl=context, server_hostname=HOST, open_timeout=30, proxy=None))

    def say(self, speaker: ClientConnection) -> bool:
        """Return False if a gateway that leaves closed the socket before the utterance began."""
        began = False
        try:
            speaker.send('{"type":"Speak","text":"one two three"}')
            speaker.send('{"type":"Flush"}')
            while True:
                message = speaker.recv(timeout=30)
                began = began or isinstance(message, bytes)
                if isinstance(message, str) and '"Flushed"' in message:
                    return True
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else 1006
            if not began and code == 1001:
                return False
            self.failures[f"WebSocket: closed with {code}, {'within' if began else 'before'} an utterance"] += 1
            return False


def proxy_command(name: str, folder: Path, ports: list[int], front: int) -> list[str]:
    path = folder / f"{name}.conf"
    text = block(name, folder, ports, front)
    if name == "nginx":
        (folder / "site.conf").write_text(text)
        path.write_text(
            f"daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log warn;\n"
            f"events {{ worker_connections 4096; }}\nhttp {{ access_log off; include {folder}/site.conf; }}\n"
        )
        return [shutil.which("nginx") or "nginx", "-c", str(path)]
    path.write_text(text)
    return [shutil.which("haproxy") or "haproxy", "-db", "-f", str(path)]


def measure(name: str, restarts: int, clients: int, sockets: int, requests: int) -> int:
    with tempfile.TemporaryDirectory(prefix="gw-rolling-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        key = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}"]
        subprocess.run([*key, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
        (folder / "gw.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
        gateways, front, done = Gateways(folder), free_port(), threading.Event()
        proxy = subprocess.Popen(proxy_command(name, folder, gateways.ports, front), stderr=(folder / f"{name}.err").open("wb"))
        speakers = [Speaker(front, done) for _ in range(sockets)]
        callers: list[Client | Speaker] = [*(Client(front, done, n) for n in range(clients)), *speakers]
        try:
            time.sleep(2)
            assert proxy.poll() is None, (folder / f"{name}.err").read_text()
            for caller in callers:
                caller.start()
            time.sleep(2)
            stops: list[float] = []
            while len(stops) < restarts or sum(caller.sent for caller in callers) < requests:
                stops.append(gateways.restart(len(stops) % 2))
                time.sleep(3)  # for the proxy to find it ready
            done.set()
            for caller in callers:
                caller.join(40)
        finally:
            done.set()
            proxy.terminate()
            proxy.wait()
            gateways.stop()
        failures = sum((caller.failures for caller in callers), Counter())
        sent, failed = sum(caller.sent for caller in callers), sum(failures.values())
        said, again = sum(speaker.sent for speaker in speakers), sum(speaker.again for speaker in speakers)
        what = f"{sent} requests failed, {said} of them utterances over WebSockets ({again} said again)"
        print(f"{name}: {failed} of {what}, in {len(stops)} restarts (stops took {min(stops):.1f} to {max(stops):.1f} s)", flush=True)
        for what, count in failures.most_common(5):
            print(f"    {count} x {what}")
        if failed:
            for line in (folder / f"{name}.log").read_text().splitlines()[-LOG_LINES:]:
                print(f"    {line}")
        return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--restarts", type=int, default=4)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--sockets", type=int, default=8)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--proxy", choices=("haproxy", "nginx"), action="append")
    options = parser.parse_args()
    names = options.proxy or ("haproxy", "nginx")
    failed = [measure(name, options.restarts, options.clients, options.sockets, options.requests) for name in names]
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
