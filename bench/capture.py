"""Cost of capturing text: chats through the relay of one process, of a project that captures everything and of two that capture nothing.

    python bench/capture.py [--requests 24000]

The three take turns in blocks, in an order that changes. Reported are the time to the first event and the processor time of the event
loop's thread for a request: of each block the median and the mean, and of the differences to the block of `off` in the same round the
median, so that what changes slowly on the machine is in neither.
`control` captures nothing either: its difference is what the measurement itself is wrong by. The writer's thread is not in the
processor time, but its hold on the interpreter is in both.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from functools import partial
from operator import sub, truediv
from pathlib import Path

import attrs
import trio

from gw.config.parse import parse
from gw.gateway import Gateway, open_gateway
from gw.telemetry.process_limits import tune_interpreter
from gw.types.ids import Caller
from gw.wire.openai_chat import parse_request

CONFIG = """
providers: {sim: {latency_ms: 0, token_ms: 0}}
models: {llm: [sim/echo]}
projects: {on: {capture: {text: true, share: 1}}, control: {}, off: {}}
"""
PROJECTS = ("on", "control", "off")
BLOCK = 50
TEXT = b"Hello there, my number is +49 171 1234567 and I would like to know when my parcel will arrive. " * 3
BODY = b'{"model":"sim/echo","stream":true,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"%s"}]}'


async def chat(gateway: Gateway, project: str) -> float:
    """Return the seconds to the first event."""
    began = time.perf_counter()
    async with gateway.relay.chat(parse_request(BODY % TEXT), Caller(project=project)) as answer:
        await answer.receive()
        first_s = time.perf_counter() - began
        while not answer.done:
            await answer.receive()
    return first_s


async def run(requests: int, pause_s: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = parse(CONFIG, file="gw.yaml", env={"GW_SECRET": "a secret for the bench"}, data_dir=Path(folder))
        async with open_gateway(attrs.evolve(settings, secret_folder=Path(folder))) as gateway:
            first_us: dict[str, list[float]] = {name: [] for name in PROJECTS}
            cpu_us: dict[str, list[float]] = {name: [] for name in PROJECTS}
            for number in range(requests // BLOCK // len(PROJECTS) * len(PROJECTS)):
                project = PROJECTS[(number + number // len(PROJECTS)) % len(PROJECTS)]
                before, times = time.thread_time(), []
                for _ in range(BLOCK):
                    times.append(await chat(gateway, project))
                    await trio.sleep(pause_s)
                cpu_us[project].append((time.thread_time() - before) / BLOCK * 1e6)
                first_us[project].append(statistics.median(times) * 1e6)
            assert gateway.captures is not None
            await gateway.captures.flush()
            print(attrs.asdict(gateway.captures.counters))
            for name in PROJECTS:
                first, cpu = statistics.median(first_us[name]), statistics.median(cpu_us[name])
                added = statistics.median(map(sub, first_us[name], first_us["off"]))
                share = statistics.median(map(truediv, cpu_us[name], cpu_us["off"])) - 1
                print(f"{name:8} first event {first:7.1f} us ({added:+6.1f} us)   event loop {cpu:7.1f} us a request ({share:+6.1%})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=24_000)
    parser.add_argument("--pause-ms", type=float, default=1.0, help="between two requests")
    arguments = parser.parse_args()
    tune_interpreter()
    trio.run(partial(run, arguments.requests, arguments.pause_ms / 1000))
