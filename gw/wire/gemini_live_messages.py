"""The frames of the vendor of Gemini Live, with the members that gw reads. Sources: those of `gw.wire.gemini_live`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gw.wire.gemini_live_usage import LiveUsage


class Blob(msgspec.Struct, gc=False, rename="camel"):
    mime_type: str | None = None
    data: str | None = None


class _Part(msgspec.Struct, gc=False, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    inline_data: Blob | None = None


class _ModelTurn(msgspec.Struct, gc=False):
    parts: list[_Part] | None = None


class _Transcription(msgspec.Struct, gc=False):
    text: str | None = None
    finished: bool | None = None


class _Grounding(msgspec.Struct, gc=False, rename="camel"):
    web_search_queries: list[str] | None = None


class ServerContent(msgspec.Struct, gc=False, rename="camel"):
    model_turn: _ModelTurn | None = None
    turn_complete: bool | None = None
    generation_complete: bool | None = None
    interrupted: bool | None = None
    input_transcription: _Transcription | None = None
    output_transcription: _Transcription | None = None
    grounding_metadata: _Grounding | None = None
    turn_complete_reason: str | None = None


class FunctionCall(msgspec.Struct, gc=False):
    id: str | None = None
    name: str | None = None
    args: Any = None


class _ToolCall(msgspec.Struct, gc=False, rename="camel"):
    function_calls: list[FunctionCall] | None = None


class _Cancellation(msgspec.Struct, gc=False):
    ids: list[str] | None = None


class VoiceActivity(msgspec.Struct, gc=False, rename="camel"):
    voice_activity_type: str | None = None
    type: str | None = None
    audio_offset: str | None = None


class _Resumption(msgspec.Struct, gc=False, rename="camel"):
    new_handle: str | None = None
    resumable: bool | None = None


class ServerFrame(msgspec.Struct, gc=False, rename="camel"):
    server_content: ServerContent | None = None
    tool_call: _ToolCall | None = None
    tool_call_cancellation: _Cancellation | None = None
    usage_metadata: LiveUsage | None = None
    voice_activity: VoiceActivity | None = None
    session_resumption_update: _Resumption | None = None
    go_away: Any = None


SERVER_FRAME: Final = msgspec.json.Decoder(ServerFrame)
NO_CONTENT: Final = ServerContent()
