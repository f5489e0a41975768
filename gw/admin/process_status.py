"""The processes of a gateway as the API shows them: its workers, and the journals in which their records wait."""

from __future__ import annotations

from typing import Literal

from gw.admin.schemas import Schema, from_attributes
from gw.store.journal_use import JournalUse
from gw.types.worker_state import WorkerState


class WorkerStatus(Schema):
    worker: int
    """Number of the worker, from 1."""
    pid: int
    state: Literal["starting", "serving", "draining", "ended"]
    starts: int
    """Processes that were started for it since the gateway began."""
    in_flight: int
    """Requests and sessions of apps that run now."""
    connections: int
    """Open connections of callers."""
    accepted: int
    """Connections since the process began, those given to the keeper included."""
    handed_over: int
    """Connections given to the keeper."""
    requests: int
    """Finished requests since the process began."""
    cpu_s: float
    """Processor time since the process began."""
    records_waiting: int
    """Finished requests that are in the worker's journal only."""
    journal_bytes: int
    trouble: str
    """Why records could be lost; empty = they could not."""


class JournalStatus(Schema):
    """The journals of all processes: what they have done, until the database has it."""

    records_waiting: int
    """Finished requests that are not in the database yet."""
    bytes: int
    limit_bytes: int
    """Size up to which the journals may grow (`cost_tracking.journal_mb`)."""
    keeps_records: bool
    """False while a record could be lost, because a journal is full or cannot be written."""


def worker_status(worker: WorkerState) -> WorkerStatus:
    own = {name: getattr(worker, name) for name in ("worker", "pid", "state", "starts")}
    return from_attributes(WorkerStatus, worker.figures, **own)


def journal_status(journals: JournalUse) -> JournalStatus:
    return from_attributes(JournalStatus, journals)
