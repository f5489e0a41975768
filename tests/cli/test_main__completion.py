from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("shell", "words"), [("bash", "complete -o"), ("zsh", "#compdef gw"), ("fish", "complete --no-files")])
def test_a_script_for_each_shell(run, shell, words):
    result = run("completion", shell)
    assert result.exit_code == 0, result.output
    assert words in result.stdout
    assert "_GW_COMPLETE" in result.stdout


@pytest.mark.process
@pytest.mark.parametrize(
    ("typed", "completions"),
    [("gw prov", "providers"), ("gw providers ", "test"), ("gw logs --fol", "--follow"), ("gw costs --period ", "week")],
)
def test_what_the_script_asks_is_answered(typed, completions):
    words = typed.split(" ")
    env = {**os.environ, "_GW_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run([sys.executable, "-m", "gw"], env=env, capture_output=True, text=True, check=True, timeout=120)
    assert f"plain,{completions}" in done.stdout.splitlines()


def test_another_shell(run):
    assert run("completion", "powershell").exit_code == 2
