"""Recorded usage compared with the vendor's bill: one row per model, with the likely cause of a difference.

A difference is flagged above the threshold, in percent of the vendor's figure. Causes: `coverage` (one side has
nothing, or the vendor counts clearly more or fewer requests), `units` (the same requests measured differently), `rate`
(the units agree but the money does not: the gateway's price is stale).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import trio

from gw.errors import RequestError
from gw.reconcile.files import FORMS, Billed, Form, Progress, read_usage
from gw.registry.catalog import Provider
from gw.store.rollups import ModelUsage
from gw.store.store import Reader
from gw.types.usage import NANO

Matched = Literal["both", "ours_only", "theirs_only"]
Cause = Literal["", "rate", "units", "coverage", "unpriced"]
THRESHOLD = 5.0
_DAY_ZERO = date(1970, 1, 1)


class ComparedFigures(msgspec.Struct, frozen=True):
    """One figure of the gateway (`ours`) and of the vendor (`theirs`); null = that side has none.

    `percent` is the difference in percent of the vendor's figure; null where that is 0 or missing.
    """

    ours: float | None
    theirs: float | None
    diff: float
    percent: float | None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """`requests` is the gateway's count, `n_requests` the vendor's, where the file has it."""

    model: str
    matched: Matched
    units: dict[str, ComparedFigures]
    cost_usd: ComparedFigures
    requests: int | None
    n_requests: int | None
    credits: int | None
    flagged: bool
    cause: Cause


class Window(msgspec.Struct, frozen=True):
    """UTC days, both inclusive; null = nothing is recorded."""

    start: str | None
    end: str | None


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """`flagged`: number of flagged rows."""

    provider: str
    modality: str
    window: Window
    threshold: float
    rows: list[Difference]
    total_cost_usd: ComparedFigures
    flagged: int


def compared(ours: Decimal | None, theirs: Decimal | None, threshold: float) -> tuple[ComparedFigures, bool]:
    """Compare two figures exactly; return them, and whether the difference exceeds the threshold."""
    diff = (ours or Decimal(0)) - (theirs or Decimal(0))
    percent = float(diff / abs(theirs) * 100) if theirs else None if diff else 0.0
    figures = ComparedFigures(
        None if ours is None else float(ours),
        None if theirs is None else float(theirs),
        float(diff),
        None if percent is None else round(percent, 4),
    )
    return figures, bool(diff) and (percent is None or abs(percent) > threshold)


def window(start: str | None, end: str | None, recorded: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the first and last UTC day to compare; a missing date is taken from `recorded`, None = nothing to compare.

    Raises RequestError for an invalid date, or an end before the start.
    """
    first = _day(start, "start") if start else recorded[0] if recorded else None
    last = _day(end, "end") if end else recorded[1] if recorded else None
    if first is None or last is None:
        return None
    if last < first:
        if start and end:
            raise RequestError(what=f"the end {end} is before the start {start}", param="end")
        return first, first
    return first, last


def _day(text: str, param: str) -> int:
    try:
        parsed = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise RequestError(what=f"{param} must be a date as 2026-01-31, not {text!r}", param=param) from None
    return (parsed - _DAY_ZERO).days


def reconcile(
    form: Form, usage: Iterable[ModelUsage], billed: Mapping[str, Billed], days: tuple[int, int] | None,
    threshold: float = THRESHOLD,
) -> Reconciled:  # fmt: skip
    """Compare the gateway's sums with the vendor's for the same days. Rows with the largest difference come first."""
    recorded: dict[str, ModelUsage] = {}
    for sums in usage:
        recorded[sums.model] = sums + recorded[sums.model] if sums.model in recorded else sums
    names = dict.fromkeys([*recorded, *billed])
    rows = [_row(form, name, recorded.get(name), billed.get(name), threshold) for name in names]
    rows.sort(key=lambda row: (not row.flagged, -abs(row.cost_usd.diff), row.model))
    ours = sum(usage.cost_nusd for usage in recorded.values())
    theirs = sum(sums.cost_nusd for sums in billed.values())
    return Reconciled(
        provider=form.provider,
        modality=form.modality,
        window=Window(*((_DAY_ZERO + timedelta(days=day)).isoformat() for day in days)) if days else Window(None, None),
        threshold=threshold,
        rows=rows,
        total_cost_usd=compared(Decimal(ours) / NANO, Decimal(theirs) / NANO, threshold)[0],
        flagged=sum(row.flagged for row in rows),
    )


def _row(form: Form, name: str, recorded: ModelUsage | None, billed: Billed | None, threshold: float) -> Difference:
    units = {
        unit: compared(
            None if recorded is None else recorded.units(unit), None if billed is None else billed.units[unit], threshold
        )
        for unit in form.units
    }
    cost, cost_differs = compared(_usd(recorded), _usd(billed), threshold)
    cause: Cause = ""
    if recorded is None or billed is None:
        cause = "coverage"
    elif any(differs for _, differs in units.values()):
        ours, theirs = recorded.requests, billed.n_requests
        other_requests = theirs is not None and compared(Decimal(ours), Decimal(theirs), threshold)[1]
        cause = "coverage" if other_requests else "units"
    elif cost_differs:
        cause = "unpriced" if recorded.unpriced else "rate"
    return Difference(
        model=f"{form.provider}/{name}",
        matched="ours_only" if billed is None else "theirs_only" if recorded is None else "both",
        units={unit: figures for unit, (figures, _) in units.items()},
        cost_usd=cost,
        requests=None if recorded is None else recorded.requests,
        n_requests=None if billed is None else billed.n_requests,
        credits=None if billed is None else billed.credits,
        flagged=bool(cause),
        cause=cause,
    )


def _usd(sums: ModelUsage | Billed | None) -> Decimal | None:
    return None if sums is None else Decimal(sums.cost_nusd) / NANO


async def compare(
    reader: Reader, providers: Mapping[str, Provider], *, provider: str, file: Path, start: str | None = None,
    end: str | None = None, threshold: float = THRESHOLD, on_progress: Progress | None = None,
) -> Reconciled:  # fmt: skip
    """Compare the days from `start` to `end`, both inclusive, as 2026-01-31; default: all recorded days.

    When cancelled, reading ends within some thousand rows. Raises RequestError for invalid arguments and files,
    StoreUnavailable.
    """
    if not 0 <= threshold <= 1_000_000:
        raise RequestError(what="the threshold is a percentage of 0 or more", param="threshold")
    form = FORMS.get(provider)
    if form is None:
        what = f"{provider!r} has no canonical usage file; these have one: {', '.join(FORMS)}"
        raise RequestError(what=what, param="provider")
    # the vendor's own name may have been in use before an entry of its type was renamed
    ids = list(dict.fromkeys([form.provider, *(p.id for p in providers.values() if p.type == form.provider)]))
    window(start, end, None)  # report invalid dates before a large file is read

    def report_progress(done: int, total: int) -> None:
        trio.from_thread.check_cancelled()
        if on_progress is not None:
            on_progress(done, total)

    billed = await trio.to_thread.run_sync(partial(read_usage, file, form, on_progress=report_progress))
    days = window(start, end, await reader.recorded_days(form.modality, ids))
    usage = await reader.usage_by_model(*days, form.modality, ids) if days else []
    return reconcile(form, usage, billed, days, threshold)
