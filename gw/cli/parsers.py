"""Numbers on the command line."""

from __future__ import annotations

import math
from typing import Any

import click


class Between(click.FloatRange):
    """A number within bounds, and no other: what is "not a number" passes every comparison."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is not a number", param, ctx)
        return found


SECONDS = Between(0.2, 3_600)
"""Between two looks."""
USD = Between(0, 1e9)
DAYS = Between(0, 36_500, min_open=True)
PERCENT = Between(0, 1_000_000)
