"""OpenAI's realtime conversation over a WebSocket: the server, for an endpoint that combines three models.

Source: openai-python 3.52.0, `types/realtime` (November 2026): which members typed clients insist on. The server speaks first;
`session.update` changes the members it contains and leaves the others. A conversation consists of items; a response consists
of output items, an item of content parts, a part of deltas.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import AudioFormat
from gw.types.stt import ListenRequest
from gw.types.tts import SpeakLiveRequest
from gw.types.usage import Usage
from gw.wire.json_codec import decode_client
from gw.wire.json_frames import Frame
from gw.wire.openai_realtime_server import DEFAULT_TURNS, PCM_FORMAT, EventFrames, audio_format

Members = dict[str, Any]

_MEMBERS = msgspec.json.Decoder(Members)


def read_frame(frame: Frame) -> Members:
    """Decode a client's event. Raises ClientProtocolError."""
    message = decode_client(_MEMBERS, frame)
    if not isinstance(message.get("type"), str):
        raise ClientProtocolError(what="type is missing", param="type")
    return message


class RealtimeSession(EventFrames):
    """The settings in force, and the frames of one session."""

    def __init__(self, session_id: str, model: str) -> None:
        super().__init__(session_id)
        self._ids = 0
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
                "input": {
                    "format": PCM_FORMAT,
                    "turn_detection": DEFAULT_TURNS | {"create_response": True, "interrupt_response": True},
                    "transcription": None,
                    "noise_reduction": None,
                },
                "output": {"format": PCM_FORMAT, "voice": "alloy", "speed": 1.0},
            },
        }

    # ---- settings

    def update(self, update: object) -> None:
        """Change the settings; members that are left out keep their value.

        Raises ClientProtocolError, and then changes nothing.
        """
        if not isinstance(update, dict):
            raise ClientProtocolError(what="session is missing", param="session")
        fixed = ("id", "object", "type", "model")
        changed = _merged(self.settings, {name: value for name, value in update.items() if name not in fixed})
        try:
            _format(changed["audio"]["input"]["format"])
            _format(changed["audio"]["output"]["format"])
            turns, tools = changed["audio"]["input"]["turn_detection"], changed["tools"]
            fits = (turns is None or isinstance(turns, dict)) and isinstance(tools, list)
        except (KeyError, TypeError, AttributeError):
            fits = False
        if not fits:
            raise ClientProtocolError(what="'session' does not have the expected form", param="session")
        self.settings = changed

    @property
    def turns(self) -> Members:
        """The settings of turn detection; {} = the client commits turns."""
        return self.settings["audio"]["input"]["turn_detection"] or {}

    def listen_request(self, model: str) -> ListenRequest:
        settings = self.settings["audio"]["input"]
        silence_ms = self.turns.get("silence_duration_ms")
        return ListenRequest(
            model=model,
            format=_format(settings["format"]),
            language=(settings.get("transcription") or {}).get("language"),
            endpointing_ms=silence_ms if isinstance(silence_ms, int) else None,
        )

    def speak_request(self, model: str) -> SpeakLiveRequest:
        settings = self.settings["audio"]["output"]
        voice = settings.get("voice")
        voice = voice if isinstance(voice, str) else ""
        return SpeakLiveRequest(model=model, voice=voice, format=_format(settings["format"]))

    def chat_body(self, model: str, items: list[Members], options: Members) -> bytes:
        """Return a streamed chat request over the conversation. `options`: the members of `response.create`."""
        settings = self.settings | {name: value for name, value in options.items() if value is not None}
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

    def new_id(self, kind: str) -> str:
        """Return a new id, such as `item_…`."""
        self._ids += 1
        return f"{kind}_{self.id[:16]}{self._ids:04}"

    def about(self, kind: str) -> str:
        """Return an event with the settings in force."""
        return self.frame(kind, session=self.settings)

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
    """Return `new` over `old`, objects member by member. Arrays, strings and null replace the old value."""
    merged = dict(old)
    for name, value in new.items():
        before = merged.get(name)
        merged[name] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def _format(settings: Any) -> AudioFormat:
    return audio_format(settings.get("type"), settings.get("rate")) if isinstance(settings, dict) else audio_format(None, None)


def user_item(id_: str, transcript: str) -> Members:
    return _item(id_, "user", [{"type": "input_audio", "transcript": transcript}])


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


def checked_item(item: Any, id_: str) -> Members:
    """Return the item of a `conversation.item.create`, with `id_` if it has none. Raises ClientProtocolError."""
    if not isinstance(item, dict) or item.get("type") not in ("message", "function_call", "function_call_output"):
        raise ClientProtocolError(
            what="item.type must be message, function_call or function_call_output", param="item"
        )
    return {"object": "realtime.item", "status": "completed", **item, "id": item.get("id") or id_}


def _message(item: Members) -> Members | None:
    """Return an item as a message of a chat request; None for one without text."""
    match item.get("type"):
        case "function_call":
            function = {"name": item.get("name", ""), "arguments": item.get("arguments", "")}
            call = {"id": item.get("call_id", ""), "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
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
