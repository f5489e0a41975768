"""LiveKit's example agents, from a clone and unchanged, in text against a gateway: `uv run nox -s suites_livekit -- FOLDER`.

Only the address of LiveKit's inference is ours; the names of the models are the examples' own and stand in no configuration.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.suites import livekit_suite
from tests.clients.suites.own_suite import FOLDER

pytestmark = pytest.mark.clients

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
EXAMPLES = {
    "voice_agents/basic_agent.py": "MyAgent",
    "expressive_agent/agent.py": "Friend",
    "telephony/amd.py": "MyAgent",
    "telephony/basic_dtmf_agent.py": "DtmfAgent",
}
"""File below `examples` → the class of its agent."""
REPLY = "Hello there, how are you?"
"""What the fake vendor answers."""
WITHIN_S = 120


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with livekit_suite.open_gateway(tmp_path_factory.mktemp("livekit")) as gateway:
        yield {
            **os.environ,
            "LIVEKIT_API_KEY": "any",
            "LIVEKIT_API_SECRET": "any",
            "LIVEKIT_INFERENCE_API_KEY": "any-key",
            "LIVEKIT_INFERENCE_API_SECRET": "long enough for its signature",
            "LIVEKIT_INFERENCE_URL": f"{gateway.address}/livekit/v1",
            "SSL_CERT_FILE": str(gateway.authority),
        }


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_answers(environment: dict[str, str], example: str) -> None:
    clones = os.environ.get("GW_CLONES")
    assert clones, "GW_CLONES names no folder with clones: run uv run nox -s suites_livekit -- FOLDER"
    file = Path(clones) / "agents" / "examples" / example
    command = [sys.executable, str(FOLDER / "livekit_agent.py"), str(file), EXAMPLES[example], "good morning"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [REPLY]


def test_the_page_names_them() -> None:
    page = PAGE.read_text("utf-8")
    assert [example for example in EXAMPLES if f"`{example}`" not in page] == []
