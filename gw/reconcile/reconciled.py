"""Result of a comparison with a vendor's bill, as the API gives it. Loaded at the start, unlike what makes it."""

from __future__ import annotations

from typing import Literal

import msgspec

Matched = Literal["both", "ours_only", "theirs_only"]
Cause = Literal["", "rate", "units", "coverage", "unpriced"]
THRESHOLD = 5.0


class ComparedFigures(msgspec.Struct, frozen=True):
    """One figure of the gateway (`ours`) and of the vendor (`theirs`); null = that side has none.

    `diff` is null where the vendor's files do not have the figure. `percent` is the difference in percent of the vendor's
    figure; null where that is 0 or missing.
    """

    ours: float | None
    theirs: float | None
    diff: float | None
    percent: float | None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """`requests` is the gateway's count of calls, `n_requests` the vendor's, where the file has it.

    `names`: how the vendor calls the model, where that is not its name here.
    """

    model: str
    names: tuple[str, ...]
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
    """`flagged`: number of flagged rows. `left_out`: rows of the files that are of days outside the window."""

    provider: str
    modality: str
    window: Window
    threshold: float
    rows: list[Difference]
    total_cost_usd: ComparedFigures
    flagged: int
    left_out: int
