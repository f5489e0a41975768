"""What all tests share: virtual time where a fixture chooses it, and no time limit for generated examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, settings

settings.register_profile("gw", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gw")  # a busy machine is no failure; how long things take is measured in bench/


def _run_on_virtual_time(test: Callable[[], Any], **options: Any) -> Any:
    return trio.run(test, **{**options, "clock": trio.testing.MockClock(autojump_threshold=0)})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a fixture choose `autojump_clock`: pytest-trio heeds only a clock that the test itself names."""
    for item in items:
        if isinstance(item, pytest.Function) and "autojump_clock" in item.fixturenames:
            own = item.function.__code__.co_varnames[: item.function.__code__.co_argcount]
            if "autojump_clock" not in own:
                item.add_marker(pytest.mark.trio(run=_run_on_virtual_time))
