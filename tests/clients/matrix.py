"""Which client test proves what, and the table that a run of them writes into docs/dialects/README.md.

    GW_WRITE_MATRIX=1 uv run nox -s clients
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "dialects" / "README.md"
BEGIN, END = "<!-- matrix -->", "<!-- end of the matrix -->"
PROVES: Mapping[str, tuple[str, str]] = {
    "test_deepgram.py::test_sdk_recording": ("deepgram (Python)", "POST /v1/listen"),
    "test_deepgram.py::test_sdk_speech": ("deepgram (Python)", "POST /v1/speak"),
    "test_deepgram.py::test_sdk_live_transcription": ("deepgram (Python)", "WS /v1/listen"),
    "test_deepgram.py::test_sdk_live_speech": ("deepgram (Python)", "WS /v1/speak"),
    "test_deepgram.py::test_livekit_plugin": ("LiveKit Agents, deepgram", "WS and POST /v1/listen, WS /v1/speak"),
    "test_deepgram.py::test_pipecat_services": ("Pipecat, deepgram", "WS /v1/listen, WS /v1/speak"),
    "test_cartesia.py::test_sdk_speech": ("cartesia (Python)", "POST /tts/bytes, /tts/sse"),
    "test_cartesia.py::test_sdk_live_speech": ("cartesia (Python)", "WS /tts/websocket"),
    "test_cartesia.py::test_sdk_recording": ("cartesia (Python)", "POST /stt"),
    "test_cartesia.py::test_sdk_live_transcription": ("cartesia (Python)", "WS /stt/websocket"),
    "test_cartesia.py::test_livekit_plugin": ("LiveKit Agents, cartesia", "WS /tts/websocket, WS /stt/websocket or /stt/turns"),
    "test_cartesia.py::test_pipecat_services": ("Pipecat, cartesia", "WS /tts/websocket, WS /stt/websocket"),
    "test_elevenlabs.py::test_sdk_speech": ("elevenlabs (Python)", "POST /v1/text-to-speech/{voice}, four forms"),
    "test_elevenlabs.py::test_sdk_live_speech": ("elevenlabs (Python)", "WS …/stream-input"),
    "test_elevenlabs.py::test_sdk_recording": ("elevenlabs (Python)", "POST /v1/speech-to-text"),
    "test_elevenlabs.py::test_livekit_plugin": (
        "LiveKit Agents, elevenlabs", "POST …/stream, WS …/multi-stream-input, WS /v1/speech-to-text/realtime"
    ),
    "test_elevenlabs.py::test_pipecat_services": ("Pipecat, elevenlabs", "WS …/multi-stream-input"),
    "test_assemblyai.py::test_sdk_recording": ("assemblyai (Python)", "POST /v2/upload, /v2/transcript"),
    "test_assemblyai.py::test_sdk_live_transcription": ("assemblyai (Python)", "WS /v3/ws"),
    "test_assemblyai.py::test_livekit_plugin": ("LiveKit Agents, assemblyai", "WS /v3/ws"),
    "test_assemblyai.py::test_pipecat_service": ("Pipecat, assemblyai", "WS /v3/ws"),
}
"""Test → client and endpoints. Each runs with `who` = own and other."""


class Results:
    """Outcomes by test and by whoever answered: `own` vendor or `other`."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], bool] = {}

    def note(self, nodeid: str, passed: bool) -> None:
        path, _, rest = nodeid.partition("::")
        name, _, params = rest.partition("[")
        key = f"{Path(path).name}::{name}"
        for who in ("own", "other"):
            if key in PROVES and re.search(rf"\b{who}\b", params):
                self._found[key, who] = self._found.get((key, who), True) and passed

    def table(self) -> str:
        rows = ["| client, unchanged | endpoint | its own vendor behind | another vendor behind |", "|---|---|---|---|"]
        for key, (client, endpoint) in PROVES.items():
            cells = [_mark(self._found.get((key, who))) for who in ("own", "other")]
            rows.append(f"| {client} | {endpoint} | {cells[0]} | {cells[1]} |")
        return "\n".join(rows)

    def write(self, page: Path = PAGE) -> None:
        head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, tail = rest.partition(END)
        page.write_text(f"{head}{BEGIN}\n{self.table()}\n{END}{tail}", encoding="utf-8")


def _mark(passed: bool | None) -> str:
    return "not run" if passed is None else "yes" if passed else "**no**"
