"""LiveKit's own tests of its plugins, from a clone and unchanged, against a gateway; their counts are a table of docs/clients.md.

    GW_WRITE_SUITES=1 uv run nox -s suites_livekit -- FOLDER

FOLDER has the clone `agents`. Without GW_WRITE_SUITES the page must say what this run has seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.suites import livekit_suite
from tests.clients.suites.own_suite import differences, expected_failures

pytestmark = pytest.mark.clients

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
BEGIN, END = "<!-- livekit's tests -->", "<!-- end of livekit's tests -->"
HEAD = ("", "| tests | passed | failed, as listed | skipped |", "|---|---|---|---|")
FILES = ("test_tts.py", "test_stt.py")


@pytest.fixture(scope="module")
def clone() -> Path:
    clones = os.environ.get("GW_CLONES")
    assert clones, "GW_CLONES names no folder with clones: run uv run nox -s suites_livekit -- FOLDER"
    path = Path(clones) / "agents"
    assert (path / "tests").is_dir(), f"{path} is no clone of github.com/livekit/agents"
    return path


@pytest.fixture(scope="module")
def rows() -> Iterator[list[str]]:
    """Lines of the table; compared with the page, or written to it, at the end."""
    seen: list[str] = []
    yield seen
    if len(seen) < len(FILES):
        return  # a failed one, which its own test reports
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    before, _, tail = rest.partition(END)
    table = "\n".join([*HEAD, *seen, ""])
    if os.environ.get("GW_WRITE_SUITES"):
        PAGE.write_text(f"{head}{BEGIN}{table}{END}{tail}", "utf-8")
    else:
        assert before == table, f"{PAGE} is old: run this again with GW_WRITE_SUITES=1"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livekit_suite.Setting]:
    with livekit_suite.open_gateway(tmp_path_factory.mktemp("livekit")) as setting:
        yield setting


@pytest.mark.parametrize("name", FILES)
def test_own_tests(clone: Path, gateway: livekit_suite.Setting, rows: list[str], name: str, tmp_path: Path) -> None:
    outcomes = livekit_suite.run(livekit_suite.prepare(clone, tmp_path), name, gateway, tmp_path / "report.xml")
    expected = {pattern: reason for pattern, reason in expected_failures("livekit").items() if pattern.startswith(name)}
    assert not differences(outcomes, expected), "\n".join(differences(outcomes, expected))
    counts = [sum(outcome.result == result for outcome in outcomes) for result in ("passed", "failed", "skipped")]
    assert counts[0]
    rows.append(f"| `{name}` | {' | '.join(map(str, counts))} |")


def test_their_test_llm_has_no_test(clone: Path) -> None:
    lines = (clone / "tests" / "test_llm.py").read_text("utf-8").splitlines()
    assert all(line.startswith("#") or not line.strip() for line in lines)
