"""Rules of the tree that no other tool checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(path.relative_to(ROOT / "gw") for path in (ROOT / "gw").rglob("*.py"))
TESTS = sorted(path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py"))
MAX_LINES = 400
MAX_WIRE_LINES = 600
"""A protocol stays in one module of `gw.wire`, with its requests and answers, up to this length."""
LONG = {"errors.py": "one tree: split, its diagram and its classes would drift apart"}
"""Longer on purpose, and why."""

ACROSS = {"test_rules.py", "test_typing.py"}
"""Tests of the tree as a whole."""
ACROSS_FOLDERS = {"e2e", "contract", "clients", "browser", "fakes"}
"""Folders of tests that run through many modules."""
SEVERAL_FOR_ONE = re.compile(r"(?P<module>.+?)__\w+\Z")
"""`test_relay__cancel.py` is a further file about `relay.py`."""


def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _tested(path: Path) -> Path:
    stem = path.stem.removeprefix("test_")
    several = SEVERAL_FOR_ONE.match(stem)
    module = path.with_name((several["module"] if several else stem) + ".py")
    package = path.parent if path.parent.name == stem else path.with_name(stem)
    return module if module in MODULES else package / "__init__.py"


def test_test_files_mirror_modules():
    mirrors = [path for path in TESTS if path.parts[0] not in ACROSS_FOLDERS and path.name not in ACROSS]
    assert [f"tests/{path}" for path in mirrors if _tested(path) not in MODULES] == []


def test_no_module_is_too_long():
    lengths = {str(path): _text("gw" / path).count("\n") for path in MODULES}
    limits = {path: MAX_WIRE_LINES if path.startswith("wire/") else MAX_LINES for path in lengths}
    assert {path: lines for path, lines in lengths.items() if lines > limits[path] and path not in LONG} == {}


def test_nothing_is_left_to_be_written():
    unfinished = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    assert [str(path) for path in MODULES if unfinished.search(_text("gw" / path))] == []


def test_every_module_says_what_it_is():
    modules = [path for path in MODULES if path.name not in ("__init__.py", "__main__.py")]
    assert [str(path) for path in modules if not _text("gw" / path).startswith('"""')] == []


def test_the_lock_names_no_host():
    lock = _text(Path("requirements.lock"))
    assert "://" not in lock
    assert not re.search(r"^\s*(-i|-f|--)(index|find|extra|trusted)?", lock.replace("--hash=", ""), re.MULTILINE)


def _names(requirements: list[object]) -> set[str]:
    texts = [text for text in requirements if isinstance(text, str)]
    return {re.split(r"[\[<>=!~; ]", text)[0].lower().replace("_", "-") for text in texts}


def test_the_lock_pins_and_hashes_what_the_project_asks_for():
    project = tomllib.loads(_text(Path("pyproject.toml")))
    groups = project["dependency-groups"]
    asked = _names(project["project"]["dependencies"]) | _names(groups["test"]) | _names(groups["lint"])
    entries = re.split(r"\n(?=\S)", _text(Path("requirements.lock")).strip())
    assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    assert asked <= {re.split(r"[=\[ ;]", entry)[0].lower() for entry in entries}


def test_the_readme_begins_with_two_commands_that_exist():
    readme = _text(Path("README.md"))
    commands = re.findall(r"^pip install uv && uv run (\S+)(.*)$", readme, re.MULTILINE)
    assert [(name, rest.strip()) for name, rest in commands] == [("gw", "serve --demo"), ("nox", "")]
    project = tomllib.loads(_text(Path("pyproject.toml")))
    assert project["project"]["scripts"]["gw"] == "gw.cli.main:main"
    assert any(str(text).startswith("nox") for text in project["dependency-groups"]["dev"])
    assert (ROOT / "noxfile.py").is_file()


def test_no_file_names_a_place_of_one_machine():
    texts = [path for kind in ("py", "md") for top in ("gw", "tests", "docs") for path in (ROOT / top).rglob(f"*.{kind}")]
    texts = [path for path in texts if "node_modules" not in path.parts]  # installed, not ours
    texts += [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "noxfile.py", ROOT / ".ci" / "run"]
    place = re.compile(r"(?<![\w.])/(work|root|home|Users|opt/pypi)/")
    assert [path.name for path in texts if path.name != "test_rules.py" and place.search(path.read_text("utf-8"))] == []
