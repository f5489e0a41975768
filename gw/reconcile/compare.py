"""Recorded usage compared with the vendor's bill: one row per model, with the likely cause of a difference.

A difference is flagged above the threshold, in percent of the vendor's figure. What the vendor's files do not have (units
or money) is not compared. Causes: `coverage` (one side has nothing, or the vendor counts clearly more or fewer requests),
`units` (the same requests measured differently), `rate` (the units agree but the money does not: the gateway's price is
stale).

A vendor bills snapshots (`gpt-4o-2024-08-06`) of models that apps call by another name (`gpt-4o`): see `_joined`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import msgspec
import trio

from gw.errors import RequestError
from gw.reconcile.charges import DAY_ZERO
from gw.reconcile.files import Billed, Form, Progress, VendorBill, form_of, parse_columns, read_bill
from gw.reconcile.reconciled import THRESHOLD, Cause, ComparedFigures, Difference, Reconciled, Window
from gw.registry.catalog import Catalog
from gw.store.rollups import ModelUsage
from gw.store.store import Reader
from gw.types.ids import Modality, split_model_id
from gw.types.usage import NANO

_SNAPSHOT = re.compile(r"([-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|latest|general))+$")
"""Endings of a model's name that say which edition of it answers: dates, `latest`, and Deepgram's `general`."""


def compared(
    ours: Decimal | None, theirs: Decimal | None, threshold: float, *, billed: bool = True
) -> tuple[ComparedFigures, bool]:
    """Compare two figures exactly; return them, and whether the difference exceeds the threshold.

    `billed`: the vendor's files have this figure.
    """
    if not billed:
        return ComparedFigures(None if ours is None else float(ours), None, None, None), False
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
    return (parsed - DAY_ZERO).days


def reconcile(
    form: Form, usage: Iterable[ModelUsage], bill: VendorBill, days: tuple[int, int] | None, threshold: float = THRESHOLD
) -> Reconciled:
    """Compare the gateway's sums with the vendor's for the same days. Rows with the largest difference come first."""
    recorded: dict[str, ModelUsage] = {}
    for sums in usage:
        recorded[sums.model] = sums + recorded[sums.model] if sums.model in recorded else sums
    recorded, billed = _joined(recorded, bill.sums)
    rows = [
        _row(form, name, recorded.get(name), billed.get(name), bill.sums.values(), threshold)
        for name in dict.fromkeys([*recorded, *billed])
    ]
    rows.sort(key=lambda row: (not row.flagged, -abs(row.cost_usd.diff or 0), row.model))
    ours = sum(usage.cost_nusd for usage in recorded.values())
    costs = [sums.cost_nusd for sums in billed.values() if sums.cost_nusd is not None]
    priced = bool(costs) or not billed
    return Reconciled(
        provider=form.provider,
        modality=form.modality,
        window=Window(*((DAY_ZERO + timedelta(days=day)).isoformat() for day in days)) if days else Window(None, None),
        threshold=threshold,
        rows=rows,
        total_cost_usd=compared(Decimal(ours) / NANO, Decimal(sum(costs)) / NANO, threshold, billed=priced)[0],
        flagged=sum(row.flagged for row in rows),
        left_out=bill.left_out,
    )


def _joined(
    recorded: Mapping[str, ModelUsage], billed: Mapping[str, Billed]
) -> tuple[dict[str, ModelUsage], dict[str, Billed]]:
    """Bring both sides to the same names.

    Where they have different editions of a model, all its editions become one row under the name without the edition. Where
    they have the same ones, each keeps its row.
    """

    def name_of(name: str) -> str:
        base = _SNAPSHOT.sub("", name)
        return name if names_of(recorded, base) == names_of(billed, base) else base

    def names_of(side: Iterable[str], base: str) -> set[str]:
        return editions.get(base, set()).intersection(side)

    editions: dict[str, set[str]] = {}
    for name in (*recorded, *billed):
        editions.setdefault(_SNAPSHOT.sub("", name), set()).add(name)
    ours: dict[str, ModelUsage] = {}
    for name, sums in recorded.items():
        joined = name_of(name)
        sums = msgspec.structs.replace(sums, model=joined)
        ours[joined] = ours[joined] + sums if joined in ours else sums
    theirs: dict[str, Billed] = {}
    for name, charged in billed.items():
        joined = name_of(name)
        theirs[joined] = theirs[joined] + charged if joined in theirs else charged
    return ours, theirs


def _row(
    form: Form, name: str, recorded: ModelUsage | None, billed: Billed | None, all_billed: Iterable[Billed], threshold: float
) -> Difference:  # fmt: skip
    bills = list(all_billed) if billed is None else [billed]
    units = {
        unit: compared(
            None if recorded is None else recorded.units(unit),
            None if billed is None else billed.units.get(unit),
            threshold,
            billed=not bills or any(unit in sums.units for sums in bills),
        )
        for unit in form.units
    }
    priced = not bills or any(sums.cost_nusd is not None for sums in bills)
    cost, cost_differs = compared(_usd(recorded), _usd(billed), threshold, billed=priced)
    cause: Cause = ""
    if recorded is None or billed is None:
        cause = "coverage"
    elif any(differs for _, differs in units.values()):
        ours, theirs = recorded.calls, billed.n_requests
        other_requests = theirs is not None and compared(Decimal(ours), Decimal(theirs), threshold)[1]
        cause = "coverage" if other_requests else "units"
    elif cost_differs:
        cause = "unpriced" if recorded.unpriced else "rate"
    return Difference(
        model=f"{form.provider}/{name}",
        names=() if billed is None or billed.names == (name,) else billed.names,
        matched="ours_only" if billed is None else "theirs_only" if recorded is None else "both",
        units={unit: figures for unit, (figures, _) in units.items()},
        cost_usd=cost,
        requests=None if recorded is None else recorded.calls,
        n_requests=None if billed is None else billed.n_requests,
        credits=None if billed is None else billed.credits,
        flagged=bool(cause),
        cause=cause,
    )


def _usd(sums: ModelUsage | Billed | None) -> Decimal | None:
    return None if sums is None or sums.cost_nusd is None else Decimal(sums.cost_nusd) / NANO


async def compare(
    reader: Reader, catalog: Catalog, *, provider: str, files: Sequence[Path], modality: Modality | None = None,
    start: str | None = None, end: str | None = None, threshold: float = THRESHOLD, on_progress: Progress | None = None,
    columns: Sequence[str] = (),
) -> Reconciled:  # fmt: skip
    """Compare the days from `start` to `end`, both inclusive, as 2026-01-31; default: all recorded days.

    When cancelled, reading ends within some thousand rows. Raises RequestError for invalid arguments and files,
    StoreUnavailable.
    """
    if not 0 <= threshold <= 1_000_000:
        raise RequestError(what="the threshold is a percentage of 0 or more", param="threshold")
    form = form_of(provider, modality)
    named_columns = parse_columns(columns, form)
    # the vendor's own name may have been in use before an entry of its type was renamed
    entries = (p.id for p in catalog.providers.values() if p.type == form.provider)
    ids = list(dict.fromkeys([form.provider, *entries]))
    window(start, end, None)  # report invalid dates before a large file is read

    def report_progress(done: int, total: int) -> None:
        trio.from_thread.check_cancelled()
        if on_progress is not None:
            on_progress(done, total)

    wanted_days = (_day(start, "start") if start else None, _day(end, "end") if end else None)
    names = {model.id: model.name for model in catalog.by_modality[form.modality].values() if model.provider in ids}
    others = _other_names(catalog, form, ids) - set(names.values())

    def is_other(name: str) -> bool:
        return name in others or _SNAPSHOT.sub("", name) in others

    reading = partial(read_bill, files, form, days=wanted_days, is_other=is_other, on_progress=report_progress, columns=named_columns)
    bill = await trio.to_thread.run_sync(reading)
    days = window(start, end, await reader.recorded_days(form.modality, ids))
    usage = await reader.usage_by_model(*days, form.modality, ids) if days else []
    named = [
        msgspec.structs.replace(sums, model=names.get(sums.model) or split_model_id(sums.model)[1]) for sums in usage
    ]
    return reconcile(form, named, bill, days, threshold)


def _other_names(catalog: Catalog, form: Form, ids: Sequence[str]) -> frozenset[str]:
    """Return the vendor's names of the configured models of another modality."""
    return frozenset(
        model.name
        for modality, models in catalog.by_modality.items()
        if modality != form.modality
        for model in models.values()
        if model.provider in ids
    )
