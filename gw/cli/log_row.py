"""A log record as a row of a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from gw.cli.output import Cell, duration, money, timestamp, with_units


def columns() -> tuple[str, ...]:
    return ("time", "project", "modality", "model", "status", *with_units("ttfb", "total", "cost"), "id")


def row_of(record: Mapping[str, Any]) -> list[Cell]:
    facts: list[Cell] = [record[name] for name in ("project", "modality", "model_id", "status")]
    times = [duration(record.get("ttfb_ms")), duration(record["total_latency_ms"])]
    id_ = record.get("id", "")[: 8 if sys.stdout.isatty() else None]
    return [timestamp(record["timestamp"]), *facts, *times, money(record.get("cost_usd")), id_]
