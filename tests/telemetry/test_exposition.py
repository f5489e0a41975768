"""The text of many samples: what `prometheus_client` writes at once, in pieces between which requests are served."""

from __future__ import annotations

import subprocess
import sys

import pytest
import trio
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from gw.telemetry.bucket_counts import BucketCounts
from gw.telemetry.exposition import PIECE, family, histogram, text_of

BOUNDS_S = (0.1, 1.0)


def durations(count: int):
    for number in range(count):
        counts = BucketCounts(BOUNDS_S)
        counts.observe_ms(10.0 * number)
        yield {"model": f"a/{number}"}, counts


class Whole(Collector):
    """The same metrics in one piece."""

    def __init__(self, count):
        self.count = count

    def collect(self):
        plain = Metric("gw_some", "Text with a \\ and\na line.", "counter")
        for number in range(self.count):
            plain.add_sample("gw_some_total", {"name": f'"{number}"'}, number)
        yield plain
        metric = Metric("gw_long_seconds", "More.", "histogram")
        for labels, counts in durations(self.count):
            for le, value in counts.cumulative():
                metric.add_sample("gw_long_seconds_bucket", {**labels, "le": le}, value)
            metric.add_sample("gw_long_seconds_count", labels, 1)
            metric.add_sample("gw_long_seconds_sum", labels, counts.sum_s)
        yield metric


def families(count):
    yield family("gw_some", "counter", "Text with a \\ and\na line.", [({"name": f'"{n}"'}, n) for n in range(count)])
    yield histogram("gw_long_seconds", "More.", durations(count))


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
async def test_pieces_are_the_whole(count):
    assert await text_of(families(count)) == generate_latest(Whole(count))


async def test_other_tasks_run_between_pieces():
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        await trio.lowlevel.checkpoint()
        before = turns
        await text_of([histogram("gw_long_seconds", "Text.", durations(20 * PIECE))])
        assert turns - before >= 20 * (len(BOUNDS_S) + 3)  # samples of each: buckets, the last one, count and sum
        nursery.cancel_scope.cancel()


def test_the_library_is_loaded_by_the_first_scrape():
    program = """
import sys, trio
from gw.telemetry.exposition import family, text_of
assert "prometheus_client" not in sys.modules
print(trio.run(text_of, [family("gw_one", "gauge", "Text.", [({}, 1)])]).decode())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[2] == "gw_one 1.0"
