"""Mixed streams for as long as one likes: does memory grow, and is everything given back?

    python bench/soak.py [--streams 200] [--minutes 10]

Starts a gateway with the built-in provider and keeps `--streams` callers busy: streamed chats, speech over HTTP, live
transcriptions and speech over a socket, a quarter each, one after the other; one in ten leaves in the middle. Prints a line every ten
seconds, and at the end against targets: growth of memory after ten minutes (or half of a shorter run), memory of a stream, and whether
descriptors, threads and Trio tasks are what they were before. The exit code is 1 if a target is missed. The tasks are counted by an
instrument in the gateway's process, which this program starts (`--serve`).
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

import attrs
import trio

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
from run import CACHED, cpu_s, free_port, rss_mb  # noqa: E402

from gw.net.http1 import Origin, Pool  # noqa: E402
from gw.net.ws import WsClosed, open_ws  # noqa: E402

CONFIG = """
providers: {sim: {latency_ms: 100, token_ms: 50}}
models: {llm: [sim/echo], tts: [sim/tone], stt: [sim/tone]}
"""
JSON = [(b"content-type", b"application/json")]
LISTEN = b"/v1/listen?model=sim/tone&encoding=linear16&sample_rate=16000&interim_results=true"
SPEAK = b"/v1/speak?model=sim/tone&encoding=linear16&sample_rate=16000"
WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
LEAVES = 0.1
WARM_UP_S = 600.0
"""Until then each free list, buffer and cache of 200 streams has met its largest use: memory grows slower and slower."""
SETTLE_S = 8.0
"""After the last stream, before what is left is counted."""


class TaskCount(trio.abc.Instrument):
    """Writes how many tasks live, beside the gateway's log, at most once a second."""

    def __init__(self, path: Path) -> None:
        self.path, self.count, self.written_at = path, 0, 0.0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.count += 1

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self.count -= 1

    def before_io_wait(self, timeout: float) -> None:
        now = time.monotonic()
        if now > self.written_at + 1:
            self.written_at = now
            self.path.write_text(str(self.count))


def serve(port: int, tasks: Path) -> None:
    """Be the gateway: `gw serve`, with the instrument."""
    run = trio.run
    trio.run = lambda *args, **options: run(*args, **options, instruments=[TaskCount(tasks)])  # type: ignore[assignment]
    from gw.cli.main import main

    main(["serve", "--port", str(port)])


@attrs.define
class Sample:
    at_s: float
    rss_mb: float
    descriptors: int
    threads: int
    tasks: int


class Gateway:
    def __init__(self, folder: Path) -> None:
        self.port, self.tasks = free_port(), folder / "tasks"
        (folder / "gw.yaml").write_text(CONFIG)
        env = CACHED | {"GW_CONFIG": str(folder / "gw.yaml"), "GW_DB_PATH": str(folder / "gw.db"), "GW_LOG_LEVEL": "warning"}
        env["PYTHONPATH"] = str(ROOT)
        self.log = folder / "gw.log"
        command = [sys.executable, __file__, "--serve", str(self.port), "--tasks", str(self.tasks)]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=self.log.open("wb"))
        deadline = time.monotonic() + 30
        while not self.answers():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def answers(self) -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health").read()
        except OSError:
            return False
        return True

    def sample(self, at_s: float) -> Sample:
        pid = self.process.pid
        descriptors, threads = (len(list(Path(f"/proc/{pid}/{name}").iterdir())) for name in ("fd", "task"))
        return Sample(at_s, rss_mb(pid), descriptors, threads, int(self.tasks.read_text() or 0))


class Callers:
    def __init__(self, port: int) -> None:
        self.origin = Origin.parse(f"http://127.0.0.1:{port}")
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.ends_at = 0.0
        self.chance = random.Random(1)
        self.speech = b""
        """What the built-in provider says, and can transcribe: a recogniser that hears noise and answers nothing counts as failed."""

    async def load_speech(self) -> None:
        pool = Pool()
        self.speech = (await self._post(pool, SPEAK + b"&container=none", {"text": WORDS}))[:96_000]
        await pool.aclose()

    async def run(self, n: int) -> None:
        kind = (self.chat, self.speech_over_http, self.listen, self.speak)[n % 4]
        pool = Pool()
        await trio.sleep(n * 0.02)
        while trio.current_time() < self.ends_at:
            leaves = self.chance.random() < LEAVES
            name = kind.__name__
            try:
                with trio.move_on_after(self.chance.uniform(0.1, 1.5) if leaves else 30) as scope:
                    await kind(pool)
                self.done[name + (" left" if scope.cancelled_caught else "")] += 1
                if scope.cancelled_caught and not leaves:
                    self.failed[f"{name}: too slow"] += 1
            except Exception as error:
                self.failed[f"{name}: {type(error).__name__} {str(error)[:140]}"] += 1
                await trio.sleep(0.2)
        await pool.aclose()

    async def _post(self, pool: Pool, path: bytes, body: object) -> bytes:
        async with pool.open("client", b"POST", self.origin, path, JSON, json.dumps(body).encode()) as response:
            answer = await response.read(10_000_000)
            if response.status != 200:
                raise RuntimeError(f"status {response.status} {answer[:120]!r}")
            return answer

    async def chat(self, pool: Pool) -> None:
        body = {"model": "sim/echo", "stream": True, "messages": [{"role": "user", "content": WORDS}]}
        answer = await self._post(pool, b"/v1/chat/completions", body)
        if not answer.endswith(b"data: [DONE]\n\n"):
            raise RuntimeError("the stream broke off")

    async def speech_over_http(self, pool: Pool) -> None:
        await self._post(pool, b"/v1/audio/speech", {"model": "sim/tone", "input": WORDS, "voice": "alloy", "response_format": "pcm"})

    async def listen(self, pool: Pool) -> None:
        async with open_ws("client", self.origin, LISTEN, connect=pool.connect) as ws:
            for start in range(0, len(self.speech), 3_200):
                await ws.send(self.speech[start : start + 3_200])
                await trio.sleep(0.1)
            await ws.send('{"type":"CloseStream"}')
            await self._until_closed(ws)

    async def speak(self, pool: Pool) -> None:
        async with open_ws("client", self.origin, SPEAK, connect=pool.connect) as ws:
            await ws.send(json.dumps({"type": "Speak", "text": WORDS}))
            await ws.send('{"type":"Flush"}')
            while "Flushed" not in str(await ws.receive()):
                pass
            await ws.send('{"type":"Close"}')
            await self._until_closed(ws)

    async def _until_closed(self, ws: object) -> None:
        try:
            while True:
                await ws.receive()  # type: ignore[attr-defined]
        except WsClosed as closed:
            if closed.code != 1000:
                raise


async def sampled(gateway: Gateway, samples: list[Sample], every_s: float, *, task_status: trio.TaskStatus[None]) -> None:
    task_status.started()
    began = trio.current_time()
    while True:
        await trio.sleep(every_s)
        sample = gateway.sample(trio.current_time() - began)
        samples.append(sample)
        print(f"{sample.at_s:6.0f} s  {sample.rss_mb:7.2f} MB  {sample.descriptors} descriptors  {sample.tasks} tasks", flush=True)


async def soak(gateway: Gateway, callers: Callers, streams: int, minutes: float) -> tuple[Sample, list[Sample], Sample]:
    """Return a sample from before, those of the run, and one from after."""
    samples: list[Sample] = []
    await callers.load_speech()
    for n in range(8):  # one of each kind, so that all is loaded
        callers.ends_at = trio.current_time() + 0.02 * n + 0.01
        await callers.run(n)
    await trio.sleep(SETTLE_S)
    before = gateway.sample(0)
    async with trio.open_nursery() as nursery:
        await nursery.start(sampled, gateway, samples, 10.0)
        callers.ends_at = trio.current_time() + minutes * 60
        async with trio.open_nursery() as running:
            for n in range(streams):
                running.start_soon(callers.run, n)
        nursery.cancel_scope.cancel()
    await trio.sleep(SETTLE_S)
    return before, samples, gateway.sample(0)


def report(before: Sample, samples: list[Sample], after: Sample, callers: Callers, streams: int, cpu: float) -> bool:
    """Print the results; return whether the targets are met."""
    steady = [sample for sample in samples if sample.at_s >= min(WARM_UP_S, samples[-1].at_s / 2)]
    slope = statistics.linear_regression([s.at_s for s in steady], [s.rss_mb for s in steady]).slope * 600 if len(steady) > 2 else 0.0
    each = (statistics.median(s.rss_mb for s in steady) - before.rss_mb) / streams
    rows = [
        ("streams that ended, by kind", str(dict(callers.done)), "", True),
        ("failed", str(dict(callers.failed)), "none", not callers.failed),
        ("memory: growth after the warm-up", f"{slope:.2f} MB in 10 min", "< 0.5", slope < 0.5),
        ("memory: of a running stream", f"{each:.3f} MB", "≤ 0.3", each <= 0.3),
        ("memory: before, at the end, after", f"{before.rss_mb:.1f}, {steady[-1].rss_mb:.1f}, {after.rss_mb:.1f} MB", "", True),
        ("descriptors before, after", f"{before.descriptors}, {after.descriptors}", "equal", after.descriptors <= before.descriptors),
        ("threads before, after", f"{before.threads}, {after.threads}", "", True),
        ("Trio tasks before, after", f"{before.tasks}, {after.tasks}", "equal", after.tasks <= before.tasks),
        ("CPU", f"{cpu:.0%} of a core", "", True),
    ]
    print("\n| figure | value | target |\n|---|---|---|")
    for figure, value, target, met in rows:
        print(f"| {figure} | {value}{'' if met else ' (missed)'} | {target} |")
    return all(met for *_, met in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tasks", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.tasks)
        return 0
    with tempfile.TemporaryDirectory(prefix="gw-soak-") as folder:
        gateway = Gateway(Path(folder))
        try:
            callers, began = Callers(gateway.port), time.monotonic()
            used = cpu_s(gateway.process.pid)
            before, samples, after = trio.run(soak, gateway, callers, options.streams, options.minutes)
            cpu = (cpu_s(gateway.process.pid) - used) / (time.monotonic() - began)
        finally:
            gateway.process.send_signal(signal.SIGTERM)
            code = gateway.process.wait(60)
        lines = [line for line in gateway.log.read_text().splitlines() if '"level"' in line]
        for line in lines[:20]:
            print(line)
    met = report(before, samples, after, callers, options.streams, cpu)
    print(f"\nexit code {code}, {len(lines)} warnings in the log")
    return 0 if met and not code else 1


if __name__ == "__main__":
    sys.exit(main())
