"""Matrices of test cases: many cells in one test, which reports each cell that fails by its name."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

SUMMARY = "cells"
"""Property of a test whose value `tests/conftest.py` prints at the end of the run."""


@attrs.define
class Cells:
    """Runs one matrix. `check` fails with every failing cell, and when fewer than `at_least` cells ran.

    `summary` is a sentence for the end of the run, by pytest's fixture `record_property` under the name SUMMARY.
    """

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

    def summary(self, what: str, everything: int) -> str:
        """Return how many cells were right, of how many there are. `what`: what a cell is, such as `routes × roles`."""
        night = "" if self.ran == everything else "; GW_NIGHTLY=1 runs all"
        return f"{what}: {self.ran - len(self.failed):,} of {self.ran:,} cells right, of {everything:,} in all{night}"

    def check(self) -> None:
        assert not self.failed, "\n".join(f"--- {name}\n{text}" for name, text in self.failed.items())
        assert self.ran >= self.at_least
