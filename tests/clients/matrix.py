"""Which client test proves what, and the table that a run of them writes into docs/dialects/README.md.

    GW_WRITE_MATRIX=1 uv run nox -s clients
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "dialects" / "README.md"
_NOT_RUN = "not run"
BEGIN, END = "<!-- matrix -->", "<!-- end of the matrix -->"
PROVES: Mapping[str, tuple[str, str]] = {
    "test_openai_like.py::test_sdk_chat[openai]": ("openai (Python)", "POST /v1/chat/completions"),
    "test_responses.py::test_openai_sdk": ("openai (Python)", "POST /v1/responses"),
    "test_openai_like.py::test_sdk_audio[openai]": ("openai (Python)", "POST /v1/audio/speech, /v1/audio/transcriptions"),
    "test_realtime.py::test_openai_sdk": ("openai (Python)", "WS /v1/realtime, transcription"),
    "test_realtime.py::test_openai_sdk_conversation": ("openai (Python)", "WS /v1/realtime, conversation"),
    "test_responses.py::test_agents_sdk_takes_turns": ("openai-agents", "POST /v1/responses"),
    "test_openai_agents.py::test_two_turns_without_an_error": ("openai-agents, realtime", "WS /v1/realtime, conversation"),
    "test_node.py::test_chat_whole_and_streamed": ("openai (npm)", "POST /v1/chat/completions"),
    "test_node.py::test_speech_and_its_transcription": ("openai (npm)", "POST /v1/audio/speech, /v1/audio/transcriptions"),
    "test_chat_dialects.py::test_anthropic_sdk": ("anthropic (Python)", "POST /v1/messages"),
    "test_openai_like.py::test_sdk_chat[groq]": ("groq (Python)", "POST /openai/v1/chat/completions"),
    "test_openai_like.py::test_sdk_audio[groq]": ("groq (Python)", "POST /openai/v1/audio/speech, …/audio/transcriptions"),
    "test_deepgram.py::test_sdk_recording": ("deepgram (Python)", "POST /v1/listen"),
    "test_deepgram.py::test_sdk_speech": ("deepgram (Python)", "POST /v1/speak"),
    "test_deepgram.py::test_sdk_live_transcription": ("deepgram (Python)", "WS /v1/listen"),
    "test_deepgram.py::test_sdk_live_speech": ("deepgram (Python)", "WS /v1/speak"),
    "test_node_voices.py::test_npm_sdk[deepgram]": ("deepgram (npm)", "POST and WS /v1/listen, POST and WS /v1/speak"),
    "test_elevenlabs.py::test_sdk_speech": ("elevenlabs (Python)", "POST /v1/text-to-speech/{voice}, four forms"),
    "test_elevenlabs.py::test_sdk_live_speech": ("elevenlabs (Python)", "WS …/stream-input"),
    "test_elevenlabs.py::test_sdk_recording": ("elevenlabs (Python)", "POST /v1/speech-to-text"),
    "test_elevenlabs.py::test_sdk_live_transcription": ("elevenlabs (Python)", "WS /v1/speech-to-text/realtime"),
    "test_node_voices.py::test_npm_sdk[elevenlabs]": (
        "elevenlabs (npm)", "POST …/stream, …/with-timestamps, POST /v1/speech-to-text"
    ),
    "test_cartesia.py::test_sdk_speech": ("cartesia (Python)", "POST /tts/bytes, /tts/sse"),
    "test_cartesia.py::test_sdk_live_speech": ("cartesia (Python)", "WS /tts/websocket"),
    "test_cartesia.py::test_sdk_recording": ("cartesia (Python)", "POST /stt"),
    "test_cartesia.py::test_sdk_live_transcription": ("cartesia (Python)", "WS /stt/websocket"),
    "test_node_voices.py::test_npm_sdk[cartesia]": ("cartesia (npm)", "POST /tts/bytes, POST /stt"),
    "test_assemblyai.py::test_sdk_recording": ("assemblyai (Python)", "POST /v2/upload, /v2/transcript"),
    "test_assemblyai.py::test_sdk_live_transcription": ("assemblyai (Python)", "WS /v3/ws"),
    "test_livekit.py::test_plugin[openai]": (
        "LiveKit Agents, openai", "POST /v1/chat/completions, /v1/audio/speech, /v1/audio/transcriptions"
    ),
    "test_realtime.py::test_livekit_plugin": ("LiveKit Agents, openai", "WS /v1/realtime, transcription"),
    "test_realtime_frameworks.py::test_livekit_realtime_model": ("LiveKit Agents, openai", "WS /v1/realtime, conversation"),
    "test_deepgram.py::test_livekit_plugin": ("LiveKit Agents, deepgram", "WS and POST /v1/listen, WS /v1/speak"),
    "test_elevenlabs.py::test_livekit_plugin": (
        "LiveKit Agents, elevenlabs", "POST …/stream, WS …/multi-stream-input, WS /v1/speech-to-text/realtime"
    ),
    "test_cartesia.py::test_livekit_plugin": (
        "LiveKit Agents, cartesia", "WS /tts/websocket, WS /stt/websocket or /stt/turns"
    ),
    "test_assemblyai.py::test_livekit_plugin": ("LiveKit Agents, assemblyai", "WS /v3/ws"),
    "test_livekit.py::test_plugin[groq]": (
        "LiveKit Agents, groq", "POST /openai/v1/chat/completions, …/audio/speech, …/audio/transcriptions"
    ),
    "test_older_anthropic.py::test_livekit_plugin": ("LiveKit Agents, anthropic", "POST /v1/messages"),
    "test_livekit.py::test_inference_listens": ("LiveKit inference.STT", "WS /livekit/v1/stt"),
    "test_livekit.py::test_inference_thinks": ("LiveKit inference.LLM", "POST /livekit/v1/chat/completions"),
    "test_livekit.py::test_inference_speaks": ("LiveKit inference.TTS", "WS /livekit/v1/tts"),
    "test_pipecat.py::test_services[openai]": (
        "Pipecat, openai", "POST /v1/chat/completions, /v1/audio/speech, /v1/audio/transcriptions"
    ),
    "test_realtime.py::test_pipecat_service": ("Pipecat, openai", "WS /v1/realtime, transcription"),
    "test_realtime_frameworks.py::test_pipecat_realtime_service": ("Pipecat, openai", "WS /v1/realtime, conversation"),
    "test_deepgram.py::test_pipecat_services": ("Pipecat, deepgram", "WS /v1/listen, WS /v1/speak"),
    "test_elevenlabs.py::test_pipecat_services": ("Pipecat, elevenlabs", "WS …/multi-stream-input"),
    "test_cartesia.py::test_pipecat_services": ("Pipecat, cartesia", "WS /tts/websocket, WS /stt/websocket"),
    "test_assemblyai.py::test_pipecat_service": ("Pipecat, assemblyai", "WS /v3/ws"),
    "test_pipecat.py::test_services[groq]": (
        "Pipecat, groq", "POST /openai/v1/chat/completions, …/audio/speech, …/audio/transcriptions"
    ),
    "test_older_anthropic.py::test_pipecat_service": ("Pipecat, anthropic", "POST /v1/messages"),
}  # fmt: skip
"""Test, with one of its parameters where the others are other rows → client and endpoints. Each runs with own and other."""
_WHO = ("own", "other")


class Results:
    """Outcomes by test and by whoever answered: the client's `own` vendor or an `other`."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], bool] = {}

    def note(self, nodeid: str, passed: bool) -> None:
        path, _, rest = nodeid.partition("::")
        name, _, params = rest.removesuffix("]").partition("[")
        parameters = params.split("-")
        test = f"{Path(path).name}::{name}"
        for key in (test, *(f"{test}[{value}]" for value in parameters)):
            for who in _WHO:
                if key in PROVES and who in parameters:
                    self._found[key, who] = self._found.get((key, who), True) and passed

    def table(self, before: str) -> str:
        """What was not run keeps what the table says `before`: the clients need more than one environment."""
        stood = _cells(before)
        rows = ["| client, unchanged | endpoint | its own vendor behind | another vendor behind |", "|---|---|---|---|"]
        for key, vendors in PROVES.items():
            old = stood.get(vendors, (_NOT_RUN, _NOT_RUN))
            cells = [_mark(self._found.get((key, who)), old[n]) for n, who in enumerate(_WHO)]
            rows.append(f"| {' | '.join((*vendors, *cells))} |")
        return "\n".join(rows)

    def write(self, page: Path = PAGE) -> None:
        head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        before, _, tail = rest.partition(END)
        page.write_text(f"{head}{BEGIN}\n{self.table(before)}\n{END}{tail}", encoding="utf-8")


def _cells(table: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Client and endpoint → the result of earlier runs."""
    rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in table.strip().splitlines()]
    return {row[:2]: row[2:] for row in rows if len(row) == 4}


def _mark(passed: bool | None, before: str) -> str:
    return before if passed is None else "yes" if passed else "**no**"
