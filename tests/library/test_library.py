"""The examples of docs/library.md, run unchanged: each is a program beside the page's gw.yaml."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
CONFIG = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SAYS = [
    r"What is the weather\?\nsuccess \d+\nwhat is the weather\?\n",
    r"Hello\n",
    r"tell me the time \d\.\d\n",
    r"Hello\nfallback flaky/echo\nhello\n",
    r"\['one', 'two'\]\n\['hello'\] success\n",
    r"tts sim/tone 5 \d\S+\ntts mine/parrot 40 0\.002\n",
    r"unknown provider 'nobody'; available: sim, flaky\nupstream_failed flaky\n",
]


@pytest.mark.process
@pytest.mark.parametrize(("example", "says"), list(zip(EXAMPLES, SAYS, strict=True)))
def test_examples_run_as_they_stand(tmp_path, example, says):
    (tmp_path / "gw.yaml").write_text(CONFIG)
    env = {name: value for name, value in os.environ.items() if not name.startswith("GW_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(says, done.stdout, re.IGNORECASE), done.stdout
