"""Entry point of a worker process: what the daemon does without, a worker does without as well."""

from __future__ import annotations

import gc

from gw.telemetry.lean_start import import_leanly


def main() -> None:
    gc.disable()  # until it begins to work: collections while modules load find nothing
    import_leanly()
    from gw.workers.worker_main import main as run_worker

    run_worker()
