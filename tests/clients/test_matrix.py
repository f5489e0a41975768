"""The table of proven clients: each of its rows is a test, and what a run did not look at stays as it was."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.clients.matrix import BEGIN, END, PROVES, Results

pytestmark = pytest.mark.clients


def test_every_row_is_a_test_that_asks_who_answers():
    folder = Path(__file__).parent
    for key in PROVES:
        file, _, test = key.partition("::")
        functions = {n.name: n for n in ast.parse((folder / file).read_text("utf-8")).body if isinstance(n, ast.FunctionDef)}
        assert "who" in [argument.arg for argument in functions[test.partition("[")[0]].args.args], key


def test_a_run_of_some_keeps_the_rest(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\n{END}\nafter\n", "utf-8")
    first, second = Results(), Results()
    first.note("tests/clients/test_node_voices.py::test_npm_sdk[deepgram-own]", True)
    first.note("tests/clients/test_node_voices.py::test_npm_sdk[deepgram-other]", True)
    first.note("tests/clients/test_deepgram.py::test_sdk_speech[-own]", True)
    first.note("tests/clients/test_deepgram.py::test_sdk_speech[/deepgram-own]", False)
    first.write(page)
    second.note("tests/clients/test_node_voices.py::test_npm_sdk[deepgram-other]", False)
    second.write(page)
    lines = page.read_text("utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    (npm,) = [line for line in lines if line.startswith("| deepgram (npm)")]
    (speech,) = [line for line in lines if line.startswith("| deepgram (Python) | POST /v1/speak")]
    assert npm.endswith("| yes | **no** |")
    assert speech.endswith("| **no** | not run |")
