"""Pipecat's examples, from a clone and unchanged, with the client of its own evaluation: `uv run nox -s suites_pipecat -- FOLDER`.

Each bot runs with the server that Pipecat brings for local use. Its evaluation connects to it over a WebSocket on loopback, types, and
checks what the bot answers. Speech is off in this mode; recognition and speech are connected to the gateway all the same.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.clients.gateway_pair import TEXT
from tests.clients.suites.own_suite import FOLDER

pytestmark = pytest.mark.clients

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
EXAMPLES = (
    "getting-started/06-voice-agent.py",
    "getting-started/07-function-calling.py",
    "voice/voice-deepgram.py",
    "voice/voice-assemblyai.py",
    "voice/voice-openai-http.py",
)
SCENARIO = f"""
name: gateway
scenarios:
  - name: chat
    turns:
      - expect: [{{event: llm_response, text_contains: "{TEXT}"}}]
      - user: "good morning"
        expect: [{{event: llm_response, text_contains: "{TEXT}"}}]
"""
"""The bot speaks first, and answers."""
_LISTENS = re.compile(r"Uvicorn running on http://127\.0\.0\.1:(\d+)")
WITHIN_S = 120


@pytest.fixture
def environment(drop_in: Any) -> Mapping[str, str]:
    at = drop_in.at("deepgram", "own")
    keys = {f"{vendor}_API_KEY": "any" for vendor in ("OPENAI", "DEEPGRAM", "CARTESIA", "ASSEMBLYAI")}
    return {**os.environ, **keys, "GW_AT": at, "OPENAI_BASE_URL": f"{at}/v1", "PYTHONUNBUFFERED": "1"}


@contextmanager
def running(file: Path, environment: Mapping[str, str], log: Path) -> Iterator[str]:
    """Run an example; yield the address at which it takes its user."""
    command = [sys.executable, str(FOLDER / "pipecat_bot.py"), str(file), "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as bot:
        assert bot.stdout is not None
        try:
            port = _port(bot.stdout, file)
            # Somebody has to read what it says, or it would stop once the pipe is full.
            with log.open("wb") as out, subprocess.Popen(["cat"], stdin=bot.stdout, stdout=out):
                try:
                    yield f"ws://127.0.0.1:{port}/ws"
                finally:
                    bot.kill()
        finally:
            bot.kill()


def _port(lines: IO[str], file: Path) -> str:
    """Return the port on which the bot listens, once it says so."""
    said = ""
    for line in lines:
        said += line
        if (found := _LISTENS.search(line)) is not None:
            return found[1]
    pytest.fail(f"{file} ended: {said[-3_000:]}")


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_answers(environment: Mapping[str, str], example: str, tmp_path: Path) -> None:
    clones = os.environ.get("GW_CLONES")
    assert clones, "GW_CLONES names no folder with clones: run uv run nox -s suites_pipecat -- FOLDER"
    scenario = tmp_path / "gateway.yaml"
    scenario.write_text(SCENARIO, "utf-8")
    with running(Path(clones) / "pipecat" / "examples" / example, environment, tmp_path / "bot.log") as address:
        command = [sys.executable, "-m", "pipecat.evals", "run", str(scenario), "--bot-url", address, "--logs-dir", str(tmp_path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    log = (tmp_path / "bot.log").read_text("utf-8")
    assert done.returncode == 0, done.stdout[-3_000:] + log[-3_000:]
    assert "1/1 passed" in done.stdout
    assert not re.search(r"\| ERROR", log), log[-3_000:]


def test_the_page_names_them() -> None:
    page = PAGE.read_text("utf-8")
    assert [example for example in EXAMPLES if f"`{example}`" not in page] == []
