"""Cost of capturing text: chats through the relay of one process, of a project that captures everything and of one that does not.

    python bench/capture.py [--requests 4000]

Both kinds take turns in blocks, so that whatever else the machine does meets both alike. Reported are the median time to the first
event, and the processor time of the event loop's thread for a request. The writer's thread is not in that, but its hold on the
interpreter is.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import attrs
import trio

from gw.config.parse import parse
from gw.gateway import Gateway, open_gateway
from gw.types.ids import Caller
from gw.wire.openai_chat import parse_request

CONFIG = """
providers: {sim: {latency_ms: 0, token_ms: 0}}
models: {llm: [sim/echo]}
projects: {on: {capture: {text: true, share: 1}}, off: {}}
"""
BLOCK = 100
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
            first: dict[str, list[float]] = {"on": [], "off": []}
            cpu_s: dict[str, list[float]] = {"on": [], "off": []}
            for number in range(requests // BLOCK):
                project = ("on", "off")[number % 2]
                before = time.thread_time()
                for _ in range(BLOCK):
                    first[project].append(await chat(gateway, project))
                    await trio.sleep(pause_s)
                cpu_s[project].append((time.thread_time() - before) / BLOCK)
            assert gateway.captures is not None
            await gateway.captures.flush()
            print(attrs.asdict(gateway.captures.counters))
            for project in first:
                p50, cpu = statistics.median(first[project]), statistics.median(cpu_s[project])
                print(f"{project:4} first event p50 {p50 * 1e6:8.1f} us   event loop {cpu * 1e6:8.1f} us a request")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4_000)
    parser.add_argument("--pause-ms", type=float, default=1.0, help="between two requests")
    arguments = parser.parse_args()
    trio.run(partial(run, arguments.requests, arguments.pause_ms / 1000))
