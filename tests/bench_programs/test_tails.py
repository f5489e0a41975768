"""The names that `bench/tails.py` gives to what holds requests up."""

from __future__ import annotations

import pytest
import tails
from tails import Stall, Timed

USUAL_S = 0.021


@pytest.mark.parametrize(
    ("request_", "stalls", "cause"),
    [
        (Timed(0, 0, 0.031), [Stall(0.001, 0.010, "task store.writer.Writer.run")], "task store.writer.Writer.run"),
        (Timed(0, 0, 0.031), [Stall(0.001, 0.010, "task x"), Stall(0.002, 0.009, "collector, generation 2")], "collector, generation 2"),
        (Timed(0, 0, 0.031), [Stall(0.001, 0.010, "task x"), Stall(0.002, 0.003, "collector, generation 0")], "task x"),
        (Timed(0, 0, 0.031), [Stall(0.001, 0.004, "machine"), Stall(0.012, 0.015, "machine"), Stall(0.005, 0.008, "task x")], "machine"),
        (Timed(0, 0.008, 0.031), [Stall(0.0, 0.008, "machine")], "load generator"),
        (Timed(0, 0, 0.031), [Stall(0.001, 0.002, "machine"), Stall(-1, -0.5, "task x"), Stall(0.05, 0.06, "task x")], "behind others"),
        (Timed(0, 0, 0.031), [], "behind others"),
    ],
)
def test_the_cause_of_a_slow_request_is_what_covers_most_of_it(request_, stalls, cause):
    assert tails.cause_of(request_, USUAL_S, stalls) == cause


def test_gaps_of_the_control_process_are_named_by_who_had_the_core():
    gaps = [(0.0, 0.004, 0.0035, 0.0), (1.0, 1.004, 0.001, 0.003), (2.0, 2.004, 0.0005, 0.0), (3.0, 3.004, 0.0, 0.0)]
    assert tails.stalls_of_machine(gaps) == [
        Stall(1.0, 1.004, "writing process"), Stall(2.0, 2.004, "machine"), Stall(3.0, 3.004, "machine"),
    ]


def test_the_report_has_the_quantiles_and_each_cause():
    timed = [Timed(n, n, n + 0.0205) for n in range(998)] + [Timed(2_000, 2_000, 2_000.050), Timed(3_000, 3_000.03, 3_000.060)]
    direct = [Timed(n, n, n + 0.020) for n in range(100)]
    row, *causes = tails.report(160, timed, direct, [Stall(2_000.01, 2_000.04, "collector, generation 2")])
    assert row == "| 160 | 1000 | 0.50 | 0.50 | 40.00 | 40.00 | 0.00, 0.00 |"
    assert sorted(causes) == ["| 160 | collector, generation 2 | 1 | 30.0 |", "| 160 | load generator | 1 | 40.0 |"]
