"""One reconciliation: the vendor's file against the database. Shared by the command line, MCP and the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import trio

from gw.errors import RequestError
from gw.reconcile.diff import THRESHOLD, Report, reconcile, window
from gw.reconcile.files import FORMS, Form, Progress, read_usage
from gw.registry.catalog import Provider
from gw.store.store import Reader


def form_of(provider: str) -> Form:
    """Raises RequestError naming the vendors that have a canonical form."""
    form = FORMS.get(provider)
    if form is None:
        what = f"there is no canonical usage file of {provider!r}; there is one of {', '.join(FORMS)}"
        raise RequestError(what=what, param="provider")
    return form


def entries_of(form: Form, providers: Mapping[str, Provider]) -> list[str]:
    """Ids of the entries that are this vendor's: by type, and the vendor's own name, which may have been configured once."""
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
) -> Report:
    """Dates are UTC days as 2026-01-31, both inclusive; without them the whole recorded range.

    `on_progress` is told how much of the file is read. When cancelled, reading ends within some thousand rows.
    Raises RequestError for anything wrong with the arguments or the file, StoreUnavailable.
    """
    if not 0 <= threshold <= 1_000_000:
        raise RequestError(what="the threshold is a percentage of 0 or more", param="threshold")
    form = form_of(provider)
    ids = entries_of(form, providers)
    window(start, end, None)  # dates that are none are told before a large file is read

    def step(done: int, total: int) -> None:
        trio.from_thread.check_cancelled()
        if on_progress is not None:
            on_progress(done, total)

    billed = await trio.to_thread.run_sync(partial(read_usage, file, form, on_progress=step))
    days = window(start, end, await reader.recorded_days(form.modality, ids))
    ours = await reader.usage_by_model(*days, form.modality, ids) if days else []
    return reconcile(form, ours, billed, days, threshold)
