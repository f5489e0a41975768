"""`.ci/run` says by its exit status what the sessions said, with stand-ins for the programs that it calls."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"
PROGRAMS = (
    "flite", "promtool", "redis-server", "haproxy", "nginx", "systemd-analyze", "javac", "mvn", "node", "npm", "chromium", "go", "uv",
)  # fmt: skip
MVN = 'echo "$PPID" > "$HOME/fetching"'
"""The last thing that is fetched beside the sessions: say which process does it."""
WAIT = 'for _ in $(seq 400); do [ -s "$HOME/fetching" ] && ! kill -0 "$(cat "$HOME/fetching")" 2>/dev/null && break; sleep 0.05; done'
"""Let everything be fetched before a session ends, as it is where sessions take minutes."""


def run_with(folder: Path, uv: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of `.ci/run` in `folder` with programs that do nothing, and `uv` as a shell script of this body."""
    (folder / ".ci").mkdir()
    shutil.copy(RUN, folder / ".ci" / "run")
    programs = folder / "programs"
    programs.mkdir()
    bodies = {"mvn": MVN, "uv": f"[ \"$1\" = pip ] || {{ {WAIT}; {uv}; }}"}
    for name in PROGRAMS:
        path = programs / name
        path.write_text("#!/bin/sh\n" + bodies.get(name, "exit 0") + "\n")
        path.chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "TMPDIR": str(folder)}
    return subprocess.run(["bash", folder / ".ci" / "run"], env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("uv", "status"),
    [
        ("echo '3 passed in 0.10s'", 0),
        ("case \"$*\" in *clients*) echo '1 failed, 2 passed in 0.10s'; exit 1;; esac; echo '3 passed in 0.10s'", 1),
    ],
    ids=["all passed", "one session failed"],
)
def test_its_status_is_that_of_the_sessions(tmp_path: Path, uv: str, status: int) -> None:
    ended = run_with(tmp_path, uv)
    assert ended.returncode == status, ended.stderr
    closing = ended.stdout.partition("=== closing lines")[2]
    assert closing.count("passed in 0.10s") == 3
