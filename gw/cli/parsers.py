"""Values on the command line: bounded numbers and closed sets."""

from __future__ import annotations

import math
from typing import Any

import click


class Between(click.FloatRange):
    """A number within bounds. NaN is refused too, which passes every comparison."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


SECONDS = Between(0.2, 3_600)
"""Between two refreshes of a display."""
USD = Between(0, 1e9)
DAYS = Between(0, 36_500, min_open=True)
PERCENT = Between(0, 1_000_000)
MODALITY = click.Choice(["stt", "llm", "tts"])
