from __future__ import annotations

import random

import pytest

from gw.bench.faults import SECONDS, Fault, choose, read
from gw.bench.target import CannotCall


def test_a_script(tmp_path):
    path = tmp_path / "faults.yaml"
    path.write_text("- {fault: hang_up, share: 0.1}\n- {fault: dropout, turns: [2, 3], seconds: 0.6}\n")
    assert read(path) == [
        Fault(kind="hang_up", share=0.1, seconds=SECONDS["hang_up"]),
        Fault(kind="dropout", turns=(2, 3), seconds=0.6),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not YAML"),
        ("fault: hang_up", "must be a list of faults"),
        ("- hang_up", r"entry 1: `fault` must be one of hang_up, barge_in"),
        ("- {fault: hang_up}\n- {fault: fire}", "entry 2: `fault` must be one of"),
        ("- {fault: hang_up, often: 1}", "entry 1: unknown often; known are fault, seconds, share, turns"),
        ("- {fault: hang_up, share: 2}", "`share` must be a number from 0 to 1"),
        ("- {fault: hang_up, share: true}", "`share` must be a number"),
        ("- {fault: silence, seconds: -1}", "`seconds` must be a number from 0 to 600"),
        ("- {fault: silence, turns: [0]}", "`turns` must be a list of numbers from 1"),
        ("- {fault: silence, turns: 2}", "`turns` must be a list"),
    ],
)
def test_what_is_no_script_is_named_with_its_place(tmp_path, text, message):
    path = tmp_path / "faults.yaml"
    path.write_text(text)
    with pytest.raises(CannotCall, match=message) as caught:
        read(path)
    assert "faults.yaml" in str(caught.value)


def test_the_first_fault_that_falls_on_a_turn_is_taken():
    script = [Fault(kind="dropout", turns=(2,), seconds=1), Fault(kind="hang_up", share=0.25, seconds=1)]
    chance = random.Random(1)
    assert {choose(script, 2, chance) for _ in range(100)} == {script[0]}
    kinds = [fault is not None for fault in (choose(script, 1, chance) for _ in range(4_000))]
    assert 0.22 < sum(kinds) / 4_000 < 0.28
    assert choose([], 1, chance) is None
