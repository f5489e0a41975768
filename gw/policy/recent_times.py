"""Times to the first content of the models that a route chooses among by latency, each with the moment it was measured.

`gw.policy.response_times` knows answers only. Here a candidate that was too slow, or that another one overtook, counts with the
time that was waited for it, since otherwise the slowest would leave no trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeAlias

MOST: Final = 256
"""Samples that are kept of a candidate."""
Sample: TypeAlias = tuple[float, float]
"""When it was measured, and the seconds to the first content."""


class RecentTimes:
    """The latest times of the models named by `follow`, by model id and kind of call."""

    def __init__(self) -> None:
        self.models: frozenset[str] = frozenset()
        """Models that are measured."""
        self._samples: dict[tuple[str, Hashable], deque[Sample]] = {}

    def follow(self, models: Iterable[str]) -> None:
        """Measure these models from now on, and forget all others."""
        self.models = frozenset(models)
        self._samples = {key: samples for key, samples in self._samples.items() if key[0] in self.models}

    def add(self, model_id: str, kind: Hashable, seconds: float, now: float) -> None:
        if model_id not in self.models:
            return
        samples = self._samples.get((model_id, kind))
        if samples is None:
            samples = self._samples[model_id, kind] = deque(maxlen=MOST)
        samples.append((now, seconds))

    def of(self, model_id: str, kind: Hashable) -> Sequence[Sample]:
        """Return the samples of a candidate, the oldest first."""
        return self._samples.get((model_id, kind), ())
