"""Measure the CPU that the gateway takes for a frame of live audio and its answer, on a machine that need not be idle.

    python bench/frame_cost.py [--sessions 30] [--rounds 200] [--at-once 1] [--compare FOLDER] [--instructions]

Opens `--sessions` live transcriptions in Deepgram's protocol through a gateway to a vendor of the same protocol, both in this process.
In each round every caller sends 20 ms of audio, and the vendor answers each with a transcript; the round ends with the last answer.
With `--at-once 3` each caller's message of the network holds three frames, and the vendor's as many answers, as a gateway reads them
that is behind. Prints the CPU of the gateway's event loop for a frame (kernel accounting): the cheapest round, which other programs have
disturbed least, and the median. `--compare` measures the gateway of another checkout too, in turn with this one. `--instructions` counts
the machine instructions of a frame and its answer outside of the kernel with valgrind, by function. Timers count as well, and run
more often for each frame while valgrind is slow: with `--sessions 4` a round takes about the 20 ms of a frame. How many sessions fit on
a core, and how long answers take: `bench/duplex.py`.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import random
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from run import CACHED, free_port

ROOT = Path(__file__).parents[1]
PATH = "/v1/listen?model=deepgram/nova-3&encoding=linear16&sample_rate=16000&interim_results=true"
FRAME_BYTES = 640
LOUD_OF_50 = 35  # rounds of a second with speech; the others have noise
WARM_UP = 60  # rounds
PATIENCE_S = 60.0  # valgrind takes a while to start
TOP = 60  # functions listed
IDLE_S, IDLE_CPU_S = 2.0, 0.2  # a gateway that takes less CPU than this in that time has started; valgrind makes it 50 times slower
_CHANCE = random.Random(1)


def samples(amplitude: int) -> bytes:
    return b"".join(_CHANCE.randrange(-amplitude, amplitude).to_bytes(2, "little", signed=True) for _ in range(FRAME_BYTES // 2))


def audio_frame(amplitude: int) -> bytes:
    return b"\x82" + bytes([128 | 126]) + FRAME_BYTES.to_bytes(2, "big") + bytes(4) + samples(amplitude)


SPEECH, NOISE = audio_frame(8_000), audio_frame(30)


def answer(number: int) -> bytes:
    """Return the transcript of frame `number` of a session; every fiftieth is final."""
    begins, is_final = number // 50 * 50, (number + 1) % 50 == 0
    body = (
        b'{"type":"Results","channel_index":[0,1],"duration":%.2f,"start":%.2f,"is_final":%b,"speech_final":false,'
        b'"channel":{"alternatives":[{"transcript":"hello","confidence":0.9,"words":[]}]},"metadata":{"request_id":"r"}}'
        % ((number + 1 - begins) * 0.02, begins * 0.02, b"true" if is_final else b"false")
    )
    return b"\x81\x7e" + len(body).to_bytes(2, "big") + body


def head_of(peer: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        head += (data := peer.recv(4_096))
        if not data:
            raise SystemExit(f"a connection ended early: {head!r}")
    return head


class Gateway:
    """The gateway of one checkout, with its sessions."""

    def __init__(
        self, checkout: Path, folder: Path, *runner: str, program: Sequence[str] = ("-m", "gw"),
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """`runner`: program that runs the interpreter; `program`: what it runs, in place of gw."""
        self.vendor = socket.create_server(("127.0.0.1", 0), backlog=1_000)
        self.vendor.settimeout(PATIENCE_S)
        self.port, self.sessions = free_port(), 0
        folder.mkdir()
        (folder / "gw.yaml").write_text(
            f"providers: {{deepgram: {{api_key: k, base_url: 'http://127.0.0.1:{self.vendor.getsockname()[1]}'}}}}\n"
            f"models: {{stt: [deepgram/nova-3]}}\ncost_tracking: {{db_path: {folder}/gw.db}}\nserve: {{port: {self.port}}}\n"
        )
        command = [*runner, sys.executable, *program, "serve", "--config", str(folder / "gw.yaml")]
        log = (folder / "gw.log").open("wb")
        env = CACHED | {"PYTHONPATH": str(checkout)} | dict(environment or {})
        self.process = subprocess.Popen(command, cwd=checkout, env=env, stdout=log, stderr=log)
        self.poll = select.epoll()
        self.callers: dict[int, socket.socket] = {}
        self.vendors: dict[int, socket.socket] = {}
        self.received: dict[int, int] = {}
        self.answered: dict[int, int] = {}

    def wait_ready(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def wait_idle(self) -> None:
        """Wait until all is imported that is imported after the start."""
        used_s = -1.0
        while (now_s := self.cpu_s()) - used_s > IDLE_CPU_S:
            used_s = now_s
            time.sleep(IDLE_S)

    def open(self) -> None:
        """Open a session, with both of its ends here."""
        caller = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        caller.sendall(
            f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        vendor, _ = self.vendor.accept()
        lines = [line.split(b": ", 1) for line in head_of(vendor).split(b"\r\n") if b": " in line]
        key = next(value for name, value in lines if name.lower() == b"sec-websocket-key")
        digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        accept = base64.b64encode(digest)
        vendor.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")  # fmt: skip
        if b" 101 " not in (head := head_of(caller)):
            raise SystemExit(f"the gateway refused: {head!r}")
        for peer, kind in ((caller, self.callers), (vendor, self.vendors)):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            kind[peer.fileno()] = peer
            self.poll.register(peer.fileno(), select.EPOLLIN)
        self.sessions += 1

    def cpu_s(self) -> float:
        """Return the time of the event loop's thread."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9

    def round(self, frame: bytes, at_once: int = 1) -> float:
        """Send one frame in each session, or some at once; return the CPU of each, in µs, when the last answer has come."""
        before, left, until = self.cpu_s(), self.sessions * at_once, time.monotonic() + PATIENCE_S
        for caller in self.callers.values():
            caller.sendall(frame * at_once)
        while left:
            if time.monotonic() > until:
                raise SystemExit(f"{left} answers did not come")
            for descriptor, _ in self.poll.poll(1):
                if descriptor in self.callers:
                    left -= self.callers[descriptor].recv(65_536).count(b"\x81\x7e")
                else:
                    self.vendor_reads(descriptor, at_once)
        time.sleep(0.001)  # for the gateway to fall asleep, which is when the kernel settles its account
        return (self.cpu_s() - before) / self.sessions / at_once * 1e6

    def vendor_reads(self, descriptor: int, at_once: int) -> None:
        received = self.received.get(descriptor, 0) + len(self.vendors[descriptor].recv(65_536))
        if received >= FRAME_BYTES * at_once:
            number = self.answered.get(descriptor, 0)
            self.answered[descriptor], received = number + at_once, 0
            self.vendors[descriptor].sendall(b"".join(answer(number + n) for n in range(at_once)))
        self.received[descriptor] = received

    def close(self) -> None:
        for peer in (*self.callers.values(), *self.vendors.values()):
            peer.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()


def count_instructions(checkout: Path, folder: Path, sessions: int, rounds: int) -> str:
    """Return what a frame and its answer execute, and where."""
    counts = folder / "counts"
    gateway = Gateway(checkout, folder / "0", "valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={counts}")
    try:
        gateway.wait_ready()
        gateway.wait_idle()
        for _ in range(sessions):
            gateway.open()
        for number in range(WARM_UP + rounds):
            if number == WARM_UP:
                subprocess.run(["callgrind_control", "-i", "on", str(gateway.process.pid)], check=True, stdout=subprocess.DEVNULL)
            gateway.round(SPEECH if number % 50 < LOUD_OF_50 else NOISE)
        subprocess.run(["callgrind_control", "-i", "off", str(gateway.process.pid)], check=True, stdout=subprocess.DEVNULL)
    finally:
        gateway.close()
    listing = subprocess.run(["callgrind_annotate", str(counts)], check=True, capture_output=True, text=True).stdout
    frames = sessions * rounds
    lines = [f"{'instructions':>14} a frame and its answer  ({checkout})"]
    for line in listing.splitlines():
        if (found := re.match(r" *([\d,]+) \( *([\d.]+)%\)  (.+?)(?: \[.*)?$", line)) is not None:
            lines.append(f"{int(found[1].replace(',', '')) / frames:14.1f} {found[2]:>6} %  {found[3].rpartition('/')[2]}")
    return "\n".join(lines[:TOP])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=1, help="frames in each message of the network")
    parser.add_argument("--compare", type=Path, help="a folder with another checkout")
    parser.add_argument("--instructions", action="store_true", help="count instructions with valgrind in place of measuring time")
    options = parser.parse_args()
    checkouts = [ROOT, *([options.compare.resolve()] if options.compare else [])]
    if options.instructions:
        for checkout in checkouts:
            with tempfile.TemporaryDirectory(prefix="gw-frames-") as folder:
                print(count_instructions(checkout, Path(folder), options.sessions, options.rounds))
        return
    with tempfile.TemporaryDirectory(prefix="gw-frames-") as folder:
        gateways = [Gateway(checkout, Path(folder) / str(n)) for n, checkout in enumerate(checkouts)]
        try:
            costs: list[list[float]] = [[] for _ in gateways]
            for gateway in gateways:
                gateway.wait_ready()
                for _ in range(options.sessions):
                    gateway.open()
            for number in range(WARM_UP + options.rounds):
                for gateway, cost in zip(gateways, costs, strict=True):
                    cost.append(gateway.round(SPEECH if number % 50 < LOUD_OF_50 else NOISE, options.at_once))
        finally:
            for gateway in gateways:
                gateway.close()
    print(f"{options.sessions} sessions, {options.rounds} rounds, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for checkout, cost in zip(checkouts, costs, strict=True):
        steady = cost[WARM_UP:]
        print(f"a frame and its answer: at least {min(steady):.1f} µs, median {statistics.median(steady):.1f} µs  ({checkout})")


if __name__ == "__main__":
    main()
