"""The unchanged npm SDKs of the voice vendors, run by node, over their own vendor and over another."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.clients.gateway_pair import TEXT, spoken_text

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours")]

NODE = Path(__file__).with_name("node")
PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
WITHIN_S = 120


@pytest.mark.parametrize("who", ["own", "other"])
@pytest.mark.parametrize("vendor", ["deepgram", "elevenlabs", "cartesia"])
def test_npm_sdk(vendor, who, drop_in, tool, tmp_path):
    if not (NODE / "node_modules").is_dir():
        pytest.fail(f"the npm packages are not installed; run: npm ci --prefix {NODE}")
    recording = tmp_path / "a.wav"
    recording.write_bytes(wav.header(PCM_16K, len(PCM)) + PCM)
    models = [drop_in.model(vendor, modality) for modality in ("stt", "tts")]
    command = [tool("node"), str(next(NODE.glob(f"{vendor}.?js"))), drop_in.at(vendor, who), *models, TEXT, str(recording)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["recording"] == TEXT
    assert printed["finals"] == [TEXT]
    assert spoken_text(base64.b64decode(printed["speech"]), 16_000) == TEXT
    if "live" in printed:
        assert spoken_text(base64.b64decode(printed["live"]), 16_000) == TEXT
