"""Run a vendor's own test suite, unchanged, against a gateway, and compare what fails with expected.toml."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from contextlib import nullcontext
from fnmatch import fnmatchcase
from pathlib import Path

import attrs

from tests.clients.suites.request_log import recorded

FOLDER = Path(__file__).resolve().parent
EXPECTED = FOLDER / "expected.toml"
WITHIN_S = 300
_COUNTS = ("passed", "failed", "skipped")


@attrs.frozen(kw_only=True)
class OwnSuite:
    """An SDK's tests.

    `files`: those that call what a gateway offers, in `folder`. `root`: the path at which the vendor's API is mounted.
    `variable`: of the environment, from which the suite, or our plugin for it, reads the address. `environment`: more variables.
    `clone`: the name of its repository, where releases come without tests. `verified`: the tests ask their server afterwards
    which requests it had.
    """

    files: tuple[str, ...]
    root: str = ""
    folder: str = "tests/api_resources"
    variable: str = "TEST_API_BASE_URL"
    environment: Mapping[str, str] = attrs.field(factory=dict)
    clone: str = ""
    verified: bool = False


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
CLONED: Mapping[str, OwnSuite] = {
    "deepgram": OwnSuite(
        files=("test_auth_v1_tokens.py", "test_listen_v1_media.py", "test_manage_v1_models.py", "test_speak_v1_audio.py"),
        folder="tests/wire",
        variable="WIREMOCK_URL",
        clone="deepgram-python-sdk",
        verified=True,
    ),
    "elevenlabs": OwnSuite(
        files=("test_tts.py", "test_stt.py", "test_models.py", "test_voices.py"),
        folder="tests",
        variable="GW_ELEVENLABS_URL",
        environment={"ELEVENLABS_API_KEY": "any", "GITHUB_ACTIONS": "plays no audio"},
        clone="elevenlabs-python",
    ),
}
"""Suites that are in the SDK's repository only."""


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


def version_of(clone: Path) -> str:
    """Return the version of the SDK in a clone of its repository."""
    settings = tomllib.loads((clone / "pyproject.toml").read_text("utf-8"))
    return str(settings.get("project", {}).get("version") or settings["tool"]["poetry"]["version"])


def run(sdk: str, release: Path, address: str, report: Path) -> list[Outcome]:
    """Run the suite's files by its own settings of pytest; raise AssertionError when pytest itself fails."""
    suite = SUITES.get(sdk) or CLONED[sdk]
    with recorded(address) if suite.verified else nullcontext(address) as place:
        files = [f"{suite.folder}/{name}" for name in suite.files]
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "--tb=line", "-p", "gw_suites_plugin", f"--junitxml={report}", *files]
        sources = [str(FOLDER), *([str(release / "src")] if suite.clone else [])]
        env = {**os.environ, **suite.environment, suite.variable: place + suite.root, "PYTHONPATH": os.pathsep.join(sources)}
        done = subprocess.run(command, cwd=release, env=env, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode in (0, 1), done.stdout[-5_000:] + done.stderr[-5_000:]
    return [_outcome(case, suite) for case in ElementTree.parse(report).iter("testcase")]


def _outcome(case: ElementTree.Element, suite: OwnSuite) -> Outcome:
    *modules, last = case.attrib["classname"].removeprefix(suite.folder.replace("/", ".") + ".").split(".")
    if last.startswith("test_"):  # a function outside any class
        modules.append(last)
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
