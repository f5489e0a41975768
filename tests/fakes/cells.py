"""Matrices of test cases: many cells in one test, which reports each cell that fails by its name."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import attrs


@attrs.define
class Cells:
    """Runs one matrix. `check` fails with every failing cell, and when fewer than `at_least` cells ran."""

    at_least: int
    ran: int = 0
    failed: dict[str, str] = attrs.field(factory=dict)

    @contextmanager
    def cell(self, name: str) -> Iterator[None]:
        """Run the block as the cell `name`; keep its failure and go on."""
        self.ran += 1
        try:
            yield
        except Exception as error:
            self.failed[name] = "".join(traceback.format_exception(error))

    def check(self) -> None:
        assert not self.failed, "\n".join(f"--- {name}\n{text}" for name, text in self.failed.items())
        assert self.ran >= self.at_least
