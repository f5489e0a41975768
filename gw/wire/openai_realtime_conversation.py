"""OpenAI's realtime conversation over a WebSocket: the server's side, for an endpoint that puts three models together.

Source: openai-python 3.52.0, `types/realtime` (November 2026): which members typed clients insist on. The server speaks first;
`session.update` changes what is told and leaves the rest. Items make the conversation; a response is made of output items,
an item of content parts, a part of deltas.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.stt import ListenRequest
from gw.types.tts import SpeakLiveRequest
from gw.types.usage import Usage
from gw.wire.vendor_errors import filtered

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_G711 = {"audio/pcmu": "mulaw", "audio/pcma": "alaw"}
_PCM = {"type": "audio/pcm", "rate": 24_000}
_TURNS = {
    "type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500,
    "create_response": True, "interrupt_response": True,
}  # fmt: skip

Members = dict[str, Any]


def read_frame(frame: str | bytes) -> Members:
    """A client's event. Raises ClientProtocolError."""
    try:
        told = msgspec.json.decode(frame, type=Members)
    except _BAD_JSON:
        raise ClientProtocolError(what="a frame is not a JSON object") from None
    if not isinstance(told.get("type"), str):
        raise ClientProtocolError(what="type is missing", param="type")
    return told


def audio_of(told: Members) -> bytes:
    """Of `input_audio_buffer.append`. Raises ClientProtocolError."""
    try:
        return b64decode(told.get("audio") or "", validate=True)
    except (ValueError, TypeError):
        raise ClientProtocolError(what="'audio' must be base64", param="audio") from None


class RealtimeSession:
    """The settings in force, and the frames of one session."""

    def __init__(self, session_id: str, model: str) -> None:
        self.id = session_id
        self._events = self._made = 0
        self.settings: Members = {
            "type": "realtime",
            "object": "realtime.session",
            "id": f"sess_{session_id}",
            "model": model,
            "output_modalities": ["audio"],
            "instructions": "",
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": "inf",
            "audio": {
                "input": {"format": _PCM, "turn_detection": _TURNS, "transcription": None, "noise_reduction": None},
                "output": {"format": _PCM, "voice": "alloy", "speed": 1.0},
            },
        }

    # ---- settings

    def update(self, told: Members) -> None:
        """Members that are left out keep their value. Raises ClientProtocolError, and then changes nothing."""
        changed = _merged(self.settings, {n: v for n, v in told.items() if n not in ("id", "object", "type", "model")})
        try:
            _format(changed["audio"]["input"]["format"])
            _format(changed["audio"]["output"]["format"])
            turns, tools = changed["audio"]["input"]["turn_detection"], changed["tools"]
            fits = (turns is None or isinstance(turns, dict)) and isinstance(tools, list)
        except (KeyError, TypeError, AttributeError):
            fits = False
        if not fits:
            raise ClientProtocolError(what="'session' is not of the expected form", param="session")
        self.settings = changed

    @property
    def turns(self) -> Members:
        """How turns are taken; {} = the client commits them."""
        return self.settings["audio"]["input"]["turn_detection"] or {}

    def listen_request(self, model: str) -> ListenRequest:
        heard = self.settings["audio"]["input"]
        transcription = heard.get("transcription") or {}
        silence_ms = self.turns.get("silence_duration_ms")
        return ListenRequest(
            model=model,
            format=_format(heard["format"]),
            language=transcription.get("language"),
            endpointing_ms=silence_ms if isinstance(silence_ms, int) else None,
        )

    def speak_request(self, model: str) -> SpeakLiveRequest:
        spoken = self.settings["audio"]["output"]
        voice = spoken.get("voice")
        return SpeakLiveRequest(
            model=model, voice=voice if isinstance(voice, str) else "", format=_format(spoken["format"])
        )

    def chat_body(self, model: str, items: list[Members], asked: Members) -> bytes:
        """A streamed chat request over the conversation. `asked`: the members of `response.create`."""
        settings = self.settings | {name: value for name, value in asked.items() if value is not None}
        messages: list[Members] = []
        if settings["instructions"]:
            messages.append({"role": "system", "content": settings["instructions"]})
        messages += [message for item in items if (message := _message(item)) is not None]
        body: Members = {
            "model": model, "messages": messages, "stream": True, "stream_options": {"include_usage": True}
        }  # fmt: skip
        if functions := [tool for tool in settings["tools"] if tool.get("type") == "function"]:
            names = ("name", "description", "parameters")
            body["tools"] = [
                {"type": "function", "function": {n: tool[n] for n in names if n in tool}} for tool in functions
            ]
            body["tool_choice"] = settings["tool_choice"]
        if isinstance(settings["max_output_tokens"], int):
            body["max_completion_tokens"] = settings["max_output_tokens"]
        return msgspec.json.encode(body)

    # ---- frames

    def name(self, kind: str) -> str:
        """A new id, such as `item_…`."""
        self._made += 1
        return f"{kind}_{self.id[:16]}{self._made:04}"

    def frame(self, kind: str, **members: Any) -> str:
        self._events += 1
        return msgspec.json.encode({"type": kind, "event_id": f"event_{self.id}_{self._events}", **members}).decode()

    def about(self, kind: str) -> str:
        return self.frame(kind, session=self.settings)

    def error(self, *, type: str, code: str | None, message: str, event_id: str | None = None) -> str:  # noqa: A002  the wire's name
        fault = {"type": type, "code": code, "message": filtered(message), "param": None, "event_id": event_id}
        return self.frame("error", error=fault)

    def added(self, item: Members, before: str | None) -> list[str]:
        """An item joins the conversation, whole."""
        return [
            self.frame("conversation.item.added", item=item, previous_item_id=before),
            self.frame("conversation.item.done", item=item, previous_item_id=before),
        ]

    def response(self, id_: str, status: str, output: list[Members], usage: Usage | None, **details: Any) -> Members:
        return {
            "id": id_,
            "object": "realtime.response",
            "status": status,
            "status_details": {"type": status, **details} if details else None,
            "output": output,
            "output_modalities": self.settings["output_modalities"],
            "usage": None if usage is None else _usage(usage),
        }


def _merged(old: Members, new: Members) -> Members:
    """`new` over `old`, objects member by member. A list, a text and null replace what was there."""
    out = dict(old)
    for name, value in new.items():
        before = out.get(name)
        out[name] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return out


def _format(told: Any) -> AudioFormat:
    kind = told.get("type") if isinstance(told, dict) else None
    if kind == "audio/pcm" and told.get("rate") in (None, 24_000):
        return PCM_24K
    encoding = _G711.get(kind or "")
    if encoding is None:
        raise ClientProtocolError(what="a format must be audio/pcm at 24000, audio/pcmu or audio/pcma", param="format")
    return AudioFormat(encoding="mulaw" if encoding == "mulaw" else "alaw", sample_rate_hz=8_000)


def user_item(id_: str, transcript: str) -> Members:
    content = [{"type": "input_audio", "transcript": transcript}]
    return _item(id_, "user", content)


def assistant_item(id_: str, text: str, *, audio: bool, status: str = "completed") -> Members:
    part = {"type": "output_audio", "transcript": text} if audio else {"type": "output_text", "text": text}
    return _item(id_, "assistant", [part], status)


def _item(id_: str, role: str, content: list[Members], status: str = "completed") -> Members:
    return {"id": id_, "object": "realtime.item", "type": "message", "role": role, "status": status, "content": content}


def call_item(id_: str, call_id: str, name: str, arguments: str) -> Members:
    return {
        "id": id_, "object": "realtime.item", "type": "function_call", "status": "completed", "call_id": call_id,
        "name": name, "arguments": arguments,
    }  # fmt: skip


def checked_item(told: Any, id_: str) -> Members:
    """Of `conversation.item.create`. Raises ClientProtocolError."""
    if not isinstance(told, dict) or told.get("type") not in ("message", "function_call", "function_call_output"):
        raise ClientProtocolError(
            what="item.type must be message, function_call or function_call_output", param="item"
        )
    return {"object": "realtime.item", "status": "completed", **told, "id": told.get("id") or id_}


def _message(item: Members) -> Members | None:
    """An item as a message of a chat request; None for what says nothing."""
    match item.get("type"):
        case "function_call":
            call = {"name": item.get("name", ""), "arguments": item.get("arguments", "")}
            called = {"id": item.get("call_id", ""), "type": "function", "function": call}
            return {"role": "assistant", "content": None, "tool_calls": [called]}
        case "function_call_output":
            return {"role": "tool", "tool_call_id": item.get("call_id", ""), "content": str(item.get("output", ""))}
    parts = [part for part in item.get("content") or () if isinstance(part, dict)]
    text = "".join(str(part.get("text") or part.get("transcript") or "") for part in parts)
    return {"role": item.get("role", "user"), "content": text} if text else None


def _usage(usage: Usage) -> Members:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_token_details": {
            "text_tokens": usage.input_tokens, "audio_tokens": 0, "image_tokens": 0,
            "cached_tokens": usage.cached_input_tokens,
        },
        "output_token_details": {"text_tokens": usage.output_tokens, "audio_tokens": 0},
    }  # fmt: skip


def base64(data: bytes) -> str:
    return b64encode(data).decode()
