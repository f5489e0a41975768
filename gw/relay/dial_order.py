"""The order in which a live session, or speech over HTTP, dials its candidates.

First each candidate once, in their order. Then, as a last resort, those whose session was open when it failed, since what cut
it off may be over: each once more. One that has served for a while since earns another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gw.errors import CandidateSkipped, PluginMissing, ProviderError, ProviderRefused, ProviderRejected, RateLimitError
from gw.registry.catalog import Model

SERVED_S: Final = 30.0  # answers for so long show that a failure is not the same one again
_LASTING = (CandidateSkipped, PluginMissing, ProviderRefused, ProviderRejected, RateLimitError)
"""Failures that the same candidate would meet again."""


def served_s(ready_at: float | None, now: float) -> float:
    """Return the seconds since an attempt's first event."""
    return 0.0 if ready_at is None else now - ready_at


class DialOrder(Iterator[Model]):
    """Iterate over the models to dial; tell it of each that failed before asking for the next."""

    def __init__(self, models: Iterable[Model]) -> None:
        self._waiting = tuple(models)
        self._again: tuple[Model, ...] = ()
        self._redialled: tuple[str, ...] = ()

    def __next__(self) -> Model:
        if self._waiting:
            return self._first_waiting()
        if not self._again:
            raise StopIteration
        model, self._again = self._again[0], self._again[1:]
        self._redialled = (*self._redialled, model.id)
        return model

    @property
    def has_next(self) -> bool:
        """Return whether there is a model to dial besides the current one, or the current one again."""
        return bool(self._waiting or self._again)

    @property
    def following(self) -> Model | None:
        """Return the model that is dialled next."""
        if self._waiting:
            return self._waiting[0]
        return self._again[0] if self._again else None

    @property
    def has_new(self) -> bool:
        """Return whether there is a model that was not dialled yet."""
        return bool(self._waiting)

    def new(self) -> Iterator[Model]:
        """Iterate over the models that were not dialled yet."""
        while self._waiting:
            yield self._first_waiting()

    def _first_waiting(self) -> Model:
        model, self._waiting = self._waiting[0], self._waiting[1:]
        return model

    def put_back(self, model: Model) -> None:
        """Have a model dialled next that was not needed before."""
        self._waiting = (model, *self._waiting)

    def can_follow(self, model: Model, served_s: float) -> bool:
        """Return whether any model would be dialled if this one, whose session is open, failed now."""
        return self.has_next or model.id not in self._redialled or served_s >= SERVED_S

    def failed(self, model: Model, error: ProviderError, served_s: float) -> None:
        """Note that an open session with `model` has failed, `served_s` after its first event."""
        if isinstance(error, _LASTING):
            return
        if served_s >= SERVED_S:
            self._redialled = tuple(id_ for id_ in self._redialled if id_ != model.id)
        if model.id not in self._redialled and model not in self._again:
            self._again = (*self._again, model)
