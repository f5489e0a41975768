"""What the gateway recorded beside what the vendor billed: one row per model, with the likely cause of a difference.

A difference is flagged above the threshold, in percent of the vendor's figure. Causes: `coverage` (one side has
nothing, or the vendor counts clearly more or fewer requests), `units` (the same requests measured differently), `rate`
(the units agree and the money does not: the gateway's price is stale).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Literal

import attrs

from gw.errors import RequestError
from gw.reconcile.files import Billed, Form
from gw.store.rollups import ModelUsage
from gw.types.usage import NANO

Matched = Literal["both", "ours_only", "theirs_only"]
Cause = Literal["", "rate", "units", "coverage", "unpriced"]
THRESHOLD = 5.0
_DAY_ZERO = date(1970, 1, 1)


@attrs.frozen(kw_only=True)
class Compared:
    """One figure on both sides; None = that side has none."""

    ours: Decimal | None
    theirs: Decimal | None

    @property
    def diff(self) -> Decimal:
        """Ours less theirs."""
        return (self.ours or Decimal(0)) - (self.theirs or Decimal(0))

    @property
    def percent(self) -> float | None:
        """Of theirs; None where there is nothing to be a part of."""
        if not self.diff:
            return 0.0
        return float(self.diff / abs(self.theirs) * 100) if self.theirs else None

    def beyond(self, threshold: float) -> bool:
        percent = self.percent
        return bool(self.diff) and (percent is None or abs(percent) > threshold)


@attrs.frozen(kw_only=True)
class DiffRow:
    model: str
    matched: Matched
    units: Mapping[str, Compared]
    cost: Compared
    """USD."""
    requests: int | None
    """Of ours."""
    n_requests: int | None
    """Of theirs, where the file has it."""
    credits: int | None
    flagged: bool
    cause: Cause


@attrs.frozen(kw_only=True)
class Report:
    """`start` and `end` are UTC days, both inclusive; None = nothing is recorded."""

    provider: str
    modality: str
    start: date | None
    end: date | None
    threshold: float
    rows: tuple[DiffRow, ...]
    total: Compared

    @property
    def flagged(self) -> int:
        return sum(row.flagged for row in self.rows)

    def as_json(self) -> dict[str, object]:
        return {
            "provider": self.provider,
            "modality": self.modality,
            "window": {"start": _iso(self.start), "end": _iso(self.end)},
            "threshold": self.threshold,
            "rows": [_row_json(row) for row in self.rows],
            "total_cost_usd": _figures(self.total),
            "flagged": self.flagged,
        }


def window(start: str | None, end: str | None, recorded: tuple[int, int] | None) -> tuple[int, int] | None:
    """The UTC days to compare, from what was asked and the whole recorded range; None = nothing is recorded.

    Raises RequestError for a date that is none, or an end before the start.
    """
    first = _day(start, "start") if start else recorded[0] if recorded else None
    last = _day(end, "end") if end else recorded[1] if recorded else None
    if first is None or last is None:
        return None
    if last < first:
        if start and end:
            raise RequestError(what=f"the end {end} lies before the start {start}", param="end")
        return first, first
    return first, last


def date_of(day: int) -> date:
    return _DAY_ZERO + timedelta(days=day)


def _day(text: str, param: str) -> int:
    try:
        found = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise RequestError(what=f"{param} must be a date as 2026-01-31, not {text!r}", param=param) from None
    return (found - _DAY_ZERO).days


def reconcile(
    form: Form,
    recorded: Iterable[ModelUsage],
    billed: Mapping[str, Billed],
    days: tuple[int, int] | None,
    threshold: float = THRESHOLD,
) -> Report:
    """`recorded`: the sums per model of the gateway, in the same window. The rows that differ most come first."""
    ours: dict[str, ModelUsage] = {}
    for usage in recorded:
        ours[usage.model] = usage + ours[usage.model] if usage.model in ours else usage
    rows = [
        _compare(form, f"{form.provider}/{name}", ours.get(name), billed.get(name), threshold)
        for name in dict.fromkeys([*ours, *billed])
    ]
    rows.sort(key=lambda row: (not row.flagged, -abs(row.cost.diff), row.model))
    return Report(
        provider=form.provider,
        modality=form.modality,
        start=date_of(days[0]) if days else None,
        end=date_of(days[1]) if days else None,
        threshold=threshold,
        rows=tuple(rows),
        total=Compared(
            ours=sum((row.cost.ours or Decimal(0) for row in rows), Decimal(0)),
            theirs=sum((row.cost.theirs or Decimal(0) for row in rows), Decimal(0)),
        ),
    )


def _compare(form: Form, model: str, ours: ModelUsage | None, theirs: Billed | None, threshold: float) -> DiffRow:
    units = {
        unit: Compared(
            ours=None if ours is None else ours.units(unit), theirs=None if theirs is None else theirs.units[unit]
        )
        for unit in form.units
    }
    unpriced = ours is not None and ours.unpriced > 0
    cost = Compared(
        ours=None if ours is None else Decimal(ours.cost_nusd) / NANO,
        theirs=None if theirs is None else Decimal(theirs.cost_nusd) / NANO,
    )
    matched: Matched = "ours_only" if theirs is None else "theirs_only" if ours is None else "both"
    units_differ = any(compared.beyond(threshold) for compared in units.values())
    flagged = units_differ or cost.beyond(threshold) or matched != "both"
    cause: Cause = ""
    if matched != "both":
        cause = "coverage"
    elif flagged and units_differ:
        cause = "coverage" if _requests_differ(ours, theirs, threshold) else "units"
    elif flagged:
        cause = "unpriced" if unpriced else "rate"
    return DiffRow(
        model=model,
        matched=matched,
        units=units,
        cost=cost,
        requests=None if ours is None else ours.requests,
        n_requests=None if theirs is None else theirs.n_requests,
        credits=None if theirs is None else theirs.credits,
        flagged=flagged,
        cause=cause,
    )


def _requests_differ(ours: ModelUsage | None, theirs: Billed | None, threshold: float) -> bool:
    if ours is None or theirs is None or theirs.n_requests is None:
        return False
    return Compared(ours=Decimal(ours.requests), theirs=Decimal(theirs.n_requests)).beyond(threshold)


def _iso(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _figures(compared: Compared) -> dict[str, object]:
    return {
        "ours": None if compared.ours is None else float(compared.ours),
        "theirs": None if compared.theirs is None else float(compared.theirs),
        "diff": float(compared.diff),
        "percent": None if compared.percent is None else round(compared.percent, 4),
    }


def _row_json(row: DiffRow) -> dict[str, object]:
    return {
        "model": row.model,
        "matched": row.matched,
        "units": {unit: _figures(compared) for unit, compared in row.units.items()},
        "cost_usd": _figures(row.cost),
        "requests": row.requests,
        "n_requests": row.n_requests,
        "credits": row.credits,
        "flagged": row.flagged,
        "cause": row.cause,
    }
