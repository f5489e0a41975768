"""The vendors' own SDK test suites, unchanged, that are only in their repositories; their counts are a table of docs/clients.md.

    GW_WRITE_SUITES=1 uv run nox -s suites_cloned -- FOLDER

FOLDER has the clones, as docs/clients.md says. Tests that fail are listed in suites/expected.toml with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.suites.own_suite import CLONED, differences, expected_failures, row, run, version_of
from tests.clients.suites.table import check_table

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def rows() -> Iterator[list[str]]:
    """Lines of the table, one for each SDK whose suite ran."""
    seen: list[str] = []
    yield seen
    check_table("cloned suites", seen, len(CLONED))


@pytest.mark.parametrize("sdk", CLONED)
def test_own_suite(drop_in, rows: list[str], sdk: str, tmp_path: Path) -> None:
    clones = os.environ.get("GW_CLONES")
    assert clones, "GW_CLONES names no folder with the SDKs' clones: run uv run nox -s suites_cloned -- FOLDER"
    clone = Path(clones) / CLONED[sdk].clone
    outcomes = run(sdk, clone, drop_in.at(sdk, "own"), tmp_path / "report.xml")
    assert any(outcome.result == "passed" for outcome in outcomes)
    found = differences(outcomes, expected_failures(sdk))
    assert not found, "\n".join(found)
    rows.append(row(sdk, version_of(clone), outcomes))
