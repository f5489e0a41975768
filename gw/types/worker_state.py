"""Figures of the worker processes of a gateway, as they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from gw.types.gate_view import GateView


class WorkerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures that a worker sends every second."""

    in_flight: int = 0
    """Requests and sessions of apps that run now."""
    connections: int = 0
    """Open connections of callers."""
    accepted: int = 0
    """Connections accepted since the worker began."""
    requests: int = 0
    """Requests of apps since the worker began."""
    handed_over: int = 0
    """Connections given to the keeper since the worker began."""
    cpu_s: float = 0.0
    """Processor time since the worker began."""
    records_waiting: int = 0
    """Finished records that the keeper has not committed yet."""
    journal_bytes: int = 0
    keeps_records: bool = True
    """False while a record could be lost: its journal is full or cannot be written."""
    records_dropped: int = 0
    log_lines_dropped: int = 0
    trouble: str = ""
    """Why records could be lost; empty = they could not."""
    shadow_calls: int = 0
    """Calls of second models that run, and those whose recording is being copied."""
    fleet_phrases: Mapping[str, int] = {}
    """Fate of phrases of the cache in the fleet → how many, since the worker began."""
    gates: Mapping[str, GateView] = {}
    """Gates by name; those of the keys of projects only while something is to be said about them."""


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process of a gateway."""

    worker: int
    """Number of the worker, from 1."""
    pid: int
    """Process id; 0 while no process runs."""
    state: Literal["starting", "serving", "draining", "ended"]
    starts: int
    """Processes that were started for it so far."""
    figures: WorkerFigures = WorkerFigures()
