"""Sums of the calls of a model that a second model got as well."""

from __future__ import annotations

from collections import deque
from typing import Final, Literal

import attrs

TIMES: Final = 1_000
"""Latest times of each model that the percentiles are made of."""
LeftOut = Literal["busy", "too_long", "too_slow", "refused", "failed", "call_failed", "call_fell_back"]
"""Reason why two calls are not compared."""


@attrs.define
class ComparedSide:
    """Cost and times of one of the two models in the calls that are compared."""

    cost_nusd: int | None = 0
    """None where a price is unknown."""
    times_s: deque[float] = attrs.field(factory=lambda: deque(maxlen=TIMES))
    """Live: from the end of words in the audio to their final transcript, counted in audio sent. Recordings: the whole call."""

    def add(self, cost_nusd: int | None, times_s: list[float]) -> None:
        self.cost_nusd = None if self.cost_nusd is None or cost_nusd is None else self.cost_nusd + cost_nusd
        self.times_s.extend(times_s)


@attrs.define
class ComparedCalls:
    """Calls of a model that a second model got as well."""

    compared: int = 0
    words: int = 0
    """Words of the transcripts of the model of the app."""
    edits: int = 0
    cut: int = 0
    """Calls whose transcripts were compared in part, since they are very long."""
    left_out: dict[LeftOut, int] = attrs.field(factory=dict)
    first: ComparedSide = attrs.field(factory=ComparedSide)
    second: ComparedSide = attrs.field(factory=ComparedSide)

    def leave_out(self, why: LeftOut) -> None:
        self.left_out[why] = self.left_out.get(why, 0) + 1
