"""gw inside an asyncio program: `open_gateway` runs the gateway in a thread of its own, see docs/library.md."""

from __future__ import annotations

from gw.library.asyncio_gateway import (
    AsyncioChat,
    AsyncioGateway,
    AsyncioLiveSpeech,
    AsyncioLlm,
    AsyncioSpeech,
    AsyncioStt,
    AsyncioTranscription,
    AsyncioTts,
    open_gateway,
)

__all__ = [
    "AsyncioChat", "AsyncioGateway", "AsyncioLiveSpeech", "AsyncioLlm", "AsyncioSpeech", "AsyncioStt", "AsyncioTranscription",
    "AsyncioTts", "open_gateway",
]  # fmt: skip
