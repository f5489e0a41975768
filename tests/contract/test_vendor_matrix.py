"""docs/matrix.md: every speech vendor answers every call of every protocol, or the page names why not."""

from __future__ import annotations

import re
from itertools import product

import pytest

from gw.types.provider_types import PROVIDER_TYPES
from tests.contract.vendor_matrix import CALLS, PAGE, VENDORS, Cells, measure, offers, page, refusal
from tests.fakes.nightly import NIGHTLY, cells

PART = 7
HINT = "docs/matrix.md is out of date; run: uv run python -m tests.contract.vendor_matrix"
OFFERED = [(call, vendor) for call, vendor in product(CALLS, VENDORS) if offers(vendor, call)]


def written() -> Cells:
    """Return the cells of the page."""
    found: Cells = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        reasons = dict(re.findall(r"^- (\w): (.*)$", section, re.M))
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in re.findall(r"^\|.*\|$", section, re.M)]
        for protocol, place, *row in rows:
            for vendor, cell in zip(head[2:], row, strict=True):
                call = next(call for call in CALLS if (call.protocol, f"`{call.place}`") == (protocol, place) and offers(vendor, call))
                found[call, vendor] = cell if cell == "yes" else f"no: {reasons[cell.removeprefix('no ')]}"
    return found


def test_the_page_has_every_cell_once():
    assert PAGE.read_text(encoding="utf-8") == page(written()), HINT
    assert written().keys() == set(OFFERED), HINT
    assert len(OFFERED) >= 573
    assert len({(call.protocol, call.place, call.modality) for call in CALLS}) == len(CALLS)


async def test_a_call_of_every_protocol_does_what_the_page_says(tmp_path, autojump_clock):
    wanted = [cell for cell in cells(CALLS, VENDORS, part=PART) if offers(cell[1], cell[0])]
    found = await measure(tmp_path, wanted)
    page_cells = written()
    assert {where: cell for where, cell in found.items() if page_cells[where] != cell} == {}, HINT
    assert {call.place for call, _ in found} == {call.place for call in CALLS}
    assert {vendor for _, vendor in found} == set(VENDORS)
    assert len(found) == len(wanted) >= (573 if NIGHTLY else 60)


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_vendor_is_left_out_only_where_the_configuration_refuses_it(vendor):
    for modality in ("stt", "tts"):
        refused = f"which the type '{vendor}' does not offer" in refusal(vendor, modality)
        assert refused is (modality not in PROVIDER_TYPES[vendor].modalities)
