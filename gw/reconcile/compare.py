"""One reconciliation: a vendor's file against the database, for the command line, MCP and the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import trio

from gw.errors import RequestError
from gw.reconcile.diff import THRESHOLD, Reconciled, reconcile, window
from gw.reconcile.files import FORMS, Form, Progress, read_usage
from gw.registry.catalog import Provider
from gw.store.store import Reader


def form_of(provider: str) -> Form:
    """Raises RequestError naming the vendors that have a canonical form."""
    form = FORMS.get(provider)
    if form is None:
        what = f"{provider!r} has no canonical usage file; these have one: {', '.join(FORMS)}"
        raise RequestError(what=what, param="provider")
    return form


def entries_of(form: Form, providers: Mapping[str, Provider]) -> list[str]:
    """Return the provider ids of this vendor: by type, and the vendor's own name, which may have been in use before."""
    return list(dict.fromkeys([form.provider, *(p.id for p in providers.values() if p.type == form.provider)]))


async def compare(
    reader: Reader,
    providers: Mapping[str, Provider],
    *,
    provider: str,
    file: Path,
    start: str | None = None,
    end: str | None = None,
    threshold: float = THRESHOLD,
    on_progress: Progress | None = None,
) -> Reconciled:
    """Compare the days from `start` to `end`, both inclusive, as 2026-01-31; default: all recorded days.

    When cancelled, reading ends within some thousand rows. Raises RequestError for invalid arguments and files,
    StoreUnavailable.
    """
    if not 0 <= threshold <= 1_000_000:
        raise RequestError(what="the threshold is a percentage of 0 or more", param="threshold")
    form = form_of(provider)
    ids = entries_of(form, providers)
    window(start, end, None)  # report invalid dates before a large file is read

    def report_progress(done: int, total: int) -> None:
        trio.from_thread.check_cancelled()
        if on_progress is not None:
            on_progress(done, total)

    billed = await trio.to_thread.run_sync(partial(read_usage, file, form, on_progress=report_progress))
    days = window(start, end, await reader.recorded_days(form.modality, ids))
    usage = await reader.usage_by_model(*days, form.modality, ids) if days else []
    return reconcile(form, usage, billed, days, threshold)
