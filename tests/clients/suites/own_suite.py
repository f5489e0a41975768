"""Run a vendor's own test suite, as released, against a gateway, and compare what fails with expected.toml."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import attrs

FOLDER = Path(__file__).resolve().parent
EXPECTED = FOLDER / "expected.toml"
WITHIN_S = 300
_COUNTS = ("passed", "failed", "skipped")


@attrs.frozen(kw_only=True)
class OwnSuite:
    """An SDK, the files of its tests that call what a gateway offers, and the path at which its vendor's API is mounted."""

    files: tuple[str, ...]
    root: str = ""


SUITES: Mapping[str, OwnSuite] = {
    "openai": OwnSuite(
        files=(
            "chat/test_completions.py",
            "audio/test_speech.py",
            "audio/test_transcriptions.py",
            "audio/test_translations.py",
            "test_models.py",
            "test_responses.py",
            "test_embeddings.py",
            "test_moderations.py",
        ),
        root="/v1",
    ),
    "anthropic": OwnSuite(files=("test_messages.py", "beta/test_messages.py", "test_models.py", "beta/test_models.py")),
    "groq": OwnSuite(files=("chat", "audio", "test_models.py", "test_embeddings.py")),
    "cartesia": OwnSuite(files=("test_tts.py", "test_stt.py", "stt", "test_voices.py", "test_access_token.py")),
}
"""By provider type, which is the name of the SDK, too."""


@attrs.frozen
class Outcome:
    """What became of one test. `name` has its parameter, the kind of client, and no class: each is there for sync and async."""

    name: str
    result: str
    message: str


def unpack(sdk: str, sdists: Path, folder: Path) -> tuple[Path, str]:
    """Unpack the SDK's release below `folder`; return its directory and its version."""
    (archive,) = sdists.glob(f"{sdk}-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    name = archive.name.removesuffix(".tar.gz")
    return folder / name, name.removeprefix(f"{sdk}-")


def run(sdk: str, release: Path, address: str, report: Path) -> list[Outcome]:
    """Run the suite's files by its own settings of pytest; raise AssertionError when pytest itself fails."""
    suite = SUITES[sdk]
    files = [f"tests/api_resources/{name}" for name in suite.files]
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "--tb=line", "-p", "gw_suites_plugin", f"--junitxml={report}", *files]
    env = {**os.environ, "TEST_API_BASE_URL": address + suite.root, "PYTHONPATH": str(FOLDER)}
    done = subprocess.run(command, cwd=release, env=env, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode in (0, 1), done.stdout[-5_000:] + done.stderr[-5_000:]
    return [_outcome(case) for case in ElementTree.parse(report).iter("testcase")]


def _outcome(case: ElementTree.Element) -> Outcome:
    *modules, _ = case.attrib["classname"].removeprefix("tests.api_resources.").split(".")
    name = f"{'/'.join(modules)}.py::{case.attrib['name']}"
    for tag, result in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(tag)
        if found is not None:
            return Outcome(name, result, found.attrib.get("message", "")[:500])
    return Outcome(name, "passed", "")


def expected_failures(sdk: str) -> dict[str, str]:
    """Read which tests fail, as patterns, and why each does."""
    entries = tomllib.loads(EXPECTED.read_text("utf-8")).get(sdk, [])
    return {pattern: entry["reason"] for entry in entries for pattern in entry["tests"]}


def differences(outcomes: list[Outcome], expected: Mapping[str, str]) -> list[str]:
    """Return what failed without a reason, what has a reason and did not fail, and which patterns name no test."""
    found: dict[str, str] = {}
    used = set()
    for outcome in outcomes:
        names = (outcome.name, outcome.name.partition("[")[0])
        listed = {pattern for pattern in expected if any(fnmatchcase(name, pattern) for name in names)}
        used |= listed
        if outcome.result == "failed" and not listed:
            found.setdefault(f"{outcome.name} failed", outcome.message)
        elif outcome.result != "failed" and listed:
            found.setdefault(f"{outcome.name} {outcome.result}, but expected.toml lists it", outcome.message)
    found |= {f"expected.toml lists {pattern}, which is no test": "" for pattern in expected if pattern not in used}
    return [f"{what}: {message}" if message else what for what, message in found.items()]


def row(sdk: str, version: str, outcomes: list[Outcome]) -> str:
    counts = [sum(outcome.result == result for outcome in outcomes) for result in _COUNTS]
    return f"| `{sdk}` {version} | {' | '.join(map(str, counts))} |"
