"""The unchanged `openai` npm SDK, run by node: base URL, key and model names are ours."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.gateway_pair import TEXT, spoken_text

pytestmark = pytest.mark.clients

NODE = Path(__file__).with_name("node")
WITHIN_S = 120
WHO = pytest.mark.parametrize("who", ["own", "other"])


@pytest.fixture(scope="session")
def run(drop_in, tool) -> Callable[[str, str], dict[str, Any]]:
    """`run("chat.mjs", "own")` is what the script printed."""
    node = tool("node")
    if not (NODE / "node_modules" / "openai").is_dir():
        pytest.fail(f"the npm packages are not installed; run: npm ci --prefix {NODE}")

    def script(name: str, who: str) -> dict[str, Any]:
        models = [drop_in.model("openai", modality) for modality in ("stt", "llm", "tts")]
        command = [node, str(NODE / name), drop_in.at("openai", who) + "/v1", TEXT, *models]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        assert done.returncode == 0, done.stderr
        printed: dict[str, Any] = json.loads(done.stdout)
        return printed

    return script


@WHO
def test_chat_whole_and_streamed(drop_in, run, who):
    printed = run("chat.mjs", who)
    assert printed["whole"] == "".join(printed["pieces"]) == TEXT
    assert len(printed["pieces"]) > 3
    assert printed["usage"]["total_tokens"] == printed["wholeUsage"]["total_tokens"] > 0
    assert {"openai/gpt-4o-mini", "anthropic/claude-haiku-4-5", "deepgram/nova-3"} <= set(printed["models"])
    record = drop_in.record(who, printed["requestID"])
    assert (record["status"], record["provider"]) == ("success", "openai" if who == "own" else "anthropic")


@WHO
def test_an_error_is_the_sdks_own_class(run, who):
    refused = run("chat.mjs", who)["refused"]
    assert (refused["isNotFound"], refused["status"]) == (True, 404)
    assert refused["requestID"]


@WHO
def test_speech_and_its_transcription(run, who):
    printed = run("speech.mjs", who)
    assert printed["contentType"] == "audio/pcm"
    pcm = base64.b64decode(printed["pcm"])
    assert printed["pieces"] > 1
    assert printed["text"] == printed["streamed"] == TEXT
    if who == "own":  # gpt-4o-transcribe knows no times, and OpenAI refuses this form for it
        assert printed["verbose"] == {"refused": 400}
    else:
        assert printed["verbose"]["text"] == TEXT
        assert printed["verbose"]["duration"] == pytest.approx(len(pcm) / 48_000, abs=0.001)
    assert spoken_text(pcm, 24_000) == TEXT


def test_the_lock_names_no_host():
    lock = (NODE / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in lock
    assert '"integrity": "sha512-' in lock
