"""The text of metrics for Prometheus, written a piece at a time: with hundreds of models it takes a tenth of a second.

`prometheus_client` writes it, and is loaded by the first scrape, in a thread.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs
import trio

from gw.telemetry.bucket_counts import BucketCounts

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

PIECE: Final = 20
"""Samples that are written before other tasks run: a fifth of a millisecond."""
_LIBRARY: Final = "prometheus_client.exposition"

Labels: TypeAlias = dict[str, str]
Sample: TypeAlias = tuple[str, Labels, float]
"""Name, labels and value of one line."""


@attrs.frozen
class Family:
    """Samples of one name. They are made while the text is written, so that they may be many; they must not change meanwhile."""

    name: str
    kind: str
    """`counter`, `gauge`, `histogram` or `summary`."""
    text: str
    samples: Iterator[Sample]


def family(name: str, kind: str, text: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    """Make a family of plain numbers."""
    own_name = name + "_total" if kind == "counter" else name
    return Family(name, kind, text, ((own_name, labels, value) for labels, value in samples))


def histogram(name: str, text: str, series: Iterable[tuple[Labels, BucketCounts]]) -> Family:
    return Family(name, "histogram", text, _histogram_samples(name, series))


def _histogram_samples(name: str, series: Iterable[tuple[Labels, BucketCounts]]) -> Iterator[Sample]:
    for labels, counts in series:
        pairs, sum_s = counts.cumulative(), counts.sum_s
        for le, count in pairs:
            yield name + "_bucket", {**labels, "le": le}, count
        yield name + "_count", labels, pairs[-1][1]
        yield name + "_sum", labels, sum_s


async def text_of(families: Iterable[Family]) -> bytes:
    """Return the Prometheus text format, version 0.0.4. Other tasks run in between."""
    if _LIBRARY not in sys.modules:
        await trio.to_thread.run_sync(partial(import_module, _LIBRARY))
    text = []
    for each in families:
        piece = list(islice(each.samples, PIECE))
        text.append(_written(each, piece))
        while len(piece) == PIECE:
            await trio.lowlevel.checkpoint()
            piece = list(islice(each.samples, PIECE))
            text.append(_written(each, piece).split(b"\n", 2)[2])  # without the two lines of its head, which it has already
        await trio.lowlevel.checkpoint()
    return b"".join(text)


@attrs.frozen
class _One:
    """A collector of one metric."""

    metric: Metric

    def collect(self) -> Iterable[Metric]:
        return (self.metric,)


def _written(each: Family, samples: Iterable[Sample]) -> bytes:
    from prometheus_client.core import Metric
    from prometheus_client.exposition import generate_latest

    metric = Metric(each.name, each.text, each.kind)
    for sample in samples:
        metric.add_sample(*sample)
    return generate_latest(cast("Collector", _One(metric)))
