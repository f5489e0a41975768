"""The unchanged `openai` npm SDK, run by node: base URL, key and model names are ours."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

pytestmark = pytest.mark.clients

NODE = Path(__file__).with_name("node")
TEXT = "what is the weather in Paris today"
WITHIN_S = 60


@pytest.fixture(scope="session")
def run(demo, tool) -> Callable[[str], dict[str, Any]]:
    """`run("chat.mjs")` is what the script printed."""
    node = tool("node")
    if not (NODE / "node_modules" / "openai").is_dir():
        pytest.fail(f"the npm packages are not installed; run: npm ci --prefix {NODE}")

    def script(name: str) -> dict[str, Any]:
        done = subprocess.run(
            [node, str(NODE / name), demo.base, TEXT], capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        assert done.returncode == 0, done.stderr
        printed: dict[str, Any] = json.loads(done.stdout)
        return printed

    return script


def test_chat_whole_and_streamed(demo, run):
    printed = run("chat.mjs")
    assert printed["whole"] == "".join(printed["pieces"]) == TEXT
    assert len(printed["pieces"]) > 3
    assert printed["usage"]["total_tokens"] == printed["wholeUsage"]["total_tokens"] > 0
    assert {"sim/tone", "sim/echo", "sim/scripted", "sim/flaky"} <= set(printed["models"])
    assert demo.record(printed["requestID"])["status"] == "success"


def test_an_error_is_the_sdks_own_class(run):
    refused = run("chat.mjs")["refused"]
    assert (refused["isNotFound"], refused["status"]) == (True, 404)
    assert refused["requestID"]


def test_speech_and_its_transcription(demo, run, as_wav):
    printed = run("speech.mjs")
    assert printed["contentType"] == "audio/pcm"
    pcm = base64.b64decode(printed["pcm"])
    assert printed["pieces"] > 1
    assert printed["text"] == printed["verbose"]["text"] == printed["streamed"] == TEXT
    assert printed["verbose"]["duration"] == pytest.approx(len(pcm) / 48_000, abs=0.001)
    with openai.OpenAI(base_url=demo.base, api_key="any", max_retries=0) as client:
        heard = client.audio.transcriptions.create(model="sim/tone", file=("speech.wav", as_wav(pcm)))
    assert heard.text == TEXT


def test_the_lock_names_no_host():
    lock = (NODE / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in lock
    assert '"integrity": "sha512-' in lock
