"""A log record as a row. Times on a terminal carry their unit; in a pipe they are milliseconds, and costs are dollars."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gw.cli.output import Cell, ms, usd


def columns() -> tuple[str, ...]:
    measures = ("ttfb", "total", "cost") if sys.stdout.isatty() else ("ttfb_ms", "total_ms", "cost_usd")
    return ("time", "project", "modality", "model", "status", *measures, "id")


def row_of(record: Mapping[str, Any]) -> list[Cell]:
    at = datetime.fromtimestamp(record["timestamp"], UTC)
    facts: list[Cell] = [record["project"], record["modality"], record["model_id"], record["status"]]
    first, total, cost = record.get("ttfb_ms"), record["total_latency_ms"], record.get("cost_usd")
    if sys.stdout.isatty():
        measures: list[Cell] = ["" if first is None else ms(first), ms(total), usd(cost)]
        return [f"{at:%m-%d %H:%M:%S}", *facts, *measures, record.get("id", "")[:8]]
    exact = None if cost is None else f"{cost:.9f}"
    return [at.isoformat(timespec="milliseconds"), *facts, first, total, exact, record.get("id", "")]
