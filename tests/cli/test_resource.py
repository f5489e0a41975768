from __future__ import annotations

import click
import pytest

from gw.cli.resource import DAYS, PERCENT, SECONDS, USD


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (SECONDS, "0.2", ("0.1", "nan", "inf", "x", "")),
        (USD, "0", ("-0.01", "nan", "inf", "-inf", "1e10")),
        (DAYS, "0.5", ("0", "-1", "nan", "1e9")),
        (PERCENT, "5", ("-1", "NaN")),
    ],
)
def test_numbers_within_bounds_and_no_others(kind, good, bad):
    assert kind.convert(good, None, None) == float(good)
    for text in bad:
        with pytest.raises(click.BadParameter):
            kind.convert(text, None, None)
