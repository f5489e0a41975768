"""The vendors' own SDK test suites, unchanged, against a gateway; their counts are a table of docs/clients.md.

    GW_WRITE_SUITES=1 uv run nox -s suites

Without that variable the page must say what this run has seen. Tests that fail are listed in suites/expected.toml with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.suites.own_suite import SUITES, Outcome, differences, expected_failures, row, run, unpack
from tests.clients.suites.table import check_table

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def rows() -> Iterator[list[str]]:
    """Lines of the table, one for each SDK whose suite ran."""
    seen: list[str] = []
    yield seen
    check_table("suites", seen, len(SUITES))


@pytest.mark.parametrize("sdk", SUITES)
def test_own_suite(drop_in, rows: list[str], sdk: str, tmp_path: Path) -> None:
    sdists = os.environ.get("GW_SDISTS")
    assert sdists, "GW_SDISTS names no folder with the SDKs' releases: run uv run nox -s suites"
    release, version = unpack(sdk, Path(sdists), tmp_path)
    outcomes = run(sdk, release, drop_in.at(sdk, "own"), tmp_path / "report.xml")
    assert any(outcome.result == "passed" for outcome in outcomes)
    found = differences(outcomes, expected_failures(sdk))
    assert not found, "\n".join(found)
    rows.append(row(sdk, version, outcomes))


def test_what_differs_is_reported() -> None:
    expected = {"a.py::test_*_old": "gone", "b.py::test_none": "unknown"}
    outcomes = [
        Outcome("a.py::test_get_old", "failed", "404"),
        Outcome("a.py::test_put_old", "passed", ""),
        Outcome("a.py::test_new", "failed", "500"),
        Outcome("a.py::test_off", "skipped", ""),
    ]
    assert differences(outcomes, expected) == [
        "a.py::test_put_old passed, but expected.toml lists it",
        "a.py::test_new failed: 500",
        "expected.toml lists b.py::test_none, which is no test",
    ]
