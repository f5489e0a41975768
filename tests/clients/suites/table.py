"""The tables of docs/clients.md that say how the vendors' own suites fared: written by their runs, and compared with them."""

from __future__ import annotations

import os
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "clients.md"
_HEAD = ("", "| SDK | passed | failed, as listed | skipped by the suite |", "|---|---|---|---|")


def check_table(name: str, rows: list[str], complete: int) -> None:
    """Compare the rows with the page, or write them to it with GW_WRITE_SUITES.

    Of fewer rows than `complete` nothing is said: a part of the suites ran, or one failed, which its own test reports.
    """
    if len(rows) < complete:
        return
    begin, end = f"<!-- {name} -->", f"<!-- end of the {name} -->"
    head, _, rest = PAGE.read_text("utf-8").partition(begin)
    before, _, tail = rest.partition(end)
    table = "\n".join([*_HEAD, *rows, ""])
    if os.environ.get("GW_WRITE_SUITES"):
        PAGE.write_text(f"{head}{begin}{table}{end}{tail}", "utf-8")
    else:
        assert before == table, f"the table `{name}` of {PAGE} is old: run the same command with GW_WRITE_SUITES=1"
