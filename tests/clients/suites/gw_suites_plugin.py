"""A plugin of pytest for an SDK's own suite: it leaves out what would reach no server, and runs what is off for want of one.

Some suites switch tests off because their authors' mock server cannot answer them; a gateway can. Tests that replace the network
by respx, or that expect the SDK to refuse an empty id by itself, say nothing about a server. ElevenLabs' tests name no address: its
client takes the one of its production environment, which is set here.
"""

from __future__ import annotations

import os
from typing import Any

NO_SERVER = "Mock server tests are disabled"
MOCKED = {"respx_mock", "respx2_mock"}


def _reaches_a_server(item: Any) -> bool:
    return not MOCKED & set(item.fixturenames) and "test_path_params_" not in item.name


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    left_out = [item for item in items if not _reaches_a_server(item)]
    items[:] = [item for item in items if _reaches_a_server(item)]
    config.hook.pytest_deselected(items=left_out)
    for item in items:
        item.own_markers[:] = [m for m in item.own_markers if not (m.name == "skip" and NO_SERVER in str(m.kwargs.get("reason")))]


def pytest_configure() -> None:
    if address := os.environ.get("GW_ELEVENLABS_URL"):
        from elevenlabs.environment import ElevenLabsEnvironment

        ElevenLabsEnvironment.PRODUCTION._value_ = address
