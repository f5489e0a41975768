"""Measured times to an answer of each model's recogniser, from its own live sessions. No clock: durations are arguments.

Two durations of each model are counted in buckets, so that their 99th percentile is known at any time: between events while
somebody speaks, and from the end of speech to the next event. Old values fade: when a histogram is full, all its counts are
halved.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Final

_BOUNDS_S: Final = tuple(0.05 * 1.2**n for n in range(32))
"""Upper bounds of the buckets: 50 ms to 14 s, each a fifth above the one before."""
_FULL: Final = 2_000
LEAST: Final = 30  # values from which a percentile is worth anything
_MAX_MODELS: Final = 512  # the one used longest ago is forgotten


class Durations:
    """A histogram of durations."""

    __slots__ = ("_counts", "_known", "_known_until", "_total")

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS_S) + 1)
        self._total = 0
        self._known: float | None = None  # the percentile, as long as there are less than `_known_until` values
        self._known_until = LEAST

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self._total += 1
        if self._total >= _FULL:
            self._counts = [count // 2 for count in self._counts]
            self._total = sum(self._counts)
            self._known_until = 0

    @property
    def p99_s(self) -> float | None:
        """Return the 99th percentile, rounded up to the bound of its bucket; None while too few values are known.

        It is computed anew when there is a hundredth more of values.
        """
        if self._total < self._known_until:
            return self._known
        self._known, self._known_until = self._computed_s(), self._total + max(1, self._total // 100)
        return self._known

    def _computed_s(self) -> float:
        above = self._total // 100  # values that may lie above it
        from_longest = list(accumulate(reversed(self._counts)))
        bucket = len(_BOUNDS_S) - bisect_right(from_longest, above)
        return _BOUNDS_S[min(bucket, len(_BOUNDS_S) - 1)]


class ModelTimes:
    """The two durations of one model."""

    __slots__ = ("_note", "after_speech", "between_events")

    def __init__(self, note: Callable[[float, float], None] | None = None) -> None:
        """`note` takes each time from the end of speech to the next event, and when that came."""
        self.between_events = Durations()
        self.after_speech = Durations()
        self._note = note

    def answered(self, seconds: float, now: float) -> None:
        """Note a time from the end of speech to the next event."""
        self.after_speech.add(seconds)
        if self._note is not None:
            self._note(seconds, now)


class AnswerTimes:
    """The durations of all models of one gateway, by model id."""

    def __init__(self, note: Callable[[str, float, float], None] | None = None) -> None:
        """`note` takes the id of a model with what `ModelTimes` notes."""
        self._note = note
        self._models: OrderedDict[str, ModelTimes] = OrderedDict()

    def of(self, model_id: str) -> ModelTimes:
        times = self._models.get(model_id)
        if times is None:
            times = self._models[model_id] = ModelTimes(None if self._note is None else partial(self._note, model_id))
            if len(self._models) > _MAX_MODELS:
                self._models.popitem(last=False)
        else:
            self._models.move_to_end(model_id)
        return times
