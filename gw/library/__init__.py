"""gw inside a Python program: the daemon's engine with the same fallback, limits, budgets and records.

    import gw

    with gw.Gateway() as g:
        for piece in g.llm("openai/gpt-4o").chat([{"role": "user", "content": "Hello"}]):
            print(piece, end="")

`Gateway` is for plain threads, `open_gateway` for trio. `llm`, `stt` and `tts` here belong to one gateway of the program,
which is made at first use from the configuration that `gw serve` would take.
"""

from __future__ import annotations

import threading

from gw.library.asynchronous import AsyncGateway, open_gateway
from gw.library.blocking import ChatStream, Gateway, Listening, Llm, Speaking, SpeechStream, Stt, Tts
from gw.library.responses import ChatReply, LiveSpeech, LiveTranscription, SpeechReply, ToolCall, Transcription
from gw.library.usage_events import UsageCollected

__all__ = [
    "AsyncGateway", "ChatReply", "ChatStream", "Gateway", "Listening", "LiveSpeech", "LiveTranscription", "Llm",
    "Speaking", "SpeechReply", "SpeechStream", "Stt", "ToolCall", "Transcription", "Tts", "UsageCollected", "llm",
    "open_gateway", "stt", "tts",
]  # fmt: skip

_making = threading.Lock()
_made: list[Gateway] = []


def _program_gateway() -> Gateway:
    """Raises ConfigError, RuntimeError inside an event loop."""
    with _making:
        if not _made:
            _made.append(Gateway())
        return _made[0]


def llm(model: str = "") -> Llm:
    """A language model of the program's own gateway, see `Gateway.llm`."""
    return _program_gateway().llm(model)


def stt(model: str = "") -> Stt:
    """Speech-to-text of the program's own gateway, see `Gateway.stt`."""
    return _program_gateway().stt(model)


def tts(model: str = "") -> Tts:
    """Text-to-speech of the program's own gateway, see `Gateway.tts`."""
    return _program_gateway().tts(model)
