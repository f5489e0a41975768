"""A provider's gate as reports show it, in one process or in all of a gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


SlotsSource: TypeAlias = Literal["answer", "refusal"]


class SlotsView(msgspec.Struct, frozen=True):
    """Calls at once that a vendor allows for one model, as far as known. `in_use` includes those of other clients of the account."""

    most: int
    in_use: int
    source: SlotsSource
    age_s: float
    here: int
    """Those of this process."""
    is_named: bool
    """The vendor named `most`, which is that of the account. Else it is what the vendor took of this process."""


class GateView(msgspec.Struct, frozen=True):
    """A provider's state for reports: its breaker and token bucket (`limit` calls a minute, None without one).

    The breaker is that of the provider as a whole: open if no model of it is called.
    """

    provider: str
    breaker: BreakerState
    in_flight: int
    limit: int | None
    remaining: int | None
    reset_s: float | None
    models: Mapping[str, BreakerState] = {}
    """`<modality>:<model id>` → state, of the models whose own breaker is not closed."""
    slots: Mapping[str, SlotsView] = {}
    """`<modality>:<model id>` → calls at once that the vendor allows, as far as its answers tell."""

    @property
    def is_notable(self) -> bool:
        """Return whether it differs from a gate without a limit through which nothing goes now."""
        return self.breaker != "closed" or bool(self.models) or self.in_flight > 0 or self.limit is not None or bool(self.slots)


def of_all_processes(processes: Iterable[Mapping[str, GateView]]) -> dict[str, GateView]:
    """Merge the gates of a gateway's processes. Calls add up, and so does what is left of a rate, of which each process has a part.

    A breaker is open if it is open in one process. It is half open only if it is in all of them: another process may have had an answer
    since, while the one that met the fault has had no request with which to try.
    """
    by_name: dict[str, list[GateView]] = {}
    for gates in processes:
        for name, view in gates.items():
            by_name.setdefault(name, []).append(view)
    return {name: views[0] if len(views) == 1 else _together(views) for name, views in by_name.items()}


def _together(views: Sequence[GateView]) -> GateView:
    models = {key: _joint(view.models.get(key, "closed") for view in views) for view in views for key in view.models}
    left = [view.remaining for view in views if view.remaining is not None]
    limit = max((view.limit for view in views if view.limit is not None), default=None)
    return GateView(
        views[0].provider, _joint(view.breaker for view in views), sum(view.in_flight for view in views), limit,
        min(sum(left), limit) if left and limit is not None else None,
        max((view.reset_s for view in views if view.reset_s is not None), default=None),
        {key: state for key, state in models.items() if state != "closed"},
        {key: _all_slots([view.slots[key] for view in views if key in view.slots]) for view in views for key in view.slots},
    )  # fmt: skip


def _all_slots(views: Sequence[SlotsView]) -> SlotsView:
    """Merge what the processes know of a vendor's slots. Of numbers that were not named each process has its own part."""
    newest, named = min(views, key=lambda view: view.age_s), [view for view in views if view.is_named]
    here = sum(view.here for view in views)
    if not named:
        return SlotsView(sum(view.most for view in views), sum(view.in_use for view in views), newest.source, newest.age_s, here, False)
    most, in_use = max(view.most for view in named), max(here, *(view.in_use for view in views))
    return SlotsView(most, in_use, newest.source, newest.age_s, here, True)


def _joint(states: Iterable[BreakerState]) -> BreakerState:
    known = set(states)
    return "open" if "open" in known else "closed" if "closed" in known else "half_open"
