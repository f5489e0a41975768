"""Count what one request executes in the gateway: bytecodes and calls of Python functions, by function. With `--mode listen`, what a
frame of live audio and its answer do.

    python bench/bytecodes.py [--mode chat|stream|speech|upload|listen] [--kilobytes 1000] [--requests 50] [--sessions 1] [--top 60]
                              [--steps] [--others 0] [--commits] [--otlp http://localhost:4318]

The counts of gw's own functions are the same on a busy machine, where times are not; timers, which run by the time and not by the
request, are counted as well, most of them in trio. The counts say nothing of C functions and system calls, and not all bytecodes cost
the same: about 70 machine instructions each on the average of a chat request, of which 30 are the interpreter's loop.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from frame_cost import SPEECH, Gateway
from run import CACHED, Bench, build, wait_until_it_answers
from uploads import BOUNDARY, form

COUNTER = """
import json, os, signal, sys
counts, calls, steps = {}, {}, []
SOCKET = {"receive_some": "wait to read", "is_stale": "look at the kept connection", "send_now": "send", "send_or_pending": "send"}
def count(frame, event, arg):
    if event == "opcode":
        key = f"{frame.f_code.co_filename}:{frame.f_code.co_firstlineno}:{frame.f_code.co_name}"
        counts[key] = counts.get(key, 0) + 1
    return count
def called(frame, event, arg):
    frame.f_trace_opcodes = True
    key = f"{frame.f_code.co_filename}:{frame.f_code.co_firstlineno}:{frame.f_code.co_name}"
    calls[key] = calls.get(key, 0) + 1
    if frame.f_code.co_name in SOCKET and frame.f_code.co_filename.endswith("/gw/net/tcp.py"):
        steps.append((SOCKET[frame.f_code.co_name], sum(counts.values())))
    return count
def begin(*_):
    sys.settrace(called)
    frame = sys._getframe()
    while frame is not None:
        frame.f_trace, frame.f_trace_opcodes = count, True
        frame = frame.f_back
def end(*_):
    sys.settrace(None)
    with open(os.environ["COUNTS"], "w") as file:
        json.dump({"steps": steps, "counts": {key: [counts.get(key, 0), calls.get(key, 0)] for key in counts | calls}}, file)
signal.signal(signal.SIGUSR1, begin)
signal.signal(signal.SIGUSR2, end)
from gw.cli.main import main
from gw.store import writer
writer.GATHER_S = float(os.environ["GATHER_S"])
main()
"""
BODIES = {
    "chat": ("/v1/chat/completions", b'{"model":"up/bench","messages":[{"role":"user","content":"How is the weather?"}]}'),
    "stream": ("/v1/chat/completions", b'{"model":"up/bench","stream":true,"messages":[{"role":"user","content":"How is the weather?"}]}'),
    "speech": ("/v1/audio/speech", b'{"model":"up/bench","voice":"alloy","response_format":"pcm","input":"It will stay dry until nine."}'),
}
Counts = dict[str, list[int]]
"""Bytecodes and calls of each function."""
Steps = list[tuple[str, int]]
"""Calls of a connection, with the bytecodes until then."""
WARM_UP = 60  # requests or frames after which the interpreter has specialised its code


class CountedBench(Bench):
    """A gateway that counts, and the fake provider. Without `commits` none is made: they come by the time, not by the request."""

    commits = False
    more = ""

    def start_all(self) -> None:
        self.start([build(self.folder, "fake_upstream"), str(self.upstream_port)])
        wait_until_it_answers(f"http://127.0.0.1:{self.upstream_port}/")
        counter, self.counts = self.folder / "counter.py", self.folder / "counts.json"
        counter.write_text(COUNTER)
        gather_s = "0.05" if self.commits else "600"
        environment = CACHED | {"COUNTS": str(self.counts), "GATHER_S": gather_s, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.port, self.pid, _ = self.start_gateway("gw", self.python, environment, program=(str(counter),), more=self.more)


def answers(port: int, mode: str) -> Iterator[None]:
    """Make requests one after the other on one connection, one for each step."""
    path, body = BODIES[mode]
    kind = "application/json" if mode != "upload" else f"multipart/form-data; boundary={BOUNDARY}"
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as reader:
        while True:
            connection.sendall(head.encode() + body)
            length = 0
            while (line := reader.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                length = int(value) if name == b"content-length" else length
            if length:
                reader.read(length)
            else:
                while size := int(reader.readline(), 16):
                    reader.read(size + 2)
                reader.readline()
            yield


def counts_of_requests(options: argparse.Namespace) -> tuple[Counts, Steps]:
    CountedBench.commits = options.commits
    CountedBench.more = f'telemetry: {{otlp: {{endpoint: "{options.otlp}"}}}}' if options.otlp else ""
    with tempfile.TemporaryDirectory() as folder, CountedBench(Path(folder), sys.executable, 1) as bench:
        bench.setting("latency=0&tokens=16&interval=20000")
        others = answers(bench.port, "chat")
        for _ in range(options.others):
            next(others)
        requests = answers(bench.port, options.mode)
        for _ in range(WARM_UP):
            next(requests)
        os.kill(bench.pid, signal.SIGUSR1)
        time.sleep(0.2)
        for _ in range(options.requests):
            next(requests)
        if options.commits:
            time.sleep(1.0)  # then the last of them is on its way
        os.kill(bench.pid, signal.SIGUSR2)
        while not bench.counts.exists() or not bench.counts.read_text().endswith("}"):
            next(requests)
        counted = json.loads(bench.counts.read_text())
    return counted["counts"], counted["steps"]


def counts_of_frames(frames: int, sessions: int) -> Counts:
    """Count in sessions that speak in real time, at the same moments."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "counter.py").write_text(COUNTER)
        file = folder / "counts.json"
        gateway = Gateway(
            Path.cwd(), folder / "gateway", program=(str(folder / "counter.py"),), environment={"COUNTS": str(file), "GATHER_S": "600"}
        )
        try:
            gateway.wait_ready()
            gateway.wait_idle()
            for _ in range(sessions):
                gateway.open()
            for _ in range(WARM_UP):
                gateway.round(SPEECH)
            os.kill(gateway.process.pid, signal.SIGUSR1)
            time.sleep(0.2)
            began = time.monotonic()
            for number in range(frames):
                time.sleep(max(0.0, began + 0.02 * number - time.monotonic()))
                gateway.round(SPEECH)
            os.kill(gateway.process.pid, signal.SIGUSR2)
            while not file.exists() or not file.read_text().endswith("}"):
                gateway.round(SPEECH)
        finally:
            gateway.close()
        counts: Counts = json.loads(file.read_text())["counts"]
    return counts


def print_steps(steps: Steps) -> None:
    """Print what one request executes between two calls of a connection, from the wait for the request to the next such wait."""
    called = [at for at, (step, _) in enumerate(steps) if step.startswith("look")]
    begin, end = called[-2] - 1, called[-1] - 1
    for (step, before), (following, after) in zip(steps[begin:end], steps[begin + 1 : end + 1], strict=True):
        print(f"{after - before:8} bytecodes from {step!r} to {following!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=[*BODIES, "upload", "listen"], default="chat")
    parser.add_argument("--kilobytes", type=int, default=1_000, help="size of the recording, for --mode upload")
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=1, help="live transcriptions at once, for --mode listen")
    parser.add_argument("--top", type=int, default=60)
    parser.add_argument("--others", type=int, default=0, help="chat requests that come before, whose answers nobody speaks")
    parser.add_argument("--commits", action="store_true", help="count what passes records on to be committed, and exported, too")
    parser.add_argument("--otlp", default="", metavar="URL", help="export telemetry to this collector")
    parser.add_argument("--steps", action="store_true", help="count also from one use of a connection to the next, in one request")
    options = parser.parse_args()
    BODIES["upload"] = "/v1/audio/transcriptions", form(options.kilobytes)
    if options.mode == "listen":
        counts, steps = counts_of_frames(options.requests, options.sessions), []
        n, what = options.requests * options.sessions, "frame and its answer"
    else:
        counts, steps = counts_of_requests(options)
        n, what = options.requests, "request"
    for package in ("/gw/", "/trio/", ""):
        chosen = [counted for name, counted in counts.items() if package in name]
        bytecodes, calls = sum(b for b, _ in chosen) / n, sum(c for _, c in chosen) / n
        print(f"{bytecodes:8.0f} bytecodes {calls:6.1f} calls a {what} in {package.strip('/') or 'all'}")
    if options.steps and steps:
        print_steps(steps)
    elif options.steps:
        print("--steps needs requests of the pure edition: compiled functions are not traced")
    for name, (bytecodes, calls) in sorted(counts.items(), key=lambda item: -item[1][0])[: options.top]:
        print(f"{bytecodes / n:8.1f} bytecodes {calls / n:6.2f} calls  {name.partition('site-packages/')[2] or name}")


if __name__ == "__main__":
    main()
