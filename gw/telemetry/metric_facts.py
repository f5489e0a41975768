"""Values that a scrape of the metrics reads from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gw.telemetry.histogram import Histogram
from gw.types.span_counts import SpanCounts
from gw.types.worker_state import WorkerState


class MetricFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Values read from the catalog, the store and the limits at a scrape."""

    uptime_s: float
    version: str
    providers_configured: int
    cost_today_nusd: int
    provider_up: Mapping[str, bool] = msgspec.field(default_factory=dict)
    """Provider id → whether it is configured and its breaker is not open."""
    in_flight: int = 0
    write_queue_depth: int = 0
    journal_bytes: int = 0
    journal_limit_bytes: int = 0
    store_degraded: bool = False
    reload_failed: bool = False
    retention_held: bool = False
    log_lines_dropped: int = 0
    records_set_aside: int = 0
    records_dropped: int = 0
    capture_pieces: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Fate of captured pieces → how many."""
    capture_bytes: int = 0
    capture_queue_depth: int = 0
    spans: SpanCounts | None = None
    """None: nothing is exported by OTLP."""
    fleet_members: int = 1
    fleet_alone_s: float = 0.0
    """Seconds without an answer of the fleet's bank, since the start."""
    fleet_phrases: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Phrases that were to be stored in the fleet or loaded from it: their fate → how many."""
    workers: Sequence[WorkerState] = ()
    """Processes that serve apps; none where one process does everything."""
    first_audio: Mapping[str, Histogram] = msgspec.field(default_factory=dict)
    """Project → first audio of its turns of the current UTC day."""
