"""OpenAI's realtime conversation over a WebSocket: the server, for an endpoint that combines three models.

Source: openai-python 3.52.0, `types/realtime` (November 2026): which members typed clients insist on. The server speaks first;
`session.update` changes the members it contains and leaves the others. A conversation consists of items; a response consists
of output items, an item of content parts, a part of deltas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gw.types.audio import AudioFormat
from gw.types.stt import ListenRequest
from gw.types.tts import SpeakLiveRequest
from gw.types.usage import Usage
from gw.wire.json_codec import decode_client
from gw.wire.json_frames import Frame
from gw.wire.openai_realtime_items import chat_messages
from gw.wire.openai_realtime_server import PCM_FORMAT, EventFrames, EventRefused, audio_format
from gw.wire.openai_realtime_settings import DEFAULTS, RESPONSE, SESSION, Check, Members, check_members

DEFAULT_VOICE = "alloy"
SEMANTIC_SILENCE_MS = 300  # silence after which the words are judged, where words decide when a turn has ended
_MEMBERS = msgspec.json.Decoder(Members)


def read_frame(frame: Frame) -> Members:
    """Decode a client's event. Raises ClientProtocolError."""
    message = decode_client(_MEMBERS, frame)
    if not isinstance(message.get("type"), str):
        raise EventRefused(what="type is missing", param="type", event_code="missing_required_parameter")
    return message


class ResponseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one response: `settings` are the session's with the response's own over them."""

    settings: Members
    input: list[Any] | None = None
    """Items and references to items in place of the conversation, not checked yet."""
    in_conversation: bool = True
    """False for a response that leaves no items in the conversation."""

    @property
    def has_audio(self) -> bool:
        return "audio" in self.settings["output_modalities"]

    @property
    def format(self) -> AudioFormat:
        return _format(self.settings["audio"]["output"]["format"])

    def speak_request(self, model: str) -> SpeakLiveRequest:
        output = self.settings["audio"]["output"]
        voice, speed = output["voice"], output["speed"]
        voice = voice["id"] if isinstance(voice, dict) else voice
        return SpeakLiveRequest(
            model=model,
            voice=voice,
            format=self.format,
            speed=None if speed == 1 else speed,
        )

    def chat_body(self, model: str, items: list[Members]) -> bytes:
        """Return a streamed chat request over these items."""
        settings = self.settings
        messages = chat_messages(items)
        if settings["instructions"]:
            messages.insert(0, {"role": "system", "content": settings["instructions"]})
        body: Members = {
            "model": model, "messages": messages, "stream": True, "stream_options": {"include_usage": True}
        }  # fmt: skip
        if settings["tools"]:
            names = ("name", "description", "parameters")
            body["tools"] = [
                {"type": "function", "function": {n: tool[n] for n in names if n in tool}} for tool in settings["tools"]
            ]
            choice = settings["tool_choice"]
            named = {"type": "function", "function": {"name": choice["name"]}} if isinstance(choice, dict) else choice
            body["tool_choice"] = named
            if settings["parallel_tool_calls"] is not None:
                body["parallel_tool_calls"] = settings["parallel_tool_calls"]
        if isinstance(settings["max_output_tokens"], int):
            body["max_completion_tokens"] = settings["max_output_tokens"]
        if effort := (settings["reasoning"] or {}).get("effort"):
            body["reasoning_effort"] = effort
        return msgspec.json.encode(body)


class RealtimeSession(EventFrames):
    """The settings in force, and the frames of one session."""

    session_checks: Mapping[str, Check] = SESSION
    response_checks: Mapping[str, Check] = RESPONSE

    def __init__(self, session_id: str, model: str, transcription_model: str = "") -> None:
        """`transcription_model`: the model that transcribes unless the client names another."""
        super().__init__(session_id)
        self._ids = 0
        self._transcription_model = transcription_model
        self.conversation_id = self.new_id("conv")
        self.settings: Members = {
            "type": "realtime",
            "object": "realtime.session",
            "id": f"sess_{session_id}",
            "model": model,
            "output_modalities": ["audio"],
            "instructions": "",
            "tools": [],
            "tool_choice": "auto",
            "parallel_tool_calls": None,
            "max_output_tokens": "inf",
            "reasoning": None,
            "truncation": "auto",
            "tracing": None,
            "prompt": None,
            "include": None,
            "audio": {
                "input": {
                    "format": PCM_FORMAT,
                    "turn_detection": DEFAULTS["server_vad"],
                    "transcription": {"model": transcription_model},
                    "noise_reduction": None,
                },
                "output": {"format": PCM_FORMAT, "voice": DEFAULT_VOICE, "speed": 1.0},
            },
        }

    # ---- settings

    def update(self, update: object) -> list[EventRefused]:
        """Change the settings; members that are left out keep their value. Return the settings that are not done here.

        Raises EventRefused for an update that is malformed, and then changes nothing.
        """
        if update is None:
            raise EventRefused(what="session is missing", param="session", event_code="missing_required_parameter")
        refused: list[EventRefused] = []
        self.settings = check_members(update, "session", self.settings, self.session_checks, refused)
        transcription = self.transcription
        if transcription is not None and "/" not in transcription.get("model", ""):
            transcription["model"] = self._transcription_model  # a bare name is one of OpenAI's
        return refused

    def response_settings(self, options: object) -> ResponseSettings:
        """Return what a response is made of. Raises EventRefused, also for a setting that is not done here."""
        refused: list[EventRefused] = []
        names = ("instructions", "output_modalities", "max_output_tokens", "parallel_tool_calls", "tools", "tool_choice",
                 "reasoning", "prompt", "truncation", "audio")  # fmt: skip
        session = {name: self.settings[name] for name in names}
        settings = check_members({} if options is None else options, "response", session, self.response_checks, refused)
        if refused:
            raise refused[0]
        return ResponseSettings(
            settings=settings, input=settings.get("input"), in_conversation=settings.get("conversation") != "none"
        )

    @property
    def turns(self) -> Members:
        """Return the settings of turn detection; {} = the client commits turns."""
        return self.settings["audio"]["input"]["turn_detection"] or {}

    @property
    def transcription(self) -> Members | None:
        """Return the settings of transcription; None = the client wants no events about it."""
        transcription: Members | None = self.settings["audio"]["input"]["transcription"]
        return transcription

    def listen_request(self, model: str) -> ListenRequest:
        settings, transcription = self.settings["audio"]["input"], self.transcription or {}
        languages = transcription.get("languages") or [None]
        silence_ms = (
            SEMANTIC_SILENCE_MS if self.turns.get("type") == "semantic_vad" else self.turns.get("silence_duration_ms")
        )
        return ListenRequest(
            model=model,
            format=_format(settings["format"]),
            language=transcription.get("language") or languages[0],
            endpointing_ms=silence_ms,
            keyterms=tuple(transcription.get("keywords") or ()),
            prompt=transcription.get("prompt") or None,
        )

    # ---- frames

    def new_id(self, kind: str) -> str:
        """Return a new id, such as `item_…`."""
        self._ids += 1
        return f"{kind}_{self.id[:16]}{self._ids:04}"

    def about(self, kind: str) -> str:
        """Return an event with the settings in force."""
        return self.frame(kind, session=self.settings)

    def response(
        self,
        id_: str,
        made_of: ResponseSettings,
        status: str,
        output: list[Members],
        usage: Usage | None,
        **details: Any,
    ) -> Members:
        settings = made_of.settings
        audio = settings["audio"]["output"]
        return {
            "id": id_,
            "object": "realtime.response",
            "status": status,
            "status_details": {"type": status, **details} if details else None,
            "output": output,
            "output_modalities": settings["output_modalities"],
            "max_output_tokens": settings["max_output_tokens"],
            "audio": {"output": {"format": audio["format"], "voice": audio["voice"]}},
            "conversation_id": self.conversation_id if made_of.in_conversation else None,
            "metadata": settings.get("metadata"),
            "usage": None if usage is None else _usage(usage),
        }


def _format(settings: Members) -> AudioFormat:
    return audio_format(settings["type"], settings.get("rate"))


def _usage(usage: Usage) -> Members:
    audio, images = usage.input_audio_tokens, usage.dimensions.image_tokens
    cached_audio, cached_images = usage.dimensions.cached_audio_tokens, usage.dimensions.cached_image_tokens
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_token_details": {
            "text_tokens": usage.input_tokens - audio - images, "audio_tokens": audio, "image_tokens": images,
            "cached_tokens": usage.cached_input_tokens,
            "cached_tokens_details": {
                "text_tokens": usage.cached_input_tokens - cached_audio - cached_images, "audio_tokens": cached_audio,
                "image_tokens": cached_images,
            },
        },
        "output_token_details": {
            "text_tokens": usage.output_tokens - usage.output_audio_tokens, "audio_tokens": usage.output_audio_tokens,
        },
    }  # fmt: skip
