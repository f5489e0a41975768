"""`.ci/run` says by its exit status what the sessions said, with stand-ins for the programs that it calls."""

import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"
PROGRAMS = (
    "flite", "promtool", "redis-server", "haproxy", "nginx", "systemd-analyze", "javac", "mvn", "node", "npm", "chromium", "go", "uv",
)  # fmt: skip
GO = """
case "$1" in
    env) echo "$HOME/go";;
    build) sleep 0.2; while [ "$1" != -o ]; do shift; done; echo "echo 5 passed in 0.20s" > "$2"; chmod +x "$2";;
esac
"""
"""Build a program, which takes a while."""
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"  # without what go has built before
AHEAD = 'case "$*" in *--install-only*) echo "$*" >> "$HOME/installed";; esac'
"""Note what is installed beside the first sessions."""


def run_with(folder: Path, uv: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of `.ci/run` in `folder` with programs that do nothing, and `uv` as a shell script of this body."""
    (folder / ".ci").mkdir()
    for name in ("run", "go_programs"):
        shutil.copy(RUN.with_name(name), folder / ".ci" / name)
    programs = folder / "programs"
    programs.mkdir()
    bodies = {"go": GO, "uv": f"{AHEAD}; {uv}"}
    for name in PROGRAMS:
        path = programs / name
        path.write_text("#!/bin/sh\n" + bodies.get(name, "exit 0") + "\n")
        path.chmod(0o755)
    environment = {"PATH": f"{programs}:{SYSTEM}", "HOME": str(folder), "TMPDIR": str(folder)}
    return subprocess.run(["bash", folder / ".ci" / "run"], env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("uv", "status"),
    [
        ("echo '3 passed in 0.10s'", 0),
        ("case \"$*\" in *clients) echo '1 failed, 2 passed in 0.10s'; exit 1;; esac; echo '3 passed in 0.10s'", 1),
        ("case \"$*\" in *suites) echo '1 failed, 2 passed in 0.10s'; exit 1;; esac; echo '3 passed in 0.10s'", 1),
        ("case \"$*\" in *browser) echo '1 failed, 2 passed in 0.10s'; exit 1;; esac; echo '3 passed in 0.10s'", 1),
    ],
    ids=["all passed", "one session failed", "one of those beside it failed", "the last one failed"],
)
def test_its_status_is_that_of_the_sessions(tmp_path: Path, uv: str, status: int) -> None:
    ended = run_with(tmp_path, uv)
    assert ended.returncode == status, ended.stderr
    closing = ended.stdout.partition("=== closing lines")[2]
    assert closing.count("passed in 0.10s") == 10


def test_what_go_builds_is_there_when_the_tests_begin(tmp_path: Path) -> None:
    ended = run_with(tmp_path, 'case "$*" in *tests*) helm-chart;; esac')
    assert ended.returncode == 0, ended.stderr
    assert "5 passed in 0.20s" in ended.stdout.partition("=== closing lines")[2]


def test_the_wheel_that_was_compiled_beside_the_first_sessions_is_the_one_that_is_tested(tmp_path: Path) -> None:
    wheel = ".nox/compiled_wheel/tmp/dist/gw_voice-1-cp311.whl"
    build = f"*compiled_wheel) sleep 0.2; mkdir -p {Path(wheel).parent}; touch {wheel};;"
    ended = run_with(tmp_path, f'case "$*" in {build} *"-s compiled --"*) echo "tests $GW_WHEEL";; esac')
    assert ended.returncode == 0, ended.stderr
    assert f"tests {wheel}" in ended.stdout.splitlines()


def test_a_wheel_that_could_not_be_compiled_is_left_to_the_session(tmp_path: Path) -> None:
    ended = run_with(tmp_path, 'case "$*" in *compiled_wheel) exit 1;; *"-s compiled --"*) echo "tests <$GW_WHEEL>"; exit 1;; esac')
    assert ended.returncode == 1
    assert "tests <>" in ended.stdout.splitlines()


def test_what_was_installed_beside_the_first_sessions_is_not_installed_again(tmp_path: Path) -> None:
    ended = run_with(tmp_path, 'case "$*" in *--install-only*browser) exit 1;; *--install-only*) ;; *) echo "ran $*";; esac')
    assert ended.returncode == 0, ended.stderr
    ahead = [line.rpartition(" ")[2] for line in (tmp_path / "installed").read_text().splitlines()]
    assert ahead == ["clients", "browser", "clients_programs", "suites", "clients_older"]
    ran = [line for line in ended.stdout.splitlines() if line.startswith("ran ")]
    again = {line.rpartition(" ")[2] for line in ran if "-R" in line}
    assert again == {"clients", "clients_programs", "suites", "clients_older"}
    assert "ran run nox -s browser" in ran
