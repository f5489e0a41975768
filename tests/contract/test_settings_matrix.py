"""docs/settings-matrix.md: every setting of every dialect, at every provider type; none is dropped in silence."""

from __future__ import annotations

from tests.contract.settings_matrix import DROPPED, PAGE, measure, page


async def test_no_setting_is_dropped_and_the_page_says_what_becomes_of_each(tmp_path, autojump_clock):
    rows = await measure(tmp_path)
    cells = {
        f"{dialect}, {name}, {type_}": cell for dialect, table in rows.items() for name, row in table for type_, cell in row.items()
    }
    assert {where: cell for where, cell in cells.items() if cell.startswith(DROPPED)} == {}
    assert len(rows) == 6
    assert sum(cell != "–" for cell in cells.values()) >= 400
    hint = "docs/settings-matrix.md is out of date; run: uv run python -m tests.contract.settings_matrix"
    assert PAGE.read_text(encoding="utf-8") == page(rows), hint
