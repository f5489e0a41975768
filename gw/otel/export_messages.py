"""Messages between the gateway and the process that exports telemetry, as pickles over pipes (`gw.store.pipe_messages`).

The gateway sends an ExportStart, then batches; each batch is answered with the counters as they are then. An ExportClose is answered
last, when everything was sent or its time is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import attrs
import msgspec

Signal = Literal["traces", "metrics", "logs"]


@attrs.frozen(kw_only=True)
class ExportStart:
    """The collector's address and what to export. `headers` hold secrets, so this goes over a pipe and not on a command line."""

    endpoint: str
    """Base address; "" = that of the environment, else http://localhost:4318."""
    headers: dict[str, str] = attrs.field(repr=False)
    signals: tuple[Signal, ...]
    ratio: float
    service: str
    """Name of the service; "" = that of the environment, else `gw`."""
    instance: str
    version: str


def period_s(environment: Mapping[str, str], variable: str, default: float) -> float:
    """Return the milliseconds of one of OpenTelemetry's variables in seconds; `default` without a whole number above 0."""
    value = environment.get(variable, "")
    return int(value) / 1_000 if value.isdecimal() and int(value) else default


class ExportBatch(NamedTuple):
    """Lines of committed records; none, to hear the counters. `is_last`: the process need not wait for more before it exports them."""

    lines: Sequence[bytes]
    is_last: bool = True


class ExportClose(NamedTuple):
    """Nothing more comes: send what waits, for `within_s` at most."""

    within_s: float


class ExportCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Spans since the process was started, and the last fault of an export; "" = the last one worked."""

    exported: int = 0
    queue_full: int = 0
    """Dropped, oldest first, because the collector was slower or away."""
    rejected: int = 0
    """Dropped because the collector does not accept them."""
    unsent: int = 0
    """Dropped at the end, because there was no time left."""
    pending: int = 0
    error: str = ""
