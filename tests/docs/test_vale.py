"""docs/styles/gw: each rule of the style finds what it is for, and no more."""

from __future__ import annotations

import json
import subprocess

import pytest
from markdown_pages import DOCS

from tests.conftest import program

pytestmark = pytest.mark.needs_program("vale")

GOOD = "gw reads the file again. It tries the next vendor when the first one fails. The log has one line for each request.\n"
LONG = "One line and then " + "another word and " * 15 + "the end.\n"
HARD = "Organizational interoperability considerations necessitate comprehensive reconfiguration of authentication infrastructure.\n"


def rules(text: str, folder, name: str = "page.md") -> set[str]:
    page = folder / name
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("# Title\n\n" + text, encoding="utf-8")
    command = [program("vale"), "--config", DOCS / "vale.ini", "--output", "JSON", "--no-exit", name]
    found = json.loads(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)
    return {alert["Check"].removeprefix("gw.") for alerts in found.values() for alert in alerts}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (GOOD, None), (GOOD * 3 + LONG, "SentenceLength"), (HARD * 3, "ReadingGrade"),
        ("The knobs of the engine are set here.", "PrivateWords"),
        ("This will be added in a future release.", "Promises"), ("It is not yet supported.", "Promises"),
        ("You can simply restart it.", "Filler"), ("Use a key, e.g. this one.", "Abbreviations"), ("Records are in Postgres.", "Names"),
        ("It has has a fallback.", "Repetition"), ("Set `simply: 1` and read the the same.", "Repetition"),
        ("`knobs` and `e.g.` are code.", None),
    ],
)  # fmt: skip
def test_a_rule_finds_its_fault(tmp_path, text, rule):
    assert rules(text, tmp_path) == ({rule} if rule else set())


def test_generated_pages_are_free_of_the_grade_only(tmp_path):
    assert rules(HARD * 3 + LONG, tmp_path, "docs/api.md") == set()
    assert rules("It will be supported.", tmp_path, "docs/api.md") == {"Promises"}
