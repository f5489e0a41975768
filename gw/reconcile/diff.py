"""Recorded usage compared with the vendor's bill: one row per model, with the likely cause of a difference.

A difference is flagged above the threshold, in percent of the vendor's figure. Causes: `coverage` (one side has
nothing, or the vendor counts clearly more or fewer requests), `units` (the same requests measured differently), `rate`
(the units agree but the money does not: the gateway's price is stale).
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


@attrs.frozen
class Compared:
    """One figure of the gateway (`ours`) and of the vendor (`theirs`); None = that side has none."""

    ours: Decimal | None
    theirs: Decimal | None

    @property
    def diff(self) -> Decimal:
        """The gateway's figure less the vendor's."""
        return (self.ours or Decimal(0)) - (self.theirs or Decimal(0))

    @property
    def percent(self) -> float | None:
        """The difference in percent of the vendor's figure; None where that is 0 or missing."""
        if not self.diff:
            return 0.0
        return float(self.diff / abs(self.theirs) * 100) if self.theirs else None

    def exceeds(self, threshold: float) -> bool:
        percent = self.percent
        return bool(self.diff) and (percent is None or abs(percent) > threshold)

    def as_json(self) -> dict[str, object]:
        return {
            "ours": None if self.ours is None else float(self.ours),
            "theirs": None if self.theirs is None else float(self.theirs),
            "diff": float(self.diff),
            "percent": None if self.percent is None else round(self.percent, 4),
        }


@attrs.frozen(kw_only=True)
class DiffRow:
    model: str
    matched: Matched
    units: Mapping[str, Compared]
    cost: Compared
    """USD."""
    requests: int | None
    """The gateway's count."""
    n_requests: int | None
    """The vendor's count, where the file has it."""
    credits: int | None
    flagged: bool
    cause: Cause

    def as_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "matched": self.matched,
            "units": {unit: compared.as_json() for unit, compared in self.units.items()},
            "cost_usd": self.cost.as_json(),
            "requests": self.requests,
            "n_requests": self.n_requests,
            "credits": self.credits,
            "flagged": self.flagged,
            "cause": self.cause,
        }


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
            "window": {"start": self.start and self.start.isoformat(), "end": self.end and self.end.isoformat()},
            "threshold": self.threshold,
            "rows": [row.as_json() for row in self.rows],
            "total_cost_usd": self.total.as_json(),
            "flagged": self.flagged,
        }


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


def date_of(day: int) -> date:
    return _DAY_ZERO + timedelta(days=day)


def _day(text: str, param: str) -> int:
    try:
        parsed = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise RequestError(what=f"{param} must be a date as 2026-01-31, not {text!r}", param=param) from None
    return (parsed - _DAY_ZERO).days


def reconcile(
    form: Form,
    usage: Iterable[ModelUsage],
    billed: Mapping[str, Billed],
    days: tuple[int, int] | None,
    threshold: float = THRESHOLD,
) -> Report:
    """Compare the gateway's sums with the vendor's for the same days. Rows with the largest difference come first."""
    recorded: dict[str, ModelUsage] = {}
    for sums in usage:
        recorded[sums.model] = sums + recorded[sums.model] if sums.model in recorded else sums
    rows = [
        _row(form, f"{form.provider}/{name}", recorded.get(name), billed.get(name), threshold)
        for name in dict.fromkeys([*recorded, *billed])
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
            sum((row.cost.ours or Decimal(0) for row in rows), Decimal(0)),
            sum((row.cost.theirs or Decimal(0) for row in rows), Decimal(0)),
        ),
    )


def _row(form: Form, model: str, recorded: ModelUsage | None, billed: Billed | None, threshold: float) -> DiffRow:
    units = {
        unit: Compared(None if recorded is None else recorded.units(unit), None if billed is None else billed.units[unit])
        for unit in form.units
    }
    cost = Compared(_usd(recorded), _usd(billed))
    matched: Matched = "ours_only" if billed is None else "theirs_only" if recorded is None else "both"
    units_differ = any(compared.exceeds(threshold) for compared in units.values())
    cause: Cause = ""
    if recorded is None or billed is None:
        cause = "coverage"
    elif units_differ:
        cause = "coverage" if _requests_differ(recorded, billed, threshold) else "units"
    elif cost.exceeds(threshold):
        cause = "unpriced" if recorded.unpriced else "rate"
    return DiffRow(
        model=model,
        matched=matched,
        units=units,
        cost=cost,
        requests=None if recorded is None else recorded.requests,
        n_requests=None if billed is None else billed.n_requests,
        credits=None if billed is None else billed.credits,
        flagged=bool(cause),
        cause=cause,
    )


def _usd(sums: ModelUsage | Billed | None) -> Decimal | None:
    return None if sums is None else Decimal(sums.cost_nusd) / NANO


def _requests_differ(recorded: ModelUsage, billed: Billed, threshold: float) -> bool:
    counts = Compared(Decimal(recorded.requests), None if billed.n_requests is None else Decimal(billed.n_requests))
    return counts.theirs is not None and counts.exceeds(threshold)
