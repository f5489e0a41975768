"""docs/fault-matrix.md: every fault of a vendor at every endpoint and socket. A part of the cells by default, all of them at night."""

from __future__ import annotations

import re

from gw.relay.live_session import FAREWELL_S
from tests.contract import test_live_faults as live
from tests.contract.callers import CALLERS, SOCKETS
from tests.contract.fault_matrix import (
    LONGEST_S,
    NO_RECORD,
    PAGE,
    SETUPS,
    STILL_RUNS,
    Cell,
    Outcome,
    all_cells,
    group_of,
    measure,
    page,
    read_page,
    table_of,
)
from tests.contract.faults import FAULTS
from tests.fakes.cells import Cells
from tests.fakes.nightly import NIGHTLY

PART = 23
NEVER_SENT = frozenset(
    ("refused", "black-holed", "reset on accept", "closed on accept", "no such host", "TLS self-signed", "TLS stall", "TLS")
)
REFUSED = frozenset(fault.name for fault in (*FAULTS, *live.FAULTS) if re.match(r"[345]\d\d(\D|$)", fault.name))
HINT = "docs/fault-matrix.md is out of date; run: uv run python -m tests.contract.fault_matrix"


def check(cell: Cell, outcome: Outcome) -> None:
    """What holds in every cell."""
    assert outcome.word not in (NO_RECORD, STILL_RUNS, "500")
    (record,) = outcome.records
    assert outcome.took_s <= LONGEST_S + FAREWELL_S + 0.5
    assert (record.error_code is None) == (record.status != "error")
    outcomes = [attempt.outcome for attempt in record.attempts]
    assert outcome.intents >= len([word for word in outcomes if word != "skipped"])
    assert record.status != "fallback" or record.fallback_from is not None
    if record.status in ("success", "fallback"):
        assert outcomes[-1] == "ok"
        assert record.cost_nusd
    elif cell.fault.name in NEVER_SENT | REFUSED:
        assert not record.cost_nusd, outcomes  # nothing was sent, or the vendor refused it
    assert (record.cost_nusd or 0) <= 20_000_000


async def test_the_page_says_what_happens(tmp_path, autojump_clock):
    everything = all_cells()
    chosen = everything if NIGHTLY else everything[::PART]
    table = read_page(PAGE.read_text(encoding="utf-8"))
    outcomes = await measure(tmp_path, chosen)
    ran = Cells(at_least=len(chosen))
    for cell, outcome in outcomes.items():
        with ran.cell(f"{cell.caller.name}, {cell.fault.name}, {cell.setup}"):
            check(cell, outcome)
            words = table[cell.fault.name, group_of(cell.caller)][SETUPS.index(cell.setup)]
            assert outcome.word in words.split(" or "), HINT
    ran.check()
    assert {cell.caller.name for cell in outcomes} == {caller.name for caller in (*CALLERS, *SOCKETS)}
    assert {cell.fault.name for cell in outcomes} == {fault.name for fault in (*FAULTS, *live.FAULTS)}
    if NIGHTLY:
        assert page(table_of(outcomes), len(outcomes)) == PAGE.read_text(encoding="utf-8"), HINT


def test_the_matrix_is_as_large_as_it_was():
    assert len(all_cells()) == 3 * (33 * len(FAULTS) + 14 * len(live.FAULTS) + len(FAULTS)) >= 7_776


async def test_nobody_is_dialled_for_a_caller_who_has_closed(tmp_path, autojump_clock):
    """These two protocols have no word for the end: the caller closes, and the vendor's silence is met only then."""
    names = ("openai realtime", "elevenlabs")
    chosen = [one for one in all_cells() if one[0].name in names and one[1].name == "silence"]
    outcomes = await measure(tmp_path, chosen)
    assert len(outcomes) == 6
    assert {outcome.word for outcome in outcomes.values()} == {"waits"}
    assert all(len(outcome.records[0].attempts) < 3 for outcome in outcomes.values())
