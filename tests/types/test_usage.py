"""Sums of usage."""

from __future__ import annotations

from gw.types.entities import Price
from gw.types.usage import COUNTERS, Usage, total_usage


def test_every_counter_is_added_up():
    one = Usage(**dict.fromkeys(COUNTERS, 1), source="vendor")
    assert total_usage([one, one], "measured") == Usage(**dict.fromkeys(COUNTERS, 2), source="measured")
    assert total_usage([], "vendor") == Usage(source="vendor")


def test_each_counter_has_a_rate():
    assert set(COUNTERS) <= set(Price.__struct_fields__)
