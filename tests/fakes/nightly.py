"""Matrices that run in part by default, and whole at night: `GW_NIGHTLY=1`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

NIGHTLY = os.environ.get("GW_NIGHTLY", "") not in ("", "0")


def times(by_day: int, at_night: int) -> int:
    """Return how often to do something that is done more often at night."""
    return at_night if NIGHTLY else by_day


def cells(*axes: Sequence[Any], part: int) -> Iterable[tuple[Any, ...]]:
    """Return every cell of a matrix at night, and otherwise each `part`th: an odd number, so that all pairs of values are met."""
    assert part % 2
    for places in product(*(range(len(axis)) for axis in axes)):
        if NIGHTLY or sum(place << n for n, place in enumerate(reversed(places))) % part == 0:
            yield tuple(axis[place] for place, axis in zip(places, axes, strict=True))
