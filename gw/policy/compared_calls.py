"""Sums of the calls of a model that a second model got as well."""

from __future__ import annotations

from collections import deque
from typing import Final, Literal

import attrs
import msgspec

from gw.types.shadow import CallKind

TIMES: Final = 1_000
"""Latest times of each model that the percentiles are made of."""
LeftOut = Literal["busy", "too_long", "too_slow", "refused", "failed", "call_failed", "call_fell_back"]
"""Reason why two calls are not compared."""


class ComparedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an app that a second model got as well. `first` and `second`: cost in nano-USD and times in seconds of the two models;
    None for a call whose transcripts could not be compared, `left_out` says why then."""

    model_id: str
    second_id: str
    kind: CallKind
    left_out: LeftOut | None = None
    words: int = 0
    edits: int = 0
    cut: bool = False
    first: tuple[int | None, list[float]] | None = None
    second: tuple[int | None, list[float]] | None = None


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

    def add(self, call: ComparedCall) -> None:
        """Count a call."""
        if call.left_out is not None:
            self.left_out[call.left_out] = self.left_out.get(call.left_out, 0) + 1
        if call.first is not None and call.second is not None:
            self.compared += 1
            self.words += call.words
            self.edits += call.edits
            self.cut += call.cut
            self.first.add(*call.first)
            self.second.add(*call.second)


class Comparisons:
    """The compared calls of all pairs of models since the gateway started. Bounded by the settings, which name the pairs."""

    def __init__(self) -> None:
        self.pairs: dict[tuple[str, str, CallKind], ComparedCalls] = {}
        """By model id of the app's call, second model and kind."""

    def add(self, call: ComparedCall) -> None:
        self.pairs.setdefault((call.model_id, call.second_id, call.kind), ComparedCalls()).add(call)
