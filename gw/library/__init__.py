"""gw inside a Python program: the daemon's engine with the same fallback, limits, budgets and records.

    import gw

    with gw.Gateway() as g:
        for piece in g.llm("openai/gpt-4o").chat([{"role": "user", "content": "Hello"}]):
            print(piece, end="")

`Gateway` is for plain threads, `open_gateway` for trio. `llm`, `stt` and `tts` use one gateway of the program, which is made
at their first call from the configuration that `gw serve` would take.
"""

from __future__ import annotations

import threading

from gw.library.asynchronous import AsyncGateway, open_gateway
from gw.library.blocking import BlockingGateway as Gateway
from gw.library.blocking import ChatTextStream as ChatStream
from gw.library.blocking import Listening, Llm, Speaking, SpeechStream, Stt, Tts
from gw.library.responses import ChatReply, LiveSpeech, LiveTranscription, SpeechReply, ToolCall, Transcription
from gw.library.usage_events import UsageCollected

__all__ = [
    "AsyncGateway", "ChatReply", "ChatStream", "Gateway", "Listening", "LiveSpeech", "LiveTranscription", "Llm",
    "Speaking", "SpeechReply", "SpeechStream", "Stt", "ToolCall", "Transcription", "Tts", "UsageCollected", "llm",
    "open_gateway", "stt", "tts",
]  # fmt: skip

_lock = threading.Lock()
_gateways: list[Gateway] = []


def _program_gateway() -> Gateway:
    """Return the program's gateway, made at the first call. Raises ConfigError, RuntimeError inside an event loop."""
    with _lock:
        if not _gateways:
            _gateways.append(Gateway())
        return _gateways[0]


def llm(model: str = "") -> Llm:
    """Return a language model of the program's gateway, see `Gateway.llm`."""
    return _program_gateway().llm(model)


def stt(model: str = "") -> Stt:
    """Return a speech-to-text model of the program's gateway, see `Gateway.stt`."""
    return _program_gateway().stt(model)


def tts(model: str = "") -> Tts:
    """Return a text-to-speech model of the program's gateway, see `Gateway.tts`."""
    return _program_gateway().tts(model)
